"""`luong evaluate`: translate a file and compare with its reference."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import typer


def evaluate(
    models: Annotated[
        list[str],
        typer.Argument(help="The model folder; several are an ensemble.", metavar="MODEL..."),
    ],
    source: Annotated[str, typer.Option(help="What to translate.", metavar="FILE")],
    reference: Annotated[str, typer.Option(help="What it should be.", metavar="FILE")],
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    beam_size: Annotated[int, typer.Option(min=1, help="Hypotheses kept a sentence.")] = 5,
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Most sentences in a batch.", show_default="64")
    ] = None,
    output: Annotated[
        str | None, typer.Option(help="Also write the translations.", metavar="FILE")
    ] = None,
    int8: Annotated[
        bool, typer.Option("--int8", help="Put the weights in int8: faster on CPUs.")
    ] = False,
    shortlist: Annotated[
        bool, typer.Option("--shortlist", help="Keep to likely tokens, see `luong shortlist`.")
    ] = False,
    workers: Annotated[
        int, typer.Option(min=1, help="Processes that share the threads: for big files.")
    ] = 1,
    device: Annotated[str, typer.Option(help="Where to compute.")] = "cpu",
) -> None:
    """Score a model on a file: BLEU, chrF, TER and exact match, with sacreBLEU's signatures."""
    from luong.files import write_whole

    search = {"beam_size": beam_size, "batch_size": batch_size, "shortlist": shortlist}
    scores, texts = evaluate_files(
        models, source, reference, device=device, int8=int8, workers=workers, **search
    )
    _print_scores(scores, as_json)
    if output:
        write_whole(Path(output), "".join(text + "\n" for text in texts).encode())


def _print_scores(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(scores))
        return
    typer.echo(f"BLEU         {scores['bleu']:.2f}")
    typer.echo(f"chrF         {scores['chrf']:.2f}")
    typer.echo(f"TER          {scores['ter']:.2f}")
    typer.echo(f"exact match  {scores['exact_match']:.2%}")
    typer.echo(f"speed        {scores['sentences_per_second']:.1f} sentences/s")
    for signature in scores["signatures"].values():
        typer.echo(f"signature    {signature}")


def evaluate_files(
    models: str | Sequence[str],
    source: str,
    reference: str,
    *,
    device: str = "cpu",
    int8: bool = False,
    workers: int = 1,
    **search: Any,
) -> tuple[dict[str, Any], list[str]]:
    """Translate a file and score the result.

    Args:
        models: The model folder, or those of an ensemble.
        source: The file to translate.
        reference: The file it should become, of as many lines.
        device: Where to compute.
        int8: Put the weights in int8.
        workers: How many processes translate.
        search: Options of `Translator.translate_lines`.

    Returns:
        bleu, chrf, ter (percent), exact_match (0 to 1), sentences_per_second and signatures; and
        the translations.

    Raises:
        UserError: A folder or file cannot be read, or the files are of unequal length.
    """
    from luong.config import PairFiles
    from luong.evaluation.metrics import corpus_scores
    from luong.folder import read_settings
    from luong.search.workers import open_translator
    from luong.text.corpus import ParallelCorpus

    corpus = ParallelCorpus.open(PairFiles(source=Path(source), target=Path(reference)))
    with open_translator(models, workers=workers, device=device, int8=int8) as translator:
        start = time.perf_counter()
        results = translator.translate_lines(corpus.source_lines(), **search)
        texts = [result.text for result in results]
        seconds = time.perf_counter() - start
    first = models if isinstance(models, str) else models[0]
    language = read_settings(Path(first))["run"]["data"].get("target_language")
    found = corpus_scores(texts, list(corpus.target_lines()), target_language=language)
    scores = found._asdict()
    scores["sentences_per_second"] = len(texts) / seconds
    return scores, texts
