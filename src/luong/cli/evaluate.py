"""`luong evaluate`: translate or classify files and compare with what is right."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
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
    from luong.config import PairFiles


def evaluate(
    models: Models,
    source: Annotated[str | None, typer.Option(help="What to translate.", metavar="FILE")] = None,
    reference: Annotated[
        str | None, typer.Option(help="What it should be.", metavar="FILE")
    ] = None,
    file: Annotated[
        str | None,
        typer.Option(
            help="Tab-separated pairs; labelled documents; or pictures with captions.",
            metavar="FILE|FOLDER",
        ),
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
    """Score a translator on two files or one of pairs, a classifier or a captioner on one.

    A translator: BLEU, chrF, TER and exact match, with sacreBLEU's signatures, and of one that
    writes characters or symbols word and symbol error rate; --file is read by the columns that
    its training data were read by. A classifier: accuracy, macro F1 and the confusion matrix. A
    captioner: BLEU, chrF and exact match, against all captions that a picture has in the file.
    """
    from luong.files import write_whole
    from luong.folder import read_settings

    if (source is None) != (reference is None) or (file is None) == (source is None):
        raise typer.BadParameter("give --source and --reference, or --file alone")
    task = read_settings(Path(models[0]))["run"].get("task") if file is not None else None
    if file is not None and task in ("classify", "caption"):
        if len(models) > 1:
            raise typer.BadParameter("--file scores one model; ensembles are of translators")
        if task == "caption":
            scores, lines = evaluate_captions(models[0], file, beam_size=beam_size, device=device)
            show = _show_captions
        else:
            scores, lines = evaluate_documents(models[0], file, device=device)
            show = _show_classification
    else:
        search: dict[str, Any] = {
            "beam_size": beam_size,
            "batch_size": batch_size,
            "shortlist": shortlist,
            "min_length": min_length,
            "block_ngrams": block_ngrams,
        }
        where: dict[str, Any] = {"device": device, "int8": int8, "workers": workers}
        files = _pair_files(models[0], source, reference, file)
        scores, lines = evaluate_files(models, files, rouge=rouge, **where, **search)
        show = _show_translation
    if as_json:
        typer.echo(json.dumps(scores, ensure_ascii=False))
    else:
        show(scores)
    if output:
        write_whole(Path(output), "".join(line + "\n" for line in lines).encode())


def _show_translation(scores: dict[str, Any]) -> None:
    typer.echo(f"BLEU           {scores['bleu']:.2f}")
    typer.echo(f"chrF           {scores['chrf']:.2f}")
    typer.echo(f"TER            {scores['ter']:.2f}")
    typer.echo(f"exact match    {scores['exact_match']:.2%}")
    for name, head in (("rouge1", "ROUGE-1"), ("rouge2", "ROUGE-2"), ("rouge_l", "ROUGE-L")):
        if name in scores:
            typer.echo(f"{head}        {scores[name]:.2f}")
    if "word_error_rate" in scores:
        typer.echo(f"word errors    {scores['word_error_rate']:.2f} % of the lines")
        typer.echo(f"symbol errors  {scores['symbol_error_rate']:.2f} %")
    typer.echo(f"speed          {scores['sentences_per_second']:.1f} sentences/s")
    for signature in scores["signatures"].values():
        typer.echo(f"signature      {signature}")


def _show_captions(scores: dict[str, Any]) -> None:
    typer.echo(f"BLEU         {scores['bleu']:.2f}")
    typer.echo(f"chrF         {scores['chrf']:.2f}")
    typer.echo(f"exact match  {scores['exact_match']:.2%} of {scores['pictures']:,} pictures")
    typer.echo(f"speed        {scores['pictures_per_second']:.1f} pictures/s")
    for signature in scores["signatures"].values():
        typer.echo(f"signature    {signature}")


def _show_classification(scores: dict[str, Any]) -> None:
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


def _pair_files(
    model: str, source: str | None, reference: str | None, file: str | None
) -> PairFiles:
    """Two parallel files; or one of pairs, with the columns of the model's training data."""
    from luong.config import PairFiles
    from luong.folder import read_settings

    if source is not None and reference is not None:
        return PairFiles(source=Path(source), target=Path(reference))
    train = read_settings(Path(model))["run"]["data"]["train"]
    columns = {key: train[key] for key in train if key.endswith("_column")}
    return PairFiles(file=file, **columns)


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


def evaluate_captions(
    model: str, file: str, *, beam_size: int = 5, device: str = "cpu"
) -> tuple[dict[str, Any], list[str]]:
    """Write captions of pictures and score them.

    Args:
        model: The model folder.
        file: Rows of picture, tab, caption, as for training; where a file of the same name but
            the ending .npz lies beside it, the pictures are in that array.
        beam_size: Hypotheses kept a picture.
        device: Where to compute.

    Returns:
        bleu, chrf, exact_match (0 to 1), pictures, pictures_per_second and signatures; and the
        captions, one of each picture in the order of their first rows.

    Raises:
        UserError: The folder, the file or pictures cannot be read.
    """
    from luong.config import CaptionFiles
    from luong.evaluation.captions import caption_scores
    from luong.folder import load_caption_folder
    from luong.pictures import CaptionCorpus
    from luong.search import Captioner

    captioner = Captioner(load_caption_folder(model, device))
    data = captioner.folder.config.data
    images = Path(file).with_suffix(".npz")
    files = CaptionFiles(file=Path(file), images=images if images.exists() else None)
    corpus = CaptionCorpus.open(files, data.picture_size, skip_bad=data.skip_bad)
    start = time.perf_counter()
    found = captioner.caption_corpus(corpus, beam_size=beam_size)
    seconds = time.perf_counter() - start
    texts = [one.text for one in found]
    scores = caption_scores(
        texts, corpus.captions(), target_language=data.target_language
    )._asdict()
    scores |= {"pictures": len(texts), "pictures_per_second": len(texts) / seconds}
    return scores, texts


def evaluate_files(
    models: str | Sequence[str],
    files: PairFiles,
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
        files: What to translate and what it should become.
        device: Where to compute.
        int8: Put the weights in int8.
        workers: How many processes translate.
        rouge: Also score with ROUGE.
        search: Options of `Translator.translate_lines`.

    Returns:
        bleu, chrf, ter (percent), exact_match (0 to 1), sentences_per_second and signatures,
        of a model that writes characters or symbols also word_error_rate and symbol_error_rate
        (percent), with ROUGE rouge1, rouge2 and rouge_l (0 to 100); and the translations.

    Raises:
        UserError: A folder or file cannot be read, or the files are of unequal length.
    """
    from luong.evaluation.metrics import corpus_scores
    from luong.evaluation.rouge import check_rouge, rouge_scores
    from luong.evaluation.transduction import is_transducer, transduction_scores
    from luong.folder import read_settings
    from luong.search.workers import open_translator
    from luong.text.corpus import ParallelCorpus

    if rouge:
        check_rouge()
    corpus = ParallelCorpus.open(files)
    with open_translator(models, workers=workers, device=device, int8=int8) as translator:
        start = time.perf_counter()
        results = translator.translate_lines(corpus.source_lines(), **search)
        texts = [result.text for result in results]
        seconds = time.perf_counter() - start
        tokenizer = translator.folder.target_tokenizer
    first = models if isinstance(models, str) else models[0]
    language = read_settings(Path(first))["run"]["data"].get("target_language")
    references = list(corpus.target_lines())
    scores = corpus_scores(texts, references, target_language=language)._asdict()
    if rouge:
        scores |= rouge_scores(texts, references)._asdict()
    if is_transducer(tokenizer):
        scores |= transduction_scores(texts, references, tokenizer)._asdict()
    scores["sentences_per_second"] = len(texts) / seconds
    return scores, texts
