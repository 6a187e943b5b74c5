"""The report of a run: one page with its scores, curves, translations and attention."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import torch

from luong.folder import load_folder
from luong.search import Translation, Translator
from luong.text.corpus import ParallelCorpus
from luong.training.report import read_metrics
from luong.view.page import write_report

SAMPLES = 8


def write_run_page(
    folder: Path,
    samples: Sequence[Translation] | None = None,
    references: Sequence[str] | None = None,
    scores: dict[str, Any] | None = None,
) -> Path:
    """Write report.html into a model folder.

    Args:
        folder: The model folder of a run.
        samples: Translations to show; some validation sentences by default.
        references: Their references.
        scores: What to show as the result; the best validation by default.

    Returns:
        Where the page lies.

    Raises:
        UserError: The folder or the validation data cannot be read.
    """
    opened = load_folder(folder)
    config = opened.config
    if samples is None:
        corpus = ParallelCorpus.open(config.data.valid)
        spread = range(0, len(corpus), max(1, len(corpus) // SAMPLES))
        pairs = [corpus[line] for line in spread][:SAMPLES]
        samples = Translator(opened).translate([source for source, _ in pairs])
        references = [reference for _, reference in pairs]
    languages = [config.data.source_language, config.data.target_language]
    title = " to ".join(filter(None, languages)) or folder.name
    page = folder / "report.html"
    metrics = read_metrics(folder)
    write_report(
        page,
        title=title,
        config=config.model_dump(mode="json", exclude_none=True),
        scores=opened.scores if scores is None else scores,
        metrics=metrics,
        samples=samples,
        references=references,
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
