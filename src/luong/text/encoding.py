"""What every tokenizer gives and does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import NamedTuple, Protocol

Span = tuple[int, int]
"""Start and end of a stretch of text, in code points; the end is exclusive."""


class Encoding(NamedTuple):
    """A line as ids, without an end symbol, and where in the raw line each token stands."""

    ids: list[int]
    spans: list[Span]


class Tokenizer(Protocol):
    """Turns lines into ids and ids into text.

    Example:
        >>> tokenizer.encode("Hello!")
        Encoding(ids=[17, 5], spans=[(0, 5), (5, 6)])
        >>> tokenizer.decode([17, 5])
        'Hello!'
    """

    @property
    def kind(self) -> str:
        """The kind of token: "word", "character" or "subword"."""

    @property
    def size(self) -> int:
        """The number of ids, special tokens included."""

    def encode(self, line: str) -> Encoding:
        """The ids of a line; a token that is not in the vocabulary is `UNKNOWN`.

        Args:
            line: Raw text; any white space separates words.

        Returns:
            Ids without an end symbol, and each token's span in `line`.
        """

    def ids(self, line: str) -> list[int]:
        """The ids of a line alone, which training reads each time anew."""

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The tokens of ids, one each, for pictures."""

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """The text of ids.

        Args:
            ids: Token ids; padding, begin and end symbols give no text.
            replacements: For positions in `ids` that are unknown: the text to put there
                instead of "<unk>".
        """

    def decode_spans(
        self, ids: Sequence[int], replacements: Mapping[int, str] | None = None
    ) -> tuple[str, list[Span]]:
        """The text of ids, as from `decode`, and each token's span in it."""

    def save(self, folder: Path, name: str) -> None:
        """Write `name` with the ending of this kind (.json or .model) into a folder, whole.

        Raises:
            UserError: The file cannot be written.
        """


class PieceTokenizer(Tokenizer, Protocol):
    """A tokenizer of text, whose tokens are strings that can be copied to another language.

    A piece is a token as the vocabulary writes it, with its marks of spacing.

    Example:
        >>> pieces = tokenizer.pieces("Hello!")
        >>> [tokenizer.id(piece) for piece in pieces] == tokenizer.ids("Hello!")
        True
    """

    def pieces(self, line: str) -> list[str]:
        """The pieces of a line, the unknown ones too."""

    def id(self, piece: str) -> int:
        """The id of a piece; `UNKNOWN` if there is none."""

    def tokens(self, ids: Sequence[int], extra: Sequence[str] = ()) -> list[str]:
        """As of `Tokenizer`; `extra` has the pieces of the ids from `size` on."""

    def decode_spans(
        self,
        ids: Sequence[int],
        replacements: Mapping[int, str] | None = None,
        extra: Sequence[str] = (),
    ) -> tuple[str, list[Span]]:
        """As of `Tokenizer`; `extra` has the pieces of the ids from `size` on."""
