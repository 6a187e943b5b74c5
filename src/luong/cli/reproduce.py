"""`luong reproduce`: the experiments of the papers, on the demo corpus or one's own."""

from __future__ import annotations

import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import Annotated

import typer


def reproduce(
    paper: Annotated[
        str, typer.Argument(help="luong2015 or bahdanau2015.", metavar="PAPER", show_default=False)
    ],
    data: Annotated[
        str | None,
        typer.Option(
            help="Folder of train.*, dev.*, test.*, and gold.* if there are gold links.",
            metavar="FOLDER",
            show_default="the demo corpus",
        ),
    ] = None,
    languages: Annotated[
        str, typer.Option(help="Endings of source and target files.", metavar="SOURCE-TARGET")
    ] = "de-en",
    test: Annotated[str, typer.Option(help="Name of the test files.", metavar="NAME")] = "test",
    minutes: Annotated[float, typer.Option(help="Budget of the whole run.")] = 15.0,
    output: Annotated[
        str | None,
        typer.Option(help="Where everything is written.", show_default="runs/PAPER"),
    ] = None,
    hidden_size: Annotated[int, typer.Option(min=2, help="Units of a layer.")] = 128,
    layers: Annotated[int, typer.Option(min=1, help="Of encoder and decoder.")] = 1,
    vocabulary_size: Annotated[
        int,
        typer.Option(min=0, help="Words of each side.", show_default="97 % of the target text"),
    ] = 0,
    seed: Annotated[int, typer.Option(min=0, help="Of every system.")] = 1,
) -> None:
    """Train and measure the systems of a paper, and print its table beside the paper's figures.

    What is done is not done again: give the same command to go on with an interrupted run.
    """
    from rich.console import Console

    from luong.errors import UserError, nearest
    from luong.reproduce import bahdanau2015, luong2015
    from luong.reproduce.corpus import open_corpus
    from luong.reproduce.experiment import Size

    papers = {"luong2015": luong2015.reproduce, "bahdanau2015": bahdanau2015.reproduce}
    if paper not in papers:
        raise UserError(
            f"There is no paper '{paper}' to reproduce.{nearest(paper, papers)} Known: "
            f"{', '.join(papers)}."
        )
    folder = Path(output or f"runs/{paper}")
    size = Size(hidden_size, layers, vocabulary_size, seed)
    with resources.as_file(resources.files("luong.data")) as demo:
        corpus = open_corpus(Path(data) if data else demo, languages, test)
        # The table alone goes to the standard output.
        table = papers[paper](corpus, size, minutes, folder, Console(stderr=True))
    if table is None:
        again = shlex.join(["luong", *sys.argv[1:]])
        typer.echo(f"\nInterrupted and saved. Go on with:\n  {again}", err=True)
        raise typer.Exit(130)
    typer.echo(table)
    typer.echo(f"\ncurves, alignments and systems: {folder}", err=True)
