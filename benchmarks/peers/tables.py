"""Rows of measurements as Markdown: the median of the repeats, and the least and the most."""

from __future__ import annotations

import statistics
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any

Row = dict[str, Any]


def throughput_table(rows: Iterable[Row]) -> str:
    """Target tokens a second of training, fastest first."""
    groups = _grouped(rows)
    fastest = sorted(groups, key=lambda name: -_median(groups[name], "tokens_per_second"))
    body = [
        [name, _spread(groups[name], "tokens_per_second", 0), str(len(groups[name]))]
        for name in fastest
    ]
    return _markdown(["toolkit", "target tokens/s", "repeats"], body)


def decoding_table(rows: Iterable[Row]) -> str:
    """How fast each toolkit searches in each way, and how good and how long its output is."""
    headings = ["toolkit"]
    body: dict[str, list[str]] = defaultdict(list)
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["search"]].append(row)
    names = sorted({row["toolkit"] for group in groups.values() for row in group})
    for search, group in groups.items():
        one_by_one = search.endswith("batch 1")
        headings.append(f"{search}, {'ms a sentence' if one_by_one else 'sentences/s'}")
        if not one_by_one:
            headings.append("BLEU; words a sentence")
        by_name = _grouped(group)
        for name in names:
            found = by_name.get(name)
            key, places = (
                ("milliseconds_per_sentence", 1) if one_by_one else ("sentences_per_second", 0)
            )
            body[name].append(_spread(found, key, places) if found else "-")
            if not one_by_one:
                quality = (
                    f"{_median(found, 'bleu'):.1f}; {_median(found, 'words_per_sentence'):.1f}"
                    if found
                    else "-"
                )
                body[name].append(quality)
    return _markdown(headings, [[name, *cells] for name, cells in body.items()])


def _grouped(rows: Iterable[Row]) -> dict[str, list[Row]]:
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in rows:
        groups[row["toolkit"]].append(row)
    return groups


def _median(rows: Sequence[Row], key: str) -> float:
    return statistics.median(row[key] for row in rows)


def _spread(rows: Sequence[Row], key: str, places: int) -> str:
    least, most = (function(row[key] for row in rows) for function in (min, max))
    return f"{_median(rows, key):,.{places}f} ({least:,.{places}f} to {most:,.{places}f})"


def _markdown(headings: list[str], body: list[list[str]]) -> str:
    lines = [headings, ["---"] * len(headings), *body]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)
