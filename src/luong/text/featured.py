"""Lines with features: a word, a tab, and what it is to become, as in "gehen<TAB>V;PST;3;SG"."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from luong.files import write_whole
from luong.text.characters import CharacterTokenizer
from luong.text.encoding import Encoding, Span, Tokenizer
from luong.text.vocabulary import SPECIAL_TOKENS, UNKNOWN
from luong.text.words import WordTokenizer

TAB = "\t"


class FeaturedTokenizer:
    r"""Tokens are those of what stands before the tab, then the features after it, one each.

    Features have ids of their own, after those of the text, so that no feature is taken for a
    letter; the first of them stands for every unknown feature. A line without a tab has none.

    Args:
        base: Reads the text before the tab.
        features: The features.
        separator: Stands between two features.

    Example:
        >>> tokenizer = FeaturedTokenizer(characters, ["PST", "V"], ";")
        >>> tokenizer.tokens(tokenizer.ids("gehen\tV;PST"))
        ['g', 'e', 'h', 'e', 'n', 'V', 'PST']
    """

    kind = "featured"

    def __init__(
        self, base: WordTokenizer | CharacterTokenizer, features: Sequence[str], separator: str
    ) -> None:
        self.base = base
        self.features = tuple(features)
        self.separator = separator
        self._ids = {name: base.size + 1 + place for place, name in enumerate(self.features)}
        if len(self._ids) != len(self.features):
            raise ValueError("a feature comes twice")

    @property
    def size(self) -> int:
        """See `Tokenizer.size`."""
        return self.base.size + 1 + len(self.features)

    @property
    def first_feature(self) -> int:
        """The least id of a feature, that of unknown ones; those of the text lie below it."""
        return self.base.size

    def encode(self, line: str) -> Encoding:
        """See `Tokenizer.encode`."""
        text, features = self._parts(line)
        ids, spans = self.base.encode(text)
        found = [self._ids.get(line[start:end], self.first_feature) for start, end in features]
        return Encoding([*ids, *found], [*spans, *features])

    def ids(self, line: str) -> list[int]:
        """See `Tokenizer.ids`."""
        return self.encode(line).ids

    def pieces(self, line: str) -> list[str]:
        """Those of the text, see `PieceTokenizer.pieces`: features cannot be copied."""
        return self.base.pieces(self._parts(line)[0])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """See `Tokenizer.tokens`."""
        names = (SPECIAL_TOKENS[UNKNOWN], *self.features)
        return [
            names[id - self.base.size] if id >= self.base.size else self.base.tokens([id])[0]
            for id in ids
        ]

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """See `Tokenizer.decode`."""
        return self.decode_spans(ids, replacements)[0]

    def decode_spans(
        self, ids: Sequence[int], replacements: Mapping[int, str] | None = None
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`; features are the last of the ids."""
        letters = [id for id in ids if id < self.base.size]
        text, spans = self.base.decode_spans(letters, replacements)
        for place, name in enumerate(self.tokens(ids[len(letters) :])):
            text += self.separator if place else TAB
            spans.append((len(text), len(text) + len(name)))
            text += name
        return text, spans

    def save(self, folder: Path, name: str) -> None:
        """See `Tokenizer.save`."""
        document = {
            "kind": self.kind,
            "base": self.base.kind,
            "tokens": self.base.vocabulary.to_json(),
            "features": list(self.features),
            "separator": self.separator,
        }
        data = json.dumps(document, ensure_ascii=False, indent=0)
        write_whole(folder / f"{name}.json", data.encode())

    def _parts(self, line: str) -> tuple[str, list[Span]]:
        """The text before the tab, and where in the line each feature stands."""
        text, _, rest = line.partition(TAB)
        spans: list[Span] = []
        start = len(text) + 1
        for name in rest.split(self.separator) if rest.strip() else []:
            stripped = name.strip()
            first = start + (name.index(stripped) if stripped else 0)
            if stripped:
                spans.append((first, first + len(stripped)))
            start += len(name) + len(self.separator)
        return text, spans


def features_of(lines: Iterable[str], separator: str) -> list[str]:
    r"""The features that stand in lines, the most frequent first.

    Example:
        >>> features_of(["gehen\tV;PST", "Haus\tN", "sehen\tV"], ";")
        ['V', 'N', 'PST']
    """
    counts: Counter[str] = Counter()
    for line in lines:
        names = line.partition(TAB)[2].split(separator)
        counts.update(name.strip() for name in names if name.strip())
    return sorted(counts, key=lambda name: (-counts[name], name))


def first_feature(tokenizer: Tokenizer) -> int | None:
    """The least id that is a feature and not text; None where lines have no features."""
    return tokenizer.first_feature if isinstance(tokenizer, FeaturedTokenizer) else None
