"""`luong evaluate`: translate or classify files and compare with what is right."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

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


def evaluate(
    models: Models,
    source: Annotated[str | None, typer.Option(help="What to translate.", metavar="FILE")] = None,
    reference: Annotated[
        str | None, typer.Option(help="What it should be.", metavar="FILE")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(help="Labelled documents for a classifier.", metavar="FILE|FOLDER"),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
    beam_size: BeamSize = 5,
    batch_size: BatchSize = None,
    output: Annotated[
        str | None, typer.Option(help="Also write the translations.", metavar="FILE")
    ] = None,
    int8: Int8 = False,
    shortlist: Shortlisted = False,
    min_length: MinLength = 0,
    block_ngrams: BlockNgrams = 0,
    rouge: Annotated[
        bool, typer.Option("--rouge", help="Also ROUGE-1, -2 and -L, for summaries.")
    ] = False,
    workers: Workers = 1,
    device: Device = "cpu",
) -> None:
    """Score a translator on two files, or a classifier on one file of labelled documents.

    A translator: BLEU, chrF, TER and exact match, with sacreBLEU's signatures. A classifier:
    accuracy, macro F1 and the confusion matrix.
    """
    from luong.files import write_whole

    if file is not None:
        if source is not None or reference is not None:
            raise typer.BadParameter("--file is for a classifier, and stands alone")
        if len(models) > 1:
            raise typer.BadParameter("--file scores one classifier; ensembles are of translators")
        found, labels = evaluate_documents(models[0], file, device=device)
        _print_classification(found, as_json)
        if output:
            write_whole(Path(output), "".join(label + "\n" for label in labels).encode())
        return
    if source is None or reference is None:
        raise typer.BadParameter("give --source and --reference, or --file for a classifier")
    search: dict[str, Any] = {
        "beam_size": beam_size,
        "batch_size": batch_size,
        "shortlist": shortlist,
        "min_length": min_length,
        "block_ngrams": block_ngrams,
    }
    where: dict[str, Any] = {"device": device, "int8": int8, "workers": workers}
    scores, texts = evaluate_files(models, source, reference, rouge=rouge, **where, **search)
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
    for name, head in (("rouge1", "ROUGE-1"), ("rouge2", "ROUGE-2"), ("rouge_l", "ROUGE-L")):
        if name in scores:
            typer.echo(f"{head}      {scores[name]:.2f}")
    typer.echo(f"speed        {scores['sentences_per_second']:.1f} sentences/s")
    for signature in scores["signatures"].values():
        typer.echo(f"signature    {signature}")


def _print_classification(scores: dict[str, Any], as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(scores, ensure_ascii=False))
        return
    typer.echo(f"accuracy  {scores['accuracy']:.2%} of {scores['documents']:,} documents")
    typer.echo(f"macro F1  {scores['macro_f1']:.4f}")
    typer.echo(f"speed     {scores['documents_per_second']:.1f} documents/s")
    if scores["multi_label"]:
        typer.echo("\nright  missed  extra  label")
        for name, ((_, extra), (missed, right)) in zip(
            scores["labels"], scores["confusion"], strict=True
        ):
            typer.echo(f"{right:>5}  {missed:>6}  {extra:>5}  {name}")
        return
    typer.echo("\nrows: the right label; columns: the label given, in the same order")
    width = max(4, *(len(str(number)) for row in scores["confusion"] for number in row)) + 1
    for name, row in zip(scores["labels"], scores["confusion"], strict=True):
        typer.echo("".join(f"{number:>{width}}" for number in row) + f"  {name}")


def evaluate_documents(
    model: str, file: str, *, device: str = "cpu"
) -> tuple[dict[str, Any], list[str]]:
    """Classify labelled documents and score the labels.

    Args:
        model: The model folder.
        file: The documents: a file or a folder, as for training.
        device: Where to compute.

    Returns:
        accuracy and macro_f1 (0 to 1), labels and confusion (see `ClassificationScores`),
        multi_label, documents and documents_per_second; and the labels given.

    Raises:
        UserError: A folder or file cannot be read, or a document has not one label where it must.
    """
    from luong.classification import Classifier
    from luong.config import DocumentFiles
    from luong.evaluation.classification import classification_scores
    from luong.folder import load_classifier_folder
    from luong.text.document_dataset import check_labels
    from luong.text.documents import DocumentCorpus

    path = Path(file)
    files = DocumentFiles(folder=path) if path.is_dir() else DocumentFiles(file=path)
    corpus = DocumentCorpus.open(files)
    classifier = Classifier(load_classifier_folder(model, device))
    multi_label = classifier.folder.config.data.multi_label
    expected = []
    for number, document in enumerate(corpus, 1):
        check_labels(document.labels, multi_label, f"{corpus.name}, document {number}")
        expected.append(document.labels)
    start = time.perf_counter()
    results = classifier.classify_documents(("", document.sentences) for document in corpus)
    found = [result.labels for result in results]
    seconds = time.perf_counter() - start
    names = classifier.label_names
    scores = classification_scores(found, expected, names, multi_label=multi_label)._asdict()
    scores |= {
        "multi_label": multi_label,
        "documents": len(found),
        "documents_per_second": len(found) / seconds,
    }
    return scores, [",".join(labels) for labels in found]


def evaluate_files(
    models: str | Sequence[str],
    source: str,
    reference: str,
    *,
    device: str = "cpu",
    int8: bool = False,
    workers: int = 1,
    rouge: bool = False,
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
        rouge: Also score with ROUGE.
        search: Options of `Translator.translate_lines`.

    Returns:
        bleu, chrf, ter (percent), exact_match (0 to 1), sentences_per_second and signatures, with
        ROUGE rouge1, rouge2 and rouge_l (0 to 100); and the translations.

    Raises:
        UserError: A folder or file cannot be read, or the files are of unequal length.
    """
    from luong.config import PairFiles
    from luong.evaluation.metrics import corpus_scores
    from luong.evaluation.rouge import check_rouge, rouge_scores
    from luong.folder import read_settings
    from luong.search.workers import open_translator
    from luong.text.corpus import ParallelCorpus

    if rouge:
        check_rouge()
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
    if rouge:
        scores |= rouge_scores(texts, list(corpus.target_lines()))._asdict()
    scores["sentences_per_second"] = len(texts) / seconds
    return scores, texts
