"""This project as a toolkit, by its verbs."""

from __future__ import annotations

import json
import shutil
import time
from pathlib import Path
from typing import Any

from benchmarks.peers.toolkit import HERE, LOG_EVERY, Command, Search, Toolkit


class Luong(Toolkit):
    """This project, in float32."""

    name = kind = environment = "luong"
    writes_pieces = False
    seconds_pattern = r"seconds ([\d.]+)"
    precision = "float32"
    batch_tokens = 1050
    """Padded positions; it pads little, so that a batch has about 1,035 real ones, as others do."""

    def variables(self) -> dict[str, str]:
        # The last as `luong` sets it; what translates in a program of its own has no `luong` to.
        threads = {"OMP_NUM_THREADS": str(self.threads), "GOMP_SPINCOUNT": "10000"}
        return threads | {"CUDA_VISIBLE_DEVICES": ""}

    def train(self, updates: int) -> Command:
        table: dict[str, dict[str, Any]] = {
            "data": {},
            "tokens": {"kind": "subword", "vocabulary_size": 8000, "shared": True},
            "model": {
                "cell": "lstm",
                "embedding_size": 256,
                "hidden_size": 512,
                "bidirectional": True,
                "dropout": 0.3,
                "tie_embeddings": "none",
            },
            "model.attention": {
                "score": "general",
                "window": "global",
                "placement": "luong",
                "input_feeding": True,
            },
            "training": {
                "max_epochs": 100,
                "batch_tokens": self.batch_tokens,
                "optimizer": "adam",
                "learning_rate": 0.001,
                "schedule": "constant",
                "clip_norm": 1.0,
                "label_smoothing": 0.0,
                "average_decay": 0.0,
                "precision": self.precision,
                "validate_every": self.every or updates,
                "log_every": LOG_EVERY,
            },
        }
        lines = [f'output = "{self.model}"']
        for section, keys in table.items():
            lines += [f"[{section}]", *(f"{key} = {json.dumps(keys[key])}" for key in keys)]
            for name, split in (("train", "train"), ("valid", "val")) if section == "data" else ():
                path = self.data / split
                lines.append(f'{name} = {{ source = "{path}.en", target = "{path}.de" }}')
        (self.run / "run.toml").write_text("\n".join(lines) + "\n")
        return Command([self.program("python"), "-m", "luong", "train", str(self.run / "run.toml")])

    def _rows(self, kind: str) -> list[dict[str, Any]]:
        path = self.model / "metrics.jsonl"
        rows = map(json.loads, path.read_text().splitlines() if path.exists() else ())
        return [row for row in rows if row["kind"] == kind]

    def rates(self, log: str) -> list[float]:
        return [row["target_tokens_per_second"] for row in self._rows("train")]

    def done(self, updates: int) -> bool:
        return len(self._rows("validation")) >= (updates // self.every if self.every else 1)

    def checkpoints(self) -> list[Path]:
        """Copies of the folder, one for each validation: its weights are the best so far."""
        paths = []
        for number, _ in enumerate(self._rows("validation"), 1):
            paths.append(self.run / f"at-{number}")
            if not paths[-1].exists():
                time.sleep(1)  # until the weights stand there, too
                shutil.copytree(self.model, paths[-1], ignore=shutil.ignore_patterns("state"))
        return paths

    def validating(self, number: int) -> float:
        return float(self._rows("validation")[number - 1]["validating_seconds"])

    def translate(self, search: Search, output: Path) -> Command:
        model = self.checkpoint or self.work / "runs" / Luong.name / "model"
        words = [self.program("python"), str(HERE / "translator.py"), self.kind, str(model)]
        source = self.data / f"{search.split}.en"
        return Command([*words, str(search.beam), str(search.batch), str(source), str(output)])


class LuongAuto(Luong):
    """This project, multiplying in whatever it finds best on this machine."""

    name = "luong-auto"
    precision = "auto"


class LuongInt8(Luong):
    """This project's model with its weights in int8; it translates with the model of `luong`."""

    name = kind = "luong-int8"


class LuongShortlist(Luong):
    """The same model, scoring likely words alone; to train it is to learn which those are."""

    name = kind = "luong-shortlist"

    def train(self, updates: int) -> Command:
        model = self.work / "runs" / Luong.name / "model"
        return Command([self.program("python"), "-m", "luong", "shortlist", str(model)])

    def rates(self, log: str) -> list[float]:
        return []

    def done(self, updates: int) -> bool:
        return False


class LuongInt8Shortlist(Luong):
    """Both: weights in int8, and likely words alone."""

    name = kind = "luong-int8-shortlist"
