"""Rows of measurements as Markdown: the median of the repeats, and the least and the most."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]
ONE_BY_ONE = "batch 1"


def throughput_table(rows: Iterable[Row]) -> str:
    """Target tokens a second of training by turns, fastest first."""
    return _rates(rows, "tokens_per_second", "target tokens/s", "turns")


def training_table(rows: Iterable[Row]) -> str:
    """Target tokens of training a second of processor time, fastest first."""
    spread = [{"toolkit": row["toolkit"], "rate": rate} for row in rows for _, rate in row["rates"]]
    return _rates(spread, "rate", "target tokens a processor second", "intervals")


def decoding_table(rows: Iterable[Row]) -> str:
    """How fast each toolkit searches in each way, and how good and how long its output is.

    Of a busy machine processor time is shown, of a free one the clock.
    """
    rows = list(rows)
    searches = list(dict.fromkeys((row["search"], row["busy"]) for row in rows))
    headings = ["toolkit"]
    for search, busy in searches:
        unit = "sentences/s"
        if busy or search.endswith(ONE_BY_ONE):
            unit = f"{'processor ' if busy else ''}ms a sentence"
        headings += [f"{search}, {unit}", "BLEU, words a sentence"]
    body = []
    for name in sorted({row["toolkit"] for row in rows}):
        cells = [name]
        for search in searches:
            found = [
                row
                for row in rows
                if (row["toolkit"], row["search"], row["busy"]) == (name, *search)
            ]
            cells += _searched(found) if found else ["-", "-"]
        body.append(cells)
    return _markdown(headings, body)


def reaching_table(rows: Iterable[Row]) -> str:
    """BLEU on the validation lines against the processor time of training."""
    body = [
        [
            row["toolkit"],
            f"{row['updates']:,}",
            f"{row['processor_seconds']:,.0f}",
            f"{row['bleu']:.1f}",
        ]
        for row in rows
    ]
    return _markdown(["toolkit", "updates", "processor seconds of training", "BLEU"], body)


def _searched(rows: Sequence[Row]) -> list[str]:
    """How fast one toolkit is in one search, and how good."""
    quality = f"{_median(rows, 'bleu'):.1f}, {_median(rows, 'words_per_sentence'):.1f}"
    if rows[0]["busy"]:
        return [_spread(rows, "processor_milliseconds_per_sentence", 1), quality]
    if rows[0]["search"].endswith(ONE_BY_ONE):
        return [_spread(rows, "milliseconds_per_sentence", 1), quality]
    return [_spread(rows, "sentences_per_second", 0), quality]


def _rates(rows: Iterable[Row], key: str, unit: str, count: str) -> str:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["toolkit"]].append(row)
    fastest = sorted(groups, key=lambda name: -_median(groups[name], key))
    body = [[name, _spread(groups[name], key, 0), str(len(groups[name]))] for name in fastest]
    return _markdown(["toolkit", f"{unit}, median (least to most)", count], body)


def _median(rows: Sequence[Row], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def _spread(rows: Sequence[Row], key: str, places: int) -> str:
    least, most = (function(row[key] for row in rows) for function in (min, max))
    return f"{_median(rows, key):,.{places}f} ({least:,.{places}f} to {most:,.{places}f})"


def _markdown(headings: list[str], body: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
