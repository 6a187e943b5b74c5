"""What stands between spaces as tokens: phones, tags, and text that is parted already."""

from __future__ import annotations

import re

from typing_extensions import override

from luong.text.characters import CharacterTokenizer
from luong.text.encoding import Span

_SYMBOL = re.compile(r"\S+")


class SymbolTokenizer(CharacterTokenizer):
    """Tokens are what stands between white space, as it is; decoding puts single spaces between.

    Unlike words, symbols are never split: a phone with a tone or a mark of length is one token.

    Args:
        vocabulary: The symbols.

    Example:
        >>> tokenizer = SymbolTokenizer.train(["aː x j ə"], size=100)
        >>> tokenizer.decode(tokenizer.encode("x  aː").ids)
        'x aː'
    """

    kind = "symbol"
    separator = " "

    @staticmethod
    @override
    def split(line: str) -> list[str]:
        return line.split()

    @staticmethod
    @override
    def spans(line: str) -> list[Span]:
        return [match.span() for match in _SYMBOL.finditer(line)]
