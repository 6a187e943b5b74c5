"""Which target token a source token is when it is copied (See, Liu and Manning 2017, section 2.2).

A source has an extended vocabulary: the target's V tokens, and V, V + 1, ... for those of its own
tokens that the target's vocabulary does not know, in the order in which they come. The numbers of
a source do not depend on what shares its batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from luong.text.encoding import PieceTokenizer
from luong.text.vocabulary import UNKNOWN

NOT_COPIED = -1
"""Stands where there is nothing to copy: at features, at the end symbol, and on padding."""


class Copies(NamedTuple):
    """The tokens of a source as tokens of the target.

    Attributes:
        ids: The extended target id of each source token.
        extra: The pieces of the ids from V on.
    """

    ids: list[int]
    extra: list[str]

    def targets(self, pieces: Sequence[str], tokenizer: PieceTokenizer) -> list[int]:
        """The extended ids of a target of this source.

        Args:
            pieces: Of the target.
            tokenizer: Of the target side.

        Returns:
            For each piece its id; that of the source token where only the source has it;
            `UNKNOWN` for what neither knows.
        """
        new = {piece: tokenizer.size + place for place, piece in enumerate(self.extra)}
        ids = map(tokenizer.id, pieces)
        return [
            new.get(piece, UNKNOWN) if id == UNKNOWN else id
            for piece, id in zip(pieces, ids, strict=True)
        ]


def copies_of(pieces: Sequence[str], tokenizer: PieceTokenizer, length: int) -> Copies:
    """Number the tokens of a source with the ids of the target side.

    Args:
        pieces: Of the source, by its own tokenizer.
        tokenizer: Of the target side.
        length: Tokens of the source; pieces beyond are left out, and tokens beyond the pieces are
            features, which are not copied.

    Example:
        >>> copies_of(["the", "gnome", "and", "gnome"], tokenizer_that_knows_the_and_and, 4)
        Copies(ids=[4, 6, 5, 6], extra=['gnome'])
    """
    new: dict[str, int] = {}
    ids = []
    for piece in pieces[:length]:
        id = tokenizer.id(piece)
        if id == UNKNOWN:
            id = new.setdefault(piece, tokenizer.size + len(new))
        ids.append(id)
    return Copies(ids + [NOT_COPIED] * (length - len(ids)), list(new))
