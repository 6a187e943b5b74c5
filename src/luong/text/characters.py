"""Code points as tokens."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from luong.files import write_whole
from luong.text.encoding import Encoding, Span
from luong.text.vocabulary import CONTROL_IDS, SPECIAL_TOKENS, UNKNOWN, Vocabulary


class CharacterTokenizer:
    """Tokens are single code points, white space included; decoding restores the line exactly.

    Args:
        vocabulary: The code points.

    Example:
        >>> tokenizer = CharacterTokenizer.train(["a b"], size=100)
        >>> tokenizer.tokens(tokenizer.encode("b a").ids)
        ['b', '␣', 'a']
    """

    kind = "character"
    separator = ""
    """Stands between two tokens in text."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary

    @classmethod
    def train(cls, lines: Iterable[str], size: int, minimum_count: int = 1) -> CharacterTokenizer:
        """Count the tokens of lines and keep the most frequent, `size` with the special ones."""
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(cls.split(line))
        return cls(Vocabulary.build(counts, size, minimum_count))

    @staticmethod
    def split(line: str) -> Sequence[str]:
        """The tokens of a line."""
        return line

    @staticmethod
    def spans(line: str) -> list[Span]:
        """Where each token stands in a line."""
        return [(start, start + 1) for start in range(len(line))]

    @property
    def size(self) -> int:
        """See `Tokenizer.size`."""
        return len(self.vocabulary)

    def encode(self, line: str) -> Encoding:
        """See `Tokenizer.encode`."""
        return Encoding(self.ids(line), self.spans(line))

    def ids(self, line: str) -> list[int]:
        """See `Tokenizer.ids`."""
        return [self.vocabulary.id(token) for token in self.split(line)]

    def pieces(self, line: str) -> list[str]:
        """See `PieceTokenizer.pieces`."""
        return list(self.split(line))

    def id(self, piece: str) -> int:
        """See `PieceTokenizer.id`."""
        return self.vocabulary.id(piece)

    def tokens(self, ids: Sequence[int], extra: Sequence[str] = ()) -> list[str]:
        """See `Tokenizer.tokens`; a space is shown as ␣."""
        return [self.vocabulary.token(id, extra).replace(" ", "␣") for id in ids]

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """See `Tokenizer.decode`."""
        return self.decode_spans(ids, replacements)[0]

    def decode_spans(
        self,
        ids: Sequence[int],
        replacements: Mapping[int, str] | None = None,
        extra: Sequence[str] = (),
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`."""
        text = ""
        spans: list[Span] = []
        for position, id in enumerate(ids):
            if id in CONTROL_IDS:
                spans.append((len(text), len(text)))
                continue
            if id == UNKNOWN:
                token = (replacements or {}).get(position, SPECIAL_TOKENS[UNKNOWN])
            else:
                token = self.vocabulary.token(id, extra)
            if text:
                text += self.separator
            spans.append((len(text), len(text) + len(token)))
            text += token
        return text, spans

    def save(self, folder: Path, name: str) -> None:
        """See `Tokenizer.save`."""
        document = {"kind": self.kind, "tokens": self.vocabulary.to_json()}
        data = json.dumps(document, ensure_ascii=False, indent=0)
        write_whole(folder / f"{name}.json", data.encode())
