"""The report of a run: one page with its scores, curves, samples and attention."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from itertools import islice
from pathlib import Path
from typing import Any

import torch

from luong.classification import Classifier
from luong.config import AnyConfig, CaptionConfig, ClassifierConfig
from luong.folder import AnyFolder, CaptionFolder, ClassifierFolder, ModelFolder, load_any_folder
from luong.pictures import CaptionCorpus
from luong.search import Captioner, Translator
from luong.search.caption import NOTE as CAPTION_NOTE
from luong.search.captioner import NamedPicture
from luong.text.corpus import ParallelCorpus
from luong.text.documents import DocumentCorpus
from luong.training.classification import excerpt
from luong.training.report import read_metrics
from luong.view.explanation import NOTE
from luong.view.page import Sample, write_report

SAMPLES = 8
_NOTES = {"classify": NOTE, "caption": CAPTION_NOTE}
"""How to read the attention of a task other than translation."""


def write_run_page(
    folder: Path,
    samples: Sequence[Sample] | None = None,
    references: Sequence[str] | None = None,
    scores: dict[str, Any] | None = None,
) -> Path:
    """Write report.html into a model folder.

    Args:
        folder: The model folder of a run.
        samples: Outputs to show; those of some validation data by default.
        references: Their references.
        scores: What to show as the result; the best validation by default.

    Returns:
        Where the page lies.

    Raises:
        UserError: The folder or the validation data cannot be read.
    """
    opened = load_any_folder(folder)
    config = opened.config
    if samples is None:
        samples, references = _samples(opened)
    page = folder / "report.html"
    metrics = read_metrics(folder)
    write_report(
        page,
        title=_title(folder, config),
        config=config.model_dump(mode="json", exclude_none=True),
        scores=opened.scores if scores is None else scores,
        metrics=metrics,
        samples=samples,
        references=references,
        attention_note=_NOTES.get(config.task),
        environment={
            "luong": version("luong"),
            "torch": torch.__version__,
            "python": platform.python_version(),
            "system": platform.system(),
            "processor": platform.processor() or platform.machine(),
            "threads": str(torch.get_num_threads()),
            **_precision(opened.precision),
            "waited for data": _waited(metrics),
        },
    )
    return page


def _samples(opened: AnyFolder) -> tuple[Sequence[Sample], list[str]]:
    if isinstance(opened.config, ClassifierConfig):
        return _classifications(opened)
    if isinstance(opened.config, CaptionConfig):
        return _captions(opened)
    return _translations(opened)


def _translations(opened: ModelFolder) -> tuple[Sequence[Sample], list[str]]:
    """Some validation sentences in translation, and their references."""
    corpus = ParallelCorpus.open(opened.config.data.valid)
    spread = range(0, len(corpus), max(1, len(corpus) // SAMPLES))
    pairs = [corpus[line] for line in spread][:SAMPLES]
    samples = Translator(opened).translate([source for source, _ in pairs])
    return samples, [reference for _, reference in pairs]


def _classifications(opened: ClassifierFolder) -> tuple[Sequence[Sample], list[str]]:
    """Some validation documents with the labels found, and the right ones."""
    corpus = DocumentCorpus.open(opened.config.data.valid)
    chosen = list(islice(corpus, 0, None, max(1, len(corpus) // SAMPLES)))[:SAMPLES]
    documents = [(excerpt(document.sentences), document.sentences) for document in chosen]
    samples = list(Classifier(opened).classify_documents(documents))
    return samples, [",".join(document.labels) for document in chosen]


def _captions(opened: CaptionFolder) -> tuple[Sequence[Sample], list[str]]:
    """Some validation pictures with their captions, and one reference of each."""
    data = opened.config.data
    corpus = CaptionCorpus.open(data.valid, data.picture_size, skip_bad=data.skip_bad)
    chosen = range(0, len(corpus), max(1, len(corpus) // SAMPLES))[:SAMPLES]
    pictures = [NamedPicture(corpus.names[place], corpus.pictures[place]) for place in chosen]
    samples = list(Captioner(opened).caption_pictures(pictures))
    references = corpus.captions()
    return samples, [references[place][0] for place in chosen]


def _title(folder: Path, config: AnyConfig) -> str:
    if isinstance(config, ClassifierConfig | CaptionConfig):
        return folder.name
    languages = [config.data.source_language, config.data.target_language]
    return " to ".join(filter(None, languages)) or folder.name


def _precision(saved: dict[str, str]) -> dict[str, str]:
    """How training multiplied, for the table; nothing of a folder that does not tell."""
    if not saved:
        return {}
    library = " by oneDNN" if saved["library"] == "onednn" else ""
    return {"products": f"{saved['dtype']}{library} ({saved['reason']})"}


def _waited(metrics: Sequence[dict[str, Any]]) -> str:
    """The share of training in which the model waited for batches."""
    shares = [row["wait_share"] for row in metrics if row["kind"] == "train"]
    return f"{sum(shares) / len(shares):.1%} of the time" if shares else "no update was logged"
