"""The tables of each section, out of what was measured."""

from __future__ import annotations

from collections.abc import Sequence

from luong.benchmark import additive, local, whole
from luong.benchmark.problem import BACKWARD, Measurement, Row
from luong.benchmark.table import NOTHING, Table, digits, milliseconds, times

_OTHERS = additive.SPELLINGS[1:]
_NONE = Measurement()


def additive_tables(rows: Sequence[Row], multiply_adds: float) -> list[Table]:
    """Ratios to the other spellings; memory, rate and errors; all times.

    Args:
        rows: Of the section.
        multiply_adds: A second, as the machine reaches them.
    """
    return [_ratios(rows), _rates(rows, multiply_adds), _all_times(rows)]


def _ratios(rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        found = row.measurements
        ours = found[additive.LUONG].timing
        ratios = [times(found.get(name, _NONE).timing, ours) for name in _OTHERS]
        lines.append([row.label, row.direction, milliseconds(ours), *ratios])
    header = ["B,T,S,n", "", "luong, ms", "Linear", "mul-sum", "c. Linear", "c. sum", "checkpoint"]
    note = (
        "Milliseconds of luong (median [least-most]), and how many times as long others take:\n"
        "eager PyTorch ending in Linear(n, 1) or in a product and a sum, torch.compile of both (c.)"
        "\nand eager Linear under a checkpoint. At T = 1 luong's keys are prepared, as in decoding."
    )
    return Table("Additive scores: luong and others", note, header, lines)


def _rates(rows: Sequence[Row], multiply_adds: float) -> Table:
    lines = []
    for row in rows:
        ours = row.measurements[additive.LUONG].timing
        rate = row.terms / ours.median if ours else None
        counted = additive.MULTIPLY_ADDS[row.direction]
        errors = [found.error for found in row.measurements.values() if found.error is not None]
        peaks = [
            digits(row.peaks.get(name))
            for name in (
                additive.LUONG,
                additive.LINEAR,
                additive.COMPILED_LINEAR,
                additive.CHECKPOINT,
            )
        ]
        lines.append(
            [
                row.label,
                row.direction,
                digits(rate and rate / 1e9),
                f"{100 * counted * rate / multiply_adds:.0f} %" if rate else NOTHING,
                *peaks,
                error_text(row.measurements[additive.LUONG]),
                f"{max(errors):.0e}" if errors else NOTHING,
            ]
        )
    header = [
        "B,T,S,n", "", "G terms/s", "of limit", "luong", "Linear", "c. Linear", "checkpoint",
        "error", "largest",
    ]  # fmt: skip
    note = (
        "Terms are the B T S n additions under a tanh. Of limit: the multiply-adds among the\n"
        f"operations ({additive.MULTIPLY_ADDS['forward']} a term forward, "
        f"{additive.MULTIPLY_ADDS[BACKWARD]} with backward; divisions not counted) against the\n"
        f"{multiply_adds / 1e9:.1f} G/s that a float32 matrix product reached in this run. Then"
        " peak memory in MiB\nbeside the inputs, each in its own process. Error: of luong, and the"
        " largest of all spellings,\nagainst float64, relative to the largest number expected."
    )
    return Table("Additive scores: rate, memory, errors", note, header, lines)


def _all_times(rows: Sequence[Row]) -> Table:
    lines = []
    for row in rows:
        for name, found in row.measurements.items():
            text = found.failure or milliseconds(found.timing)
            repeats = str(found.timing.repeats) if found.timing else NOTHING
            lines.append([row.label, row.direction, name, text, repeats, error_text(found)])
    header = ["B,T,S,n", "", "spelling", "ms", "repeats", "error"]
    note = (
        "Median [least-most]. A call of more than 5 s is not repeated: its one time is given.\n"
        "What failed says why."
    )
    return Table("Additive scores: all times", note, header, lines)


def attention_table(rows: Sequence[Row]) -> Table:
    """Whole attention by additive scores beside dot products."""
    lines = []
    for row in rows:
        mine, dot = row.measurements[whole.ADDITIVE], row.measurements[whole.DOT]
        lines.append(
            [
                row.label,
                row.direction,
                milliseconds(mine.timing),
                milliseconds(dot.timing),
                times(mine.timing, dot.timing),
                error_text(mine),
                error_text(dot),
            ]
        )
    header = ["B,T,S,n", "", "additive, ms", "dot, ms", "ratio", "error", "error of dot"]
    note = (
        "Scores of projected keys, masked softmax with weights, and context, by luong: additive\n"
        "scores (keys not prepared beforehand) and dot products."
    )
    return Table("Whole attention: additive and dot", note, header, lines)


def local_table(rows: Sequence[Row]) -> Table:
    """Local windows: time a query at each length, and in units of the shortest."""
    first: dict[tuple[str, str], Row] = {}
    lines = []
    for row in rows:
        score, length = row.label.split()
        base = first.setdefault((score, row.direction), row)
        line = [score, length, row.direction]
        for kind in (local.MONOTONIC, local.RANDOM):
            mine, shortest = row.measurements[kind].timing, base.measurements[kind].timing
            if mine is None or shortest is None:
                line += [NOTHING, NOTHING]
                continue
            scale = 1e6 / row.terms
            low, high = digits(scale * mine.low), digits(scale * mine.high)
            line.append(f"{digits(scale * mine.median)} [{low}-{high}]")
            line.append(digits(mine.median / row.terms * base.terms / shortest.median))
        errors = [found for found in row.measurements.values() if found.error is not None]
        worst = max(errors, key=lambda found: found.error or 0.0) if errors else _NONE
        lines.append([*line, digits(row.peaks[local.MONOTONIC]), error_text(worst)])
    header = ["score", "S = T", "", "local-m, us", "x", "random, us", "x", "MiB", "error"]
    note = (
        f"Microseconds a query (median [least-most]) with D = {local.HALF_WIDTH}, n = {local.SIZE},"
        " B = 1, and the ratio to the\nshortest source (x). local-m: the centre is t, projections"
        " not counted, keys prepared; random:\ncentres anywhere. Scores, softmax and context by"
        " luong.kernels with the softmax of the layer.\nMiB: peak memory with local-m beside the"
        " inputs, its own process."
    )
    return Table("Local windows", note, header, lines)


def error_text(found: Measurement) -> str:
    """The relative error, marked where it is too large."""
    if found.error is None:
        return NOTHING
    return f"{found.error:.0e}" + (" WRONG" if found.wrong else "")
