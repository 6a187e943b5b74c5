"""Words and punctuation as tokens, with spacing that can be restored."""

from __future__ import annotations

import json
import re
import sys
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from functools import cache, lru_cache
from pathlib import Path

from luong.files import write_whole
from luong.text.encoding import Encoding, Span
from luong.text.vocabulary import CONTROL_IDS, SPECIAL_TOKENS, UNKNOWN, Vocabulary

JOINER = "￭"
"""Marks the side of a token on which no space stood."""

# Letters and punctuation never share a token, so no text can yield this one.
_LITERAL_JOINER = "&joiner;"

# How much is remembered of what a tokenizer has read: some 20 MB.
_FREQUENT, _SHORT = 1 << 16, 64


@cache
def _pattern() -> re.Pattern[str]:
    """Words (letters, digits, marks; inner apostrophes and zero-width joiners), or one sign."""
    # `re` knows letters and digits but has no class for combining marks.
    marks = "".join(
        re.escape(character)
        for character in map(chr, range(sys.maxunicode + 1))
        if unicodedata.category(character)[0] == "M"
    )
    word = rf"(?:[^\W_]+|[{marks}]+)+"
    return re.compile(rf"(?P<word>{word}(?:['’\u200c\u200d]{word})*)|\S[{marks}]*")


def split_words(line: str) -> tuple[list[str], list[Span]]:
    """Split a line into words and signs.

    Where no space stands between two tokens, the sign carries a joiner on that side; between
    two signs, or two words, the second carries it.

    Returns:
        The tokens, and each one's span in the line.

    Example:
        >>> split_words('Say "hi", now')
        (['Say', '"￭', 'hi', '￭"', '￭,', 'now'], [(0, 3), (4, 5), (5, 7), (7, 8), (8, 9), (10, 13)])
    """
    tokens: list[str] = []
    spans: list[Span] = []
    after_word = False
    for match in _pattern().finditer(line):
        token = match.group().replace(JOINER, _LITERAL_JOINER)
        is_word = match.lastgroup == "word"
        if spans and spans[-1][1] == match.start():
            if is_word and not after_word:
                tokens[-1] += JOINER
            else:
                token = JOINER + token
        tokens.append(token)
        spans.append(match.span())
        after_word = is_word
    return tokens, spans


class WordTokenizer:
    """Tokens are words and signs; decoding restores the text up to runs of white space.

    Args:
        vocabulary: The tokens, as `split_words` makes them.

    Example:
        >>> tokenizer = WordTokenizer.train(["Don't go!"], size=100)
        >>> tokenizer.decode(tokenizer.encode("Don't  go!").ids)
        "Don't go!"
    """

    kind = "word"

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        # What stands between spaces is read by itself, and much of it again and again.
        self._frequent = lru_cache(_FREQUENT)(self._read)
        self._frequent_pieces = lru_cache(_FREQUENT)(_pieces)

    @classmethod
    def train(cls, lines: Iterable[str], size: int, minimum_count: int = 1) -> WordTokenizer:
        """Count the tokens of lines and keep the most frequent, `size` with the special ones."""
        chunks: Counter[str] = Counter()
        for line in lines:
            chunks.update(line.split())
        counts: Counter[str] = Counter()
        for chunk, count in chunks.items():
            for token in split_words(chunk)[0]:
                counts[token] += count
        return cls(Vocabulary.build(counts, size, minimum_count))

    @property
    def size(self) -> int:
        """See `Tokenizer.size`."""
        return len(self.vocabulary)

    def encode(self, line: str) -> Encoding:
        """See `Tokenizer.encode`."""
        tokens, spans = split_words(line)
        return Encoding([self.vocabulary.id(token) for token in tokens], spans)

    def ids(self, line: str) -> list[int]:
        """See `Tokenizer.ids`; several times faster than `encode`."""
        ids: list[int] = []
        for chunk in line.split():
            ids += self._frequent(chunk) if len(chunk) < _SHORT else self._read(chunk)
        return ids

    def _read(self, chunk: str) -> list[int]:
        return self.encode(chunk).ids

    def pieces(self, line: str) -> list[str]:
        """See `PieceTokenizer.pieces`."""
        pieces: list[str] = []
        for chunk in line.split():
            pieces += self._frequent_pieces(chunk) if len(chunk) < _SHORT else _pieces(chunk)
        return pieces

    def id(self, piece: str) -> int:
        """See `PieceTokenizer.id`."""
        return self.vocabulary.id(piece)

    def tokens(self, ids: Sequence[int], extra: Sequence[str] = ()) -> list[str]:
        """See `Tokenizer.tokens`; joiners are not shown."""
        return [_without_joiners(self.vocabulary.token(id, extra)) for id in ids]

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """See `Tokenizer.decode`."""
        return self.decode_spans(ids, replacements)[0]

    def decode_spans(
        self,
        ids: Sequence[int],
        replacements: Mapping[int, str] | None = None,
        extra: Sequence[str] = (),
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`; the spans leave out the spaces between tokens."""
        text = ""
        spans: list[Span] = []
        joined = True
        for position, id in enumerate(ids):
            if id in CONTROL_IDS:
                spans.append((len(text), len(text)))
                continue
            if id == UNKNOWN:
                token = (replacements or {}).get(position, SPECIAL_TOKENS[UNKNOWN])
                joins_left = joins_right = False
            else:
                token = self.vocabulary.token(id, extra)
                joins_left, joins_right = token.startswith(JOINER), token.endswith(JOINER)
                token = _without_joiners(token)
            if not (joined or joins_left):
                text += " "
            spans.append((len(text), len(text) + len(token)))
            text += token
            joined = joins_right
        return text, spans

    def save(self, folder: Path, name: str) -> None:
        """See `Tokenizer.save`."""
        document = {"kind": self.kind, "tokens": self.vocabulary.to_json()}
        data = json.dumps(document, ensure_ascii=False, indent=0)
        write_whole(folder / f"{name}.json", data.encode())


def _pieces(chunk: str) -> list[str]:
    return split_words(chunk)[0]


def _without_joiners(token: str) -> str:
    """A token as it stands in text."""
    return token.strip(JOINER).replace(_LITERAL_JOINER, JOINER)
