"""`luong train`: train a model."""

from __future__ import annotations

import shlex
from typing import Annotated, Any

import typer


def train(
    settings: Annotated[str, typer.Argument(help="The TOML file of the run.", metavar="RUN.toml")],
    override: Annotated[
        list[str] | None,
        typer.Option("--set", help="Change a setting.", metavar="SECTION.KEY=VALUE"),
    ] = None,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last save, if there is one.")
    ] = False,
) -> None:
    """Train a model as a file of settings says; its output folder becomes the model folder."""
    from luong.config import load_config
    from luong.training import train as train_model
    from luong.training.page import write_run_page

    config = load_config(settings, override)
    result = train_model(config, resume=resume)
    if result.interrupted:
        options = "".join(f" --set {shlex.quote(item)}" for item in override or [])
        again = f"luong train {shlex.quote(settings)}{options} --resume"
        typer.echo(f"\nInterrupted and saved. Go on with:\n  {again}")
        raise typer.Exit(130)
    page = write_run_page(result.folder)
    folder = shlex.quote(str(result.folder))
    typer.echo(f"\n{result.reason}; best validation {_best(result.scores)}")
    typer.echo(f"report:     {page}")
    verb = config.task
    files = "picture.png" if verb == "caption" else "< in > out"
    typer.echo(f"{verb}:{' ' * (11 - len(verb))}luong {verb} {folder} {files}")


def _best(scores: dict[str, Any]) -> str:
    step = scores.get("step", 0)
    if "symbol_error_rate" in scores:
        return f"{scores['exact_match']:.1%} exactly right at update {step}"
    if "accuracy" in scores:
        return f"accuracy {scores['accuracy']:.1%} at update {step}"
    return f"BLEU {scores.get('bleu', 0.0):.1f} at update {step}"
