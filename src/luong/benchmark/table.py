"""Tables that read well in a terminal of 100 columns and are Markdown too."""

from __future__ import annotations

from typing import NamedTuple

from luong.benchmark.timing import Timing

NOTHING = "-"


class Table(NamedTuple):
    """A heading, a note, the names of the columns, and rows of text."""

    title: str
    note: str
    header: list[str]
    rows: list[list[str]]

    def text(self) -> str:
        """The table with its columns aligned, the first to the left, numbers to the right."""
        lines = [self.header, *self.rows]
        widths = [max(len(line[column]) for line in lines) for column in range(len(self.header))]
        rule = [":" + "-" * (widths[0] - 1), *("-" * (width - 1) + ":" for width in widths[1:])]
        body = "\n".join(_line(cells, widths) for cells in (self.header, rule, *self.rows))
        return f"## {self.title}\n\n{self.note}\n\n{body}\n"


def _line(cells: list[str], widths: list[int]) -> str:
    first, *rest = zip(cells, widths, strict=True)
    return f"|{first[0]:<{first[1]}}|" + "".join(f"{cell:>{width}}|" for cell, width in rest)


def milliseconds(timing: Timing | None) -> str:
    """Median [least-most] in milliseconds; the number of repeats where there are few.

    Example:
        >>> milliseconds(Timing(0.0121, 0.0119, 0.0144, 7))
        '12.1 [11.9-14.4]'
    """
    if timing is None:
        return NOTHING
    if timing.repeats == 1:
        return f"{digits(1e3 * timing.median)} (once)"
    low, high = digits(1e3 * timing.low), digits(1e3 * timing.high)
    return f"{digits(1e3 * timing.median)} [{low}-{high}]"


def times(timing: Timing | None, base: Timing | None) -> str:
    """How many times as long as the base a call takes.

    Example:
        >>> times(Timing(3.0, 3.0, 3.0, 7), Timing(2.0, 2.0, 2.0, 7))
        '1.5'
    """
    if timing is None or base is None:
        return NOTHING
    return digits(timing.median / base.median)


def digits(number: float | None) -> str:
    """Three figures, and all of them before the point.

    Example:
        >>> [digits(x) for x in (0.01234, 1.5, 123.4, 12345.6)]
        ['0.0123', '1.5', '123', '12346']
    """
    if number is None:
        return NOTHING
    return f"{number:.0f}" if abs(number) >= 100 else f"{number:.3g}"
