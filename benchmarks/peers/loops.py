"""The plain loop as a toolkit, as torch comes and with faster products."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

from benchmarks.peers.toolkit import HERE, Command, Search, Toolkit


class Plain(Toolkit):
    """The loop of plain.py, with torch as it comes."""

    name = environment = "plain"
    writes_pieces = False
    rate_pattern = r"tokens/s ([\d.]+)"
    seconds_pattern = r"seconds ([\d.]+)"
    extra: ClassVar[dict[str, str]] = {}

    def train(self, updates: int) -> Command:
        words = [self.program("python"), str(HERE / "plain.py"), "train"]
        return Command([*words, str(self.data), str(self.model), str(updates)], self.extra)

    def translate(self, search: Search, output: Path) -> Command:
        words = [self.program("python"), str(HERE / "plain.py"), "translate", str(self.data)]
        model = self.work / "runs" / Plain.name / "model"
        source = self.data / f"{search.split}.en"
        widths = [str(search.beam), str(search.batch)]
        return Command([*words, str(model), *widths, str(source), str(output)], self.extra)


class PlainOneDNN(Plain):
    """The same with products by oneDNN; it translates with the model of the plain loop."""

    name = "plain-onednn"
    extra: ClassVar[dict[str, str]] = {"PRECISION": "medium"}


class PlainBFloat16(Plain):
    """The same under autocast; for CPUs that multiply in bfloat16."""

    name = "plain-bfloat16"
    extra: ClassVar[dict[str, str]] = {"BF16": "1"}
