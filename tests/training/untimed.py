"""What metrics.jsonl says apart from what the clock decides."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from luong.training.report import read_metrics

TIMED = {
    "seconds",
    "validating_seconds",
    "source_tokens_per_second",
    "target_tokens_per_second",
    "wait_share",
}


def rows(folder: Path) -> list[dict[str, Any]]:
    """The rows without what the clock decides."""
    return [
        {key: value for key, value in row.items() if key not in TIMED}
        for row in read_metrics(folder)
    ]
