"""All measurements, one after the other, and their tables."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

from luong.benchmark import additive, local, tables, whole
from luong.benchmark.machine import description, multiply_adds_per_second
from luong.benchmark.problem import (
    BACKWARD,
    DIRECTIONS,
    FORWARD,
    Measurement,
    Problem,
    Row,
    measure,
    measure_peak,
)
from luong.benchmark.process import alone
from luong.benchmark.table import Table

SECTIONS = ("additive", "attention", "local")

# The spellings whose peak memory is measured, each in its own process.
_PEAKS = {
    FORWARD: (additive.LUONG, additive.LINEAR),
    BACKWARD: (
        additive.LUONG,
        additive.LINEAR,
        additive.COMPILED_LINEAR,
        additive.CHECKPOINT,
    ),
}


class Suite:
    """Runs sections and keeps what they found.

    Args:
        threads: Of torch and the kernels.
        quick: Small sizes, in this process, without torch.compile: a test that it works.
        progress: Called with a line before each measurement.
    """

    def __init__(self, threads: int, *, quick: bool, progress: Callable[[str], None]) -> None:
        self.threads = threads
        self.quick = quick
        self.progress = progress
        self.machine = description(threads)
        self.multiply_adds = 0.0
        self.rows: list[Row] = []

    def run(self, sections: tuple[str, ...] = SECTIONS) -> None:
        """Measure the sections of these names."""
        run: dict[str, Callable[[], None]] = {
            "additive": self._additive,
            "attention": self._attention,
            "local": self._local,
        }
        for section in sections:
            run[section]()

    def tables(self) -> list[Table]:
        """The tables of all sections that were run."""
        made: list[Table] = []
        additive_rows = self._of("additive")
        if additive_rows:
            made += tables.additive_tables(additive_rows, self.multiply_adds)
        if self._of("attention"):
            made.append(tables.attention_table(self._of("attention")))
        if self._of("local"):
            made.append(tables.local_table(self._of("local")))
        return made

    def wrong(self) -> list[str]:
        """The measurements whose result was not right."""
        return [
            f"{name} at {row.label} {row.direction}"
            for row in self.rows
            for name, measurement in row.measurements.items()
            if measurement.wrong
        ]

    def as_object(self) -> dict[str, Any]:
        """Everything, as JSON knows it; seconds and MiB."""
        return {
            "machine": self.machine,
            "multiply_adds_per_second": self.multiply_adds,
            "rows": [
                row._asdict()
                | {
                    "measurements": {
                        name: found._asdict() | {"timing": found.timing and found.timing._asdict()}
                        for name, found in row.measurements.items()
                    }
                }
                for row in self.rows
            ],
        }

    def _of(self, section: str) -> list[Row]:
        return [row for row in self.rows if row.section == section]

    def _additive(self) -> None:
        self.progress("multiply-adds")
        size = 256 if self.quick else 2048
        self.multiply_adds = self._call(multiply_adds_per_second, self.threads, size)
        shapes = additive.QUICK_SHAPES if self.quick else additive.SHAPES
        names = additive.SPELLINGS
        if self.quick:
            names = (additive.LUONG, additive.LINEAR, additive.SUM, additive.CHECKPOINT)
        for shape, direction in itertools.product(shapes, DIRECTIONS):
            found = self._measure("additive", additive.problem, (shape, direction, names))
            peaks = {
                name: self._peak(additive.problem, (shape, direction, (name,)), name)
                for name in _PEAKS[direction]
                if name in names
            }
            batch, steps, source, size = shape
            terms = batch * steps * source * size
            self._keep("additive", shape_label(shape), direction, terms, found, peaks)

    def _attention(self) -> None:
        shapes = whole.QUICK_SHAPES if self.quick else whole.SHAPES
        for shape, direction in itertools.product(shapes, DIRECTIONS):
            found = self._measure("attention", whole.problem, (shape, direction))
            batch, steps, source, size = shape
            terms = batch * steps * source * size
            self._keep("attention", shape_label(shape), direction, terms, found, {})

    def _local(self) -> None:
        lengths = local.QUICK_LENGTHS if self.quick else local.LENGTHS
        kinds = (local.MONOTONIC, local.RANDOM)
        for score, direction in itertools.product(local.SCORES, DIRECTIONS):
            arguments = (score, direction, lengths, kinds)
            found = self._measure("local", local.problem, arguments)
            for length in lengths:
                name = local.call_name(length, local.MONOTONIC)
                alone_arguments = (score, direction, (length,), (local.MONOTONIC,))
                peak = self._peak(local.problem, alone_arguments, name)
                mine = {kind: found[local.call_name(length, kind)] for kind in kinds}
                self._keep(
                    "local", f"{score} {length}", direction, length, mine, {local.MONOTONIC: peak}
                )

    def _keep(
        self,
        section: str,
        label: str,
        direction: str,
        terms: int,
        measurements: dict[str, Measurement],
        peaks: dict[str, float | None],
    ) -> None:
        self.rows.append(Row(section, label, direction, terms, measurements, peaks))

    def _measure(
        self, section: str, build: Callable[..., Problem], arguments: tuple[Any, ...]
    ) -> dict[str, Measurement]:
        self.progress(f"{section} {arguments[0]} {arguments[1]}")
        budget = 0.05 if self.quick else 1.0
        found: dict[str, Measurement] = self._call(measure, build, arguments, self.threads, budget)
        return found

    def _peak(
        self, build: Callable[..., Problem], arguments: tuple[Any, ...], name: str
    ) -> float | None:
        self.progress(f"  memory of {name}")
        peak: float | None = self._call(
            measure_peak, build, arguments, name, self.threads, trim=True
        )
        return peak

    def _call(self, function: Callable[..., Any], *arguments: Any, trim: bool = False) -> Any:
        return function(*arguments) if self.quick else alone(function, *arguments, trim=trim)


def shape_label(shape: additive.Shape) -> str:
    """B, T, S, n as text.

    Example:
        >>> shape_label((64, 1, 50, 512))
        '64,1,50,512'
    """
    return ",".join(map(str, shape))
