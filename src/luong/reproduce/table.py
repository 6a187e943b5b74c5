"""The table of an experiment: what was measured here, and what the paper printed, side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from luong.reproduce.system import Measured, Published

COLUMNS = ("ppl", "BLEU", "+unk", "AER")
_WIDTH = 8


class Row(NamedTuple):
    """A line of the table.

    Attributes:
        label: What the paper calls the system.
        measured: What it reached here.
        published: What it reached there.
        only_replaced: Leave out the BLEU before unknown words were replaced.
    """

    label: str
    measured: Measured
    published: Published
    only_replaced: bool = False


def format_table(title: str, rows: Sequence[Row]) -> str:
    """The lines of a table: perplexity, BLEU before and after replacing unknown words, AER.

    Args:
        title: Above the labels.
        rows: One for each line.

    Example:
        >>> row = Row("base", Measured(12.5, 10.0, 10.2), Published("10.6", "11.3"))
        >>> print(format_table("Table 1", [row]))
        Table 1      ppl    BLEU    +unk     AER | paper: ppl    BLEU    +unk     AER
        base       12.50    10.0    10.2         |       10.6    11.3
    """
    label_width = max(len(title), *(len(row.label) for row in rows))
    paper = "paper: " + COLUMNS[0]
    head = _cells(COLUMNS) + " | " + paper + _cells(COLUMNS[1:])
    lines = [title.ljust(label_width) + head]
    for row in rows:
        first, *others = row.published
        lines.append(
            row.label.ljust(label_width)
            + _cells(_numbers(row))
            + " | "
            + first.rjust(len(paper))
            + _cells(others)
        )
    return "\n".join(line.rstrip() for line in lines)


def _numbers(row: Row) -> list[str]:
    found = row.measured
    return [
        f"{found.perplexity:.2f}",
        "" if row.only_replaced else f"{found.bleu:.1f}",
        f"{found.replaced:.1f}",
        "" if found.error_rate is None else f"{found.error_rate:.2f}",
    ]


def _cells(texts: Sequence[str]) -> str:
    return "".join(text.rjust(_WIDTH) for text in texts)
