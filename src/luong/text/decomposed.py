"""Parts of code points as tokens: Hangul letters, and letters apart from their accents."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping, Sequence

from typing_extensions import override

from luong.text.characters import CharacterTokenizer
from luong.text.encoding import Span


class DecomposedTokenizer(CharacterTokenizer):
    """Tokens are the parts of code points (Unicode's NFD); decoding composes them again (NFC).

    A Hangul syllable is two or three letters, of which there are few where there are thousands of
    syllables; a letter with an accent is both. Text that is not in NFC is decoded as NFC.

    Args:
        vocabulary: The parts.

    Example:
        >>> tokenizer = DecomposedTokenizer.train(["é 한"], size=100)
        >>> len(tokenizer.ids("é 한")), tokenizer.decode(tokenizer.ids("é 한"))
        (6, 'é 한')
    """

    kind = "decomposed"

    @staticmethod
    @override
    def split(line: str) -> Sequence[str]:
        return "".join(_parts(character) for character in line)

    @staticmethod
    @override
    def spans(line: str) -> list[Span]:
        return [(at, at + 1) for at, character in enumerate(line) for _ in _parts(character)]

    @override
    def decode_spans(
        self,
        ids: Sequence[int],
        replacements: Mapping[int, str] | None = None,
        extra: Sequence[str] = (),
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`; parts of one code point have its span."""
        parts, spans = super().decode_spans(ids, replacements, extra)
        # Where each part ends once the parts up to it are composed.
        ends = [len(unicodedata.normalize("NFC", parts[:end])) for _, end in spans]
        composed: list[Span] = []
        for end, before, (start, stop) in zip(ends, [0, *ends], spans, strict=False):
            first = before if end > before or start == stop else max(0, end - 1)
            composed.append((first, max(end, first)))
        return unicodedata.normalize("NFC", parts), composed


def _parts(character: str) -> str:
    # One by one: marks of the line keep their order, and each part its code point.
    return unicodedata.normalize("NFD", character)
