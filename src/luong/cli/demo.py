"""`luong demo`: train a small translator on the corpus inside the package, and look at it."""

from __future__ import annotations

import contextlib
import shlex
import sys
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from luong.search import Translator

SENTENCES = (
    "Ich habe dir das schon gesagt.",
    "Tom will nicht mit Maria sprechen.",
    "Kannst du mir bitte helfen?",
    "Warum hast du das getan?",
    "Es ist jetzt sehr kalt.",
)


def demo(
    output: Annotated[str, typer.Option(help="The model folder.", metavar="FOLDER")] = "runs/demo",
) -> None:
    """Train German to English in about a minute, score it, and write pictures and a report."""
    run_demo(Path(output))


def run_demo(output: Path) -> None:
    """Train on the embedded corpus (or go on with it), evaluate, and show the result.

    A run that is complete already is not trained again.

    Args:
        output: The model folder.

    Raises:
        UserError: The folder cannot be used.
    """
    import tomllib

    import luong
    from luong.cli.evaluate import evaluate_files
    from luong.config import PairFiles, parse_config
    from luong.presets import preset_text
    from luong.text.corpus import LineFile
    from luong.training import train
    from luong.training.page import write_run_page
    from luong.training.report import read_metrics
    from luong.view.curves import learning_curves
    from luong.view.heatmap import heatmap

    with resources.as_file(resources.files("luong.data")) as data:
        table = tomllib.loads(preset_text("demo"))
        for part in ("train", "valid"):
            files = table["data"][part]
            table["data"][part] = {side: str(data / name) for side, name in files.items()}
        config = parse_config(table | {"output": str(output)})
        result = train(config, resume=True)
        if result.interrupted:
            again = f"luong demo --output {shlex.quote(str(output))}"
            typer.echo(f"\nInterrupted and saved. Go on with:\n  {again}")
            raise typer.Exit(130)
        files = PairFiles(source=data / "test.de", target=data / "test.en")
        scores, _ = evaluate_files(str(output), files)
        test = [LineFile(data / "test.de"), LineFile(data / "test.en")]
        pairs = [(test[0][line], test[1][line]) for line in range(0, 500, 63)]
    translator = luong.load(output)
    typer.echo("")
    for translation in translator.translate(list(SENTENCES)):
        typer.echo(f"{translation.source}\n    {translation.text}")
    samples = translator.translate([source for source, _ in pairs])
    drawn = [sample for sample in samples if sample.tokens][:4]
    for number, sample in enumerate(drawn, 1):
        heatmap(
            sample.attention,
            sample.source_tokens,
            sample.tokens,
            path=output / f"attention-{number}.png",
        )
    learning_curves(read_metrics(output), path=output / "learning-curves.png")
    page = write_run_page(output, samples, [reference for _, reference in pairs], scores)
    typer.echo(f"\ntest BLEU: {scores['bleu']:.1f}")
    typer.echo(f"report: {page}")
    if sys.stdin.isatty() and sys.stdout.isatty():
        _converse(translator)


def _converse(translator: Translator) -> None:
    """Translate what a person types, until an empty line or the end of the input."""
    typer.echo("\nType a German sentence (an empty line ends):")
    with contextlib.suppress(EOFError):
        while line := input("> ").strip():
            typer.echo(translator.translate(line).text)
