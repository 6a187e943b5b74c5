"""The explanation page: texts with the words and sentences shaded that a classifier attended to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Protocol

from luong.files import write_whole
from luong.view.style import STYLE


class Explained(Protocol):
    """What the page needs of a classified text."""

    @property
    def label(self) -> str:
        """The label found."""

    @property
    def probabilities(self) -> Mapping[str, float]:
        """Of every label."""

    def _repr_html_(self) -> str:
        """The text with its words and sentences shaded."""


NOTE = (
    "The stronger a word's blue, the more attention it had: its share of its sentence times the "
    "sentence's share of the text, over the strongest of the text. The green bar is the sentence's "
    "share. Rest the pointer on a word to see the numbers."
)

_STYLE = """
.head { display: flex; flex-wrap: wrap; gap: 0.2rem 1rem; align-items: baseline; }
.head h2 { margin: 0; font-size: 1.05rem; }
.probabilities { color: var(--soft); font-size: 0.85rem; font-variant-numeric: tabular-nums; }
.text { margin-top: 0.7rem; overflow-wrap: anywhere; }
.texts { display: grid; gap: 0.75rem; }
"""
_PROBABILITIES = 5


def write_explanation(
    path: str | Path, results: Sequence[Explained], *, title: str, total: int | None = None
) -> None:
    """Write classified texts and what was attended to in them as one HTML file.

    The file loads nothing; it follows the light or dark scheme of the reader.

    Args:
        path: The file to write, whole or not at all.
        results: Classified texts.
        title: Heading of the page.
        total: How many texts there were, if not all are shown.

    Raises:
        UserError: The file cannot be written.

    Example:
        >>> write_explanation("why.html", [classifier.classify("Dull.")], title="Reviews")
    """
    cards = "\n".join(_card(number, result) for number, result in enumerate(results, 1))
    shown = f"{len(results):,} texts"
    if total is not None and total > len(results):
        shown = f"the first {len(results):,} of {total:,} texts"
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}{_STYLE}</style>\n</head>\n<body>\n<main>\n"
        f'<header>\n<h1 dir="auto">{escape(title)}</h1>\n<p class="facts">{shown}</p>\n</header>\n'
        f'<p class="note">{NOTE}</p>\n<div class="texts">\n{cards}\n</div>\n'
        "</main>\n</body>\n</html>\n"
    )
    write_whole(Path(path), page.encode("utf-8", errors="replace"))


def _card(number: int, result: Explained) -> str:
    ranked = sorted(result.probabilities.items(), key=lambda item: -item[1])[:_PROBABILITIES]
    shares = " · ".join(f"{escape(name)} {share:.1%}" for name, share in ranked)
    return (
        f'<article class="card"><div class="head"><h2 dir="auto">{number}. '
        f"{escape(result.label) or 'no label'}</h2>"
        f'<span class="probabilities" dir="auto">{shares}</span></div>\n'
        f'<div class="text">{result._repr_html_()}</div></article>'
    )
