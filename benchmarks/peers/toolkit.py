"""A toolkit: how it trains the model, translates with it, and says how fast it was.

The model everywhere: embeddings of 256, a bidirectional LSTM of 2 x 256, an LSTM of 512, general
attention after the recurrent update, input feeding, dropout 0.3, Adam at 0.001, gradients clipped
at 1, about 64 sentences a batch. A toolkit lives in a virtual environment of its name.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).parent
LOG_EVERY = 5
LONGEST = 100
"""Target pieces, in training and translation."""


@dataclass(frozen=True)
class Command:
    """What to run, and what to add to its environment."""

    words: list[str]
    environment: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Search:
    """A translation to be timed: `split` names a file of the data folder."""

    beam: int
    batch: int
    split: str

    @property
    def name(self) -> str:
        return f"{'greedy' if self.beam == 1 else f'beam {self.beam}'}, batch {self.batch}"


class Toolkit:
    """What a comparison needs of a toolkit.

    Args:
        work: The folder with the environments, `data` and `runs`.
        threads: How many a toolkit may use.
        every: Updates between checkpoints; without it a training keeps only its last weights.
        runs: The folder within `work` for what it writes.
    """

    name = ""
    environment = ""
    writes_pieces = True
    rate_pattern = ""
    seconds_pattern = ""

    def __init__(
        self, work: Path, threads: int = 2, every: int | None = None, runs: str = "runs"
    ) -> None:
        self.work, self.data, self.threads, self.every = work, work / "data", threads, every
        self.run = work / runs / self.name
        self.model = self.run / "model"
        self.checkpoint: Path | None = None
        """The weights to translate with, if not those of the finished training."""

    def program(self, name: str) -> str:
        """A program of the toolkit's environment; this Python, if it has no environment."""
        folder = self.work / (self.environment or self.name) / "bin"
        if not folder.exists() and name == "python":
            return sys.executable
        return str(folder / name)

    def variables(self) -> dict[str, str]:
        return {
            "OMP_NUM_THREADS": str(self.threads),
            "PYTHONPATH": str(HERE / "compatibility"),
            "CUDA_VISIBLE_DEVICES": "",
        }

    def settings(self, name: str, table: dict[str, Any]) -> str:
        """A file of settings; YAML reads JSON."""
        path = self.run / name
        path.write_text(json.dumps(table, indent=1))
        return str(path)

    def preparation(self) -> Command | None:
        """What to run once, before training."""
        return None

    def train(self, updates: int) -> Command:
        raise NotImplementedError

    def translate(self, search: Search, output: Path) -> Command:
        raise NotImplementedError

    def rates(self, log: str) -> list[float]:
        """Real target tokens a second, of each interval of LOG_EVERY updates."""
        return [float(found.replace(",", "")) for found in re.findall(self.rate_pattern, log)]

    def seconds(self, log: str, lines: int) -> float:
        """How long a translation of so many lines took, loading left out."""
        found = re.findall(self.seconds_pattern, log)
        if not found:
            raise ValueError(f"{self.name} does not say how long it took:\n{log[-2000:]}")
        return float(found[-1])

    def checkpoints(self) -> list[Path]:
        """What a training with `every` has kept so far, oldest first."""
        raise NotImplementedError(f"{self.name} keeps no checkpoints here")

    def validating(self, number: int) -> float:
        """Seconds that a training has spent on validations until its checkpoint of this number."""
        return 0.0

    def done(self, updates: int) -> bool:
        """Whether a training that goes on by itself may be interrupted."""
        return False
