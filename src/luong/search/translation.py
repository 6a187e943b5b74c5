"""A translation with its attention and word links, and its picture for notebooks and reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from html import escape

import torch
from torch import Tensor

_SHOWN = 120  # tokens per side: a table of 1,000 x 1,000 cells stops a browser


@dataclass(frozen=True, eq=False)
class Translation:
    """What became of one line.

    Attributes:
        source: The line as it was given, without its line break.
        text: The translation; "" for a blank line. Never holds a line break.
        score: Length-normalised log-probability; 0.0 for a blank line.
        tokens: Target tokens, the end symbol left out.
        source_tokens: Source tokens, the end symbol last; empty for a blank line.
        attention: How much each target token attends to each source token, the row that the
            model folder's `alignment_row` names, (len(tokens), len(source_tokens)), float32.
        alignment: Pairs (source word, target word), sorted; words are the lines split at single
            spaces, see `word_links`.
        copied: Stretches of `text`, as (start, end) in code points, that were copied from the
            source: of the probability of each of their tokens more than half came from copying.
            Empty for a model that does not copy.

    Example:
        >>> translation = Translator(folder).translate("ein Hund")
        >>> translation.text, translation.alignment
        ('a dog', [(0, 0), (1, 1)])
    """

    source: str
    text: str
    score: float
    tokens: list[str]
    source_tokens: list[str]
    attention: Tensor
    alignment: list[tuple[int, int]]
    copied: list[tuple[int, int]] = field(default_factory=list)

    @property
    def marked(self) -> str:
        """The text with what was copied in white brackets.

        Example:
            >>> translation.marked
            'plugin of ⟦pytest⟧ for ⟦numpydoc⟧'
        """
        text = self.text
        for start, end in reversed(self.copied):
            text = f"{text[:start]}⟦{text[start:end]}⟧{text[end:]}"
        return text

    def _repr_html_(self) -> str:
        """The attention as a table that notebooks show: self-contained, for light and dark."""
        columns = self.source_tokens[:_SHOWN]
        rows = self.tokens[:_SHOWN]
        head = "".join(
            f'<th dir="auto" style="{_CELL};vertical-align:bottom;writing-mode:vertical-rl">'
            f"{escape(token)}</th>"
            for token in columns
        )
        values = self.attention[: len(rows), : len(columns)].tolist()
        body = "".join(
            f'<tr><th dir="auto" style="{_CELL};text-align:right">{escape(token)}</th>'
            + "".join(_cell(token, other, x) for other, x in zip(columns, line, strict=True))
            + "</tr>"
            for token, line in zip(rows, values, strict=True)
        )
        table = f'<table style="border-collapse:collapse"><tr><td></td>{head}</tr>{body}</table>'
        return (
            '<div style="overflow-x:auto">'
            f'<p dir="auto">{escape(self.source)}</p><p dir="auto">{escape(self.text)}</p>'
            f"{table if rows else ''}{self._left_out()}</div>"
        )

    def _left_out(self) -> str:
        """A line under the table that says what it does not show."""
        if max(len(self.tokens), len(self.source_tokens)) <= _SHOWN:
            return ""
        return (
            f"<p>The table shows at most {_SHOWN} tokens a side, of {len(self.source_tokens)} "
            f"source and {len(self.tokens)} target tokens.</p>"
        )


def blank_translation(line: str) -> Translation:
    """The translation of a line that is not shown to the model.

    Example:
        >>> blank_translation("  ").text
        ''
    """
    return Translation(line, "", 0.0, [], [], torch.zeros(0, 0), [])


_CELL = "padding:2px 4px;font-weight:normal;white-space:pre"


def _cell(token: str, source_token: str, value: float) -> str:
    """One square; its colour lies over whatever the page has as background."""
    title = escape(f"{token} ← {source_token}: {value:.3f}")
    shade = min(max(value, 0.0), 1.0)
    return (
        f'<td title="{title}" style="min-width:18px;height:18px;padding:0;'
        f"border:1px solid rgba(128,128,128,0.25);"
        f'background:rgba(46,134,222,{shade:.3f})"></td>'
    )
