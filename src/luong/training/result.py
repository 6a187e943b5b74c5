"""How a training run ended."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple


class TrainingResult(NamedTuple):
    """How a run ended.

    Attributes:
        folder: The model folder.
        scores: Of the best validation.
        reason: Why it stopped.
        interrupted: Whether Ctrl-C stopped it; it can be resumed.
    """

    folder: Path
    scores: dict[str, Any]
    reason: str
    interrupted: bool
