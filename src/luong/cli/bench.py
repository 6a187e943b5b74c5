"""`luong bench`: how fast the kernels are here, beside what people write by hand."""

from __future__ import annotations

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer


class Section(StrEnum):
    """A part of the benchmark."""

    additive = "additive"
    attention = "attention"
    local = "local"


def bench(
    quick: Annotated[
        bool, typer.Option("--quick", help="Small sizes, to see that it works.")
    ] = False,
    only: Annotated[Section | None, typer.Option(help="Only this part.")] = None,
    threads: Annotated[
        int | None, typer.Option(min=1, help="Threads to use.", show_default="as torch")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Also write the tables as Markdown.", metavar="FILE.md")
    ] = None,
    as_json: Annotated[
        str | None, typer.Option("--json", help="Also write all figures.", metavar="FILE")
    ] = None,
) -> None:
    """Time and check the kernels beside eager and compiled PyTorch; about ten minutes."""
    import torch

    from luong.benchmark.report import markdown
    from luong.benchmark.suite import SECTIONS, Suite
    from luong.errors import UserError
    from luong.files import write_whole

    suite = Suite(
        threads or torch.get_num_threads(),
        quick=quick,
        progress=lambda line: typer.echo(line, err=True),
    )
    suite.run((only.value,) if only else SECTIONS)
    for table in suite.tables():
        typer.echo(table.text())
    if output:
        write_whole(Path(output), markdown(suite).encode())
    if as_json:
        write_whole(Path(as_json), (json.dumps(suite.as_object(), indent=1) + "\n").encode())
    if wrong := suite.wrong():
        raise UserError(f"Wrong results, their times mean nothing: {', '.join(wrong)}.")
