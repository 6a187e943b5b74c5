"""`luong translate`: lines in, translations out."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Annotated, Any

import typer

from luong.cli.options import (
    BatchSize,
    BeamSize,
    BlockNgrams,
    Device,
    Int8,
    MinLength,
    Models,
    Shortlisted,
    Workers,
)

if TYPE_CHECKING:
    from luong.search import Translation, Translator


def translate(
    models: Models,
    beam_size: BeamSize = 5,
    batch_size: BatchSize = None,
    scores: Annotated[bool, typer.Option("--scores", help="Print score, tab, text.")] = False,
    n_best: Annotated[
        int | None, typer.Option(min=1, help="Print a JSON object a line with so many results.")
    ] = None,
    alignments: Annotated[
        str | None, typer.Option(help="Write word links in Pharaoh form.", metavar="FILE")
    ] = None,
    int8: Int8 = False,
    shortlist: Shortlisted = False,
    min_length: MinLength = 0,
    block_ngrams: BlockNgrams = 0,
    mark_copied: Annotated[
        bool, typer.Option("--mark-copied", help="Put what was copied in ⟦white brackets⟧.")
    ] = False,
    workers: Workers = 1,
    device: Device = "cpu",
) -> None:
    """Translate the lines of the standard input; one line comes out for each line that goes in."""
    from luong.cli.lines import input_lines, print_line, whole_text_file
    from luong.errors import UserError
    from luong.search.links import pharaoh
    from luong.search.workers import open_translator

    if n_best and n_best > beam_size:
        raise UserError(
            f"--n-best {n_best} needs a beam as wide: add --beam-size {n_best} or more."
        )
    options = {
        "beam_size": beam_size,
        "batch_size": batch_size,
        "shortlist": shortlist,
        "min_length": min_length,
        "block_ngrams": block_ngrams,
    }
    with (
        open_translator(models, workers=workers, device=device, int8=int8) as translator,
        whole_text_file(alignments) as links,
    ):
        for results in _results(translator, input_lines(), n_best or 1, options):
            best = results[0]
            if n_best:
                print_line(json.dumps(_object(results), ensure_ascii=False))
            else:
                text = best.marked if mark_copied else best.text
                print_line(f"{best.score:.6f}\t{text}" if scores else text)
            if links:
                links.write(pharaoh(best.alignment) + "\n")


def _results(
    translator: Translator, lines: Iterable[str], n_best: int, options: dict[str, Any]
) -> Iterator[list[Translation]]:
    """For each line its translations, best first; at once where a person types."""
    if sys.stdin.isatty():
        for line in lines:
            result = translator.translate(line, n_best=n_best, **options)
            yield result if isinstance(result, list) else [result]
        return
    for result in translator.translate_lines(lines, n_best=n_best, **options):
        yield result if isinstance(result, list) else [result]


def _object(results: list[Translation]) -> dict[str, Any]:
    return {
        "source": results[0].source,
        "translations": [
            {
                "text": result.text,
                "score": result.score,
                "alignment": result.alignment,
                "copied": result.copied,
            }
            for result in results
        ],
    }
