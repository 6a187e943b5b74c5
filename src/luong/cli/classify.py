"""`luong classify`: texts in, labels out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from luong.cli.options import Device

if TYPE_CHECKING:
    from luong.classification import Classification, Classifier

EXPLAINED = 200  # texts of an explanation page: with many more a browser stops


def classify(
    model: Annotated[str, typer.Argument(help="The model folder.", metavar="MODEL")],
    explain: Annotated[
        str | None,
        typer.Option(help="Also write what was attended to.", metavar="FILE.html|FILE.json"),
    ] = None,
    device: Device = "cpu",
) -> None:
    """Classify the lines of the standard input: label, tab, probability for each line.

    Where labels are decided apart, those found and their probabilities, separated by commas.
    """
    from luong.classification import Classifier
    from luong.cli.lines import input_lines, print_line, whole_text_file
    from luong.errors import UserError
    from luong.folder import load_classifier_folder

    kind = Path(explain).suffix if explain else ""
    if kind not in ("", ".html", ".json"):
        raise UserError(f"--explain {explain}: name a file that ends in .html or .json.")
    classifier = Classifier(load_classifier_folder(model, device))
    explained: list[Classification] = []
    count = 0
    with whole_text_file(explain if kind == ".json" else None) as file:
        for result in _results(classifier, input_lines()):
            print_line(_line(result))
            if file:
                # One object after the other: memory stays bounded, whatever goes in.
                file.write(",\n" if count else "[\n")
                file.write(json.dumps(result.as_object(), ensure_ascii=False))
            elif explain and count < EXPLAINED:
                explained.append(result)
            count += 1
        if file:
            file.write("\n]\n" if count else "[]\n")
    if kind == ".html":
        from luong.view.explanation import write_explanation

        write_explanation(str(explain), explained, title=Path(model).resolve().name, total=count)


def _results(classifier: Classifier, lines: Iterable[str]) -> Iterator[Classification]:
    """At once where a person types."""
    if sys.stdin.isatty():
        return map(classifier.classify, lines)
    return classifier.classify_texts(lines)


def _line(result: Classification) -> str:
    shares = ",".join(f"{result.probabilities[name]:.4f}" for name in result.labels)
    return f"{result.label}\t{shares}"
