"""What a person sees of a run, and metrics.jsonl, which programs read."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from luong.search import Translation
from luong.text.dataset import DatasetSummary

METRICS = "metrics.jsonl"


def perplexity(likelihood: float) -> float:
    """Perplexity from the mean negative log-likelihood of a token, in nats.

    It is capped at e^700, since JSON knows no infinity.
    """
    return math.exp(min(likelihood, 700.0))


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
        self._bar = Progress(
            TextColumn("epoch {task.fields[epoch]}"),
            BarColumn(bar_width=None),
            TextColumn("{task.percentage:>3.0f} %"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[numbers]}"),
            console=console,
            disable=not console.is_terminal,
        )
        self._task = self._bar.add_task("", total=1.0, epoch=1, numbers="")

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
        self._bar.update(self._task, numbers=numbers)
        if not self.console.is_terminal:
            left = f"{int(seconds_left) // 60}:{int(seconds_left) % 60:02d}"
            self.say(f"step {row['step']}  epoch {row['epoch']}  {numbers}  left {left}")

    def validation(
        self, row: dict[str, Any], best: bool, samples: Sequence[tuple[Translation, str]]
    ) -> None:
        """A row of validation, with sample translations and their references."""
        self._write({"kind": "validation", **row})
        if not self._header_shown:
            self._header_shown = True
            self.say("   step  epoch    loss  perplexity   BLEU   chrF")
        self.say(
            f"{row['step']:>7}  {row['epoch']:>5}  {row['loss']:>6.3f}  "
            f"{row['perplexity']:>10.4g}  {row['bleu']:>5.1f}  {row['chrf']:>5.1f}"
            + ("  best so far" if best else "")
        )
        for translation, reference in samples:
            self.say(f"    source     {translation.source}")
            self.say(f"    reference  {reference}")
            self.say(f"    output     {translation.text}")

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


def _bars(histogram: Sequence[int]) -> str:
    """A histogram of lengths as blocks: at most 20 bars, each of so many lengths."""
    width = max(1, math.ceil(len(histogram) / 20))
    sums = [sum(histogram[start : start + width]) for start in range(0, len(histogram), width)]
    blocks = " ▁▂▃▄▅▆▇█"
    bars = "".join(blocks[math.ceil(8 * count / max(sums))] for count in sums)
    return f"0 {bars} {len(histogram) - 1}" + (f" (a bar is {width} lengths)" if width > 1 else "")
