"""`luong init`: settings to start from."""

from __future__ import annotations

from typing import Annotated

import typer


def init(
    preset: Annotated[str, typer.Option(help="What to start from.")] = "translate",
) -> None:
    """Print a file of settings; send it to a file and change it: luong init > run.toml."""
    from luong.presets import preset_text

    typer.echo(preset_text(preset), nl=False)
