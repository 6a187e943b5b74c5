"""Tables in Markdown, and putting them in their section of a page by its heading."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from luong.files import write_whole


def table(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table in Markdown, its numbers to the right."""
    rule = ["---", *("---:" for _ in headings[1:])]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (headings, rule, *rows))


def put_section(path: Path, chapter: str, title: str, body: str) -> None:
    """Put text under `### title` within `## chapter` of a page, in place of what was there.

    What is not there yet is added at its end. The text between the heading of the chapter and
    its first section is left as it is.
    """
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    first, last = _span(lines, f"## {chapter}")
    inner = lines[first:last]
    start, end = _span(inner, f"### {title}")
    inner[start:end] = ["", f"### {title}", "", *body.strip().splitlines(), ""]
    head = [] if lines[first:last] else ["", f"## {chapter}", ""]
    text = "\n".join([*lines[:first], *head, *inner, *lines[last:]])
    while "\n\n\n" in text:
        text = text.replace("\n\n\n", "\n\n")
    write_whole(path, (text.strip() + "\n").encode())


def _span(lines: Sequence[str], heading: str) -> tuple[int, int]:
    """From a heading to the next of its level or above; the empty span at the end if absent."""
    if heading not in lines:
        return len(lines), len(lines)
    first = lines.index(heading)
    level = heading.index(" ")
    above = tuple("#" * depth + " " for depth in range(1, level + 1))
    following = range(first + 1, len(lines))
    return first, next((n for n in following if lines[n].startswith(above)), len(lines))
