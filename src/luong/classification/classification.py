"""What a classifier found in one text, and its picture for notebooks and reports."""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import Any, NamedTuple

_BLUE, _GREEN = "46,134,222", "42,157,116"
_PALE = 0.75
"""The strongest shade: letters on it are legible on light and on dark ground."""


WordWeight = tuple[int, int, float]
"""Start and end of a word in its sentence, and its share of the sentence's attention."""


class Sentence(NamedTuple):
    """A sentence with the attention paid to it.

    Attributes:
        text: The sentence as it stands in the text.
        weight: Its share of the document's attention.
        words: Start and end of each word in the sentence, and its share of the sentence's
            attention; words beyond the limit of the model have none.
    """

    text: str
    weight: float
    words: list[WordWeight]


@dataclass(frozen=True, eq=False)
class Classification:
    """The labels of one text.

    Attributes:
        source: The text as it was given.
        labels: The label found; where labels are decided apart, all of at least 0.5.
        probabilities: Of every label; their sum is 1 unless labels are decided apart.
        sentences: What was read, with attention weights.

    Example:
        >>> found = luong.load("runs/reviews").classify("Dull. I left early.")
        >>> found.label, found.probability, found.sentences[0].weight
        ('negative', 0.93, 0.71)
    """

    source: str
    labels: tuple[str, ...]
    probabilities: dict[str, float]
    sentences: list[Sentence]

    @property
    def label(self) -> str:
        """The label, or the labels separated by commas; "" if there is none."""
        return ",".join(self.labels)

    @property
    def probability(self) -> float:
        """Of the label; of the likeliest one where none or several were found."""
        return max(self.probabilities.values())

    @property
    def text(self) -> str:
        """The label, as reports show it beside a translator's text."""
        return self.label

    @property
    def score(self) -> float:
        """The log-probability of the label, as reports show it."""
        return math.log(max(self.probability, 1e-30))

    def as_object(self) -> dict[str, Any]:
        """All of it for JSON; words as text with their weights."""
        return {
            "text": self.source,
            "labels": list(self.labels),
            "probabilities": self.probabilities,
            "sentences": [
                {
                    "text": sentence.text,
                    "weight": sentence.weight,
                    "words": [
                        {"text": sentence.text[start:end], "weight": weight}
                        for start, end, weight in sentence.words
                    ],
                }
                for sentence in self.sentences
            ],
        }

    def _repr_html_(self) -> str:
        """The text with its words and sentences shaded: self-contained, for light and dark."""
        if not self.sentences:
            return '<p style="opacity:0.7">Nothing to read: the label is the likeliest of all.</p>'
        strongest = max(sentence.weight for sentence in self.sentences) or 1.0
        peak = max(
            (sentence.weight * word[2] for sentence in self.sentences for word in sentence.words),
            default=0.0,
        )
        lines = "".join(
            _sentence(sentence, sentence.weight / strongest, peak) for sentence in self.sentences
        )
        return f'<div style="line-height:1.7">{lines}</div>'


def _sentence(sentence: Sentence, share: float, peak: float) -> str:
    """A line: a bar as strong as the sentence, then its words."""
    title = escape(f"sentence: {sentence.weight:.3f}")
    return (
        '<div dir="auto" style="margin:0 0 2px;padding-inline:8px;'
        f'border-inline-start:10px solid rgba({_GREEN},{share:.3f})" title="{title}">'
        f"{_words(sentence, peak)}</div>"
    )


def _words(sentence: Sentence, peak: float) -> str:
    """Words shaded by their weight times that of the sentence, over the strongest of the text."""
    parts = []
    position = 0
    for start, end, weight in sentence.words:
        parts.append(escape(sentence.text[position:start]))
        word, product = escape(sentence.text[start:end]), weight * sentence.weight
        shade = _PALE * product / peak if peak else 0.0
        title = f"word {weight:.3f} × sentence {sentence.weight:.3f} = {product:.4f}"
        # What would be invisible is not worth a tag.
        parts.append(
            f'<span style="background:rgba({_BLUE},{shade:.3f});border-radius:3px" '
            f'title="{title}">{word}</span>'
            if shade >= 0.02
            else word
        )
        position = end
    parts.append(escape(sentence.text[position:]))
    return "".join(parts)
