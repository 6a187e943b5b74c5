"""What a person sees of a run, and metrics.jsonl, which programs read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console, RenderableType
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn
from rich.text import Text
from typing_extensions import override

from luong.text.dataset import DatasetSummary
from luong.text.document_dataset import DocumentSummary
from luong.training.task import Shown

METRICS = "metrics.jsonl"

_COLUMNS = {
    "loss": ("    loss", ">8.3f"),
    "perplexity": ("  perplexity", ">12.4g"),
    "bleu": ("   BLEU", ">7.1f"),
    "chrf": ("   chrF", ">7.1f"),
    "rouge": ("  ROUGE-L", ">9.1f"),
    "exact_match": ("   exact", ">8.1%"),
    "symbol_error_rate": ("  symbol errors", ">15.2f"),
    "accuracy": ("  accuracy", ">10.1%"),
    "macro_f1": ("  macro F1", ">10.3f"),
}
"""Heads and forms of the validation scores that a task may have."""


def perplexity(likelihood: float) -> float:
    """Perplexity from the mean negative log-likelihood of a token, in nats.

    It is capped at e^700, since JSON knows no infinity.
    """
    return math.exp(min(likelihood, 700.0))


class _Bar(Progress):
    """A bar with the numbers of the last interval on a line of their own below it."""

    numbers = ""

    @override
    def get_renderables(self) -> Iterator[RenderableType]:
        yield self.make_tasks_table(self.tasks)
        yield Text(self.numbers)


class Report:
    """Shows a run's progress and keeps its rows.

    On a terminal a bar with the time left moves at the foot of the screen; elsewhere each row is
    a plain line. Either way every row is an object in metrics.jsonl.

    Args:
        folder: Where metrics.jsonl lies.
        console: Where to print.
        keep_bytes: Rows beyond this length of metrics.jsonl are cut off: a resumed run writes
            them again.
    """

    def __init__(self, folder: Path, console: Console, keep_bytes: int = 0) -> None:
        self.console = console
        path = folder / METRICS
        self._file = path.open("r+b" if path.exists() else "w+b")
        # Fewer bytes may be there, if the machine went down; truncating must not add any.
        self._file.truncate(min(keep_bytes, self._file.seek(0, os.SEEK_END)))
        self._file.seek(0, os.SEEK_END)
        self._header_shown = False
        self._bar = _Bar(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left {task.fields[left]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, epoch=1, left="?")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._bar.stop()
        self._file.close()

    def sync(self) -> int:
        """Bring all rows to the disk, and give the file's length in bytes."""
        self._file.flush()
        os.fsync(self._file.fileno())
        return self._file.tell()

    def advance(self, fraction: float, epoch: int) -> None:
        """Move the bar to a share of the run."""
        self._bar.update(self._task, completed=fraction, epoch=epoch)

    def say(self, line: str) -> None:
        """Print a line above the bar."""
        self.console.print(line, highlight=False, markup=False, emoji=False, soft_wrap=True)

    def training(self, row: dict[str, Any], seconds_left: float) -> None:
        """A row of training: an interval of updates."""
        self._write({"kind": "train", **row})
        numbers = (
            f"loss {row['loss']:.3f}  perplexity {row['perplexity']:.4g}  "
            f"rate {row['learning_rate']:.2e}  norm {row['gradient_norm']:.2f}  "
            f"tokens/s {row['source_tokens_per_second']:,.0f} > "
            f"{row['target_tokens_per_second']:,.0f}"
        )
        left = f"{int(seconds_left) // 60}:{int(seconds_left) % 60:02d}"
        self._bar.numbers = numbers
        self._bar.update(self._task, left=left)
        if not self.console.is_terminal:
            self.say(f"step {row['step']}  epoch {row['epoch']}  {numbers}  left {left}")

    def validation(
        self, row: dict[str, Any], best: bool, samples: Sequence[tuple[Shown, str]]
    ) -> None:
        """A row of validation, with sample outputs and their references."""
        self._write({"kind": "validation", **row})
        if not self._header_shown:
            self._header_shown = True
            heads = (head for key, (head, _) in _COLUMNS.items() if key in row)
            self.say("   step  epoch" + "".join(heads))
        scores = (format(row[key], form) for key, (_, form) in _COLUMNS.items() if key in row)
        self.say(
            f"{row['step']:>7}  {row['epoch']:>5}"
            + "".join(scores)
            + ("  best so far" if best else "")
        )
        for output, reference in samples:
            self.say(f"    source     {output.source}")
            self.say(f"    reference  {reference}")
            self.say(f"    output     {output.text}")

    def _write(self, row: dict[str, Any]) -> None:
        self._file.write(json.dumps(row).encode() + b"\n")
        self._file.flush()


def read_metrics(folder: Path) -> list[dict[str, Any]]:
    """The rows of a run's metrics.jsonl; none if it has no such file."""
    path = folder / METRICS
    if not path.exists():
        return []
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def data_report(summary: DatasetSummary) -> list[str]:
    """Lines that tell what a run trains on: pairs, those left out and why, lengths, unknowns."""
    left_out = [f"{count:,} {reason}" for reason, count in summary.left_out.items() if count]
    lines = [
        f"pairs     {summary.kept:,} of {summary.lines:,} kept; left out: "
        + (", ".join(left_out) or "none")
    ]
    if summary.sources_cut:
        longest = len(summary.source_histogram) - 2
        lines.append(f"cut       {summary.sources_cut:,} sources to {longest} tokens")
    if summary.extra_columns:
        lines.append(
            f"columns   {summary.extra_columns:,} lines have more than two; only the first two "
            "are read"
        )
    for side, tokens, rate, histogram in (
        ("source", summary.source_tokens, summary.source_unknown_rate, summary.source_histogram),
        ("target", summary.target_tokens, summary.target_unknown_rate, summary.target_histogram),
    ):
        lines.append(f"{side}    {tokens:,} tokens, {rate:.2%} unknown, lengths {_bars(histogram)}")
    return lines


def document_report(
    summary: DocumentSummary, labels: Sequence[str], max_sentences: int, max_words: int
) -> list[str]:
    """Lines that tell what a classifier trains on, and what of it was cut off."""
    counts = sorted(zip(summary.label_counts, labels, strict=True), reverse=True)
    shown = ", ".join(f"{name} {count:,}" for count, name in counts[:20])
    more = f" and {len(counts) - 20} more" if len(counts) > 20 else ""
    return [
        f"documents {summary.documents:,}, none left out; {summary.empty:,} without a word, "
        f"{summary.blank_lines:,} blank lines passed over",
        f"labels    {shown}{more}",
        f"text      {summary.sentences:,} sentences, {summary.words:,} words, "
        f"{summary.unknown / max(1, summary.words):.2%} unknown",
        f"cut       {summary.cut_documents:,} documents after {max_sentences} sentences, "
        f"{summary.cut_sentences:,} sentences after {max_words} words",
    ]


def _bars(histogram: Sequence[int]) -> str:
    """A histogram of lengths as blocks: at most 20 bars, each of so many lengths."""
    width = max(1, math.ceil(len(histogram) / 20))
    sums = [sum(histogram[start : start + width]) for start in range(0, len(histogram), width)]
    blocks = " ▁▂▃▄▅▆▇█"
    bars = "".join(blocks[math.ceil(8 * count / max(sums))] for count in sums)
    return f"0 {bars} {len(histogram) - 1}" + (f" (a bar is {width} lengths)" if width > 1 else "")
