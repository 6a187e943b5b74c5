"""Copying in a search: what source tokens are in the target, and what of a text was copied."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from torch import Tensor

from luong.errors import UserError
from luong.search.trained import SearchModel, TrainedModel
from luong.text.batches import padded
from luong.text.copying import NOT_COPIED, Copies, copies_of
from luong.text.tokenizers import PieceTokenizer, Span

HALF = 0.5
"""A token of whose probability a larger share comes from copying counts as copied."""


def copies(model: SearchModel) -> bool:
    """Whether a model copies source tokens."""
    return bool(getattr(model, "copies", False))


def refuse_shortlist(model: SearchModel) -> None:
    """Refuse a shortlist for a model that copies.

    Raises:
        UserError: It copies.
    """
    if copies(model):
        raise UserError(
            "The model copies source words, which a shortlist of target words does not have. "
            "Translate without the shortlist."
        )


def read_copies(
    folder: TrainedModel, lines: Sequence[str], lengths: Sequence[int]
) -> list[Copies] | None:
    """What the source tokens of some lines are in the target.

    Args:
        folder: Of the model.
        lines: Source lines.
        lengths: How many of its tokens each line shows to the model.

    Returns:
        One for each line; None for a model that does not copy.
    """
    if not copies(folder.model):
        return None
    reader = cast(PieceTokenizer, folder.source_tokenizer)
    writer = cast(PieceTokenizer, folder.target_tokenizer)
    return [
        copies_of(reader.pieces(line), writer, length)
        for line, length in zip(lines, lengths, strict=True)
    ]


def encode(
    model: SearchModel, source: Tensor, lengths: Tensor, found: Sequence[Copies] | None
) -> tuple[Any, Any]:
    """Read sources: memory and state.

    Args:
        model: Of a folder.
        source: Token ids (B, S).
        lengths: Integers (B,), end symbols counted.
        found: What `read_copies` gave for them.
    """
    if found is None:
        return model.encode(source, lengths)
    table = padded([[*one.ids, NOT_COPIED] for one in found], NOT_COPIED)
    return cast(Any, model).encode(source, lengths, table.to(source.device))  # type: ignore[no-any-return]


def stretches(text: str, spans: Sequence[Span], shares: Sequence[float]) -> list[Span]:
    """Where the tokens that were copied stand in a text; neighbours make one stretch.

    Args:
        text: The text.
        spans: Of its tokens.
        shares: The share of copying in each token; none: nothing was copied.

    Example:
        >>> stretches("a big cat", [(0, 1), (2, 5), (6, 9)], [0.2, 0.9, 0.8])
        [(2, 9)]
    """
    found: list[Span] = []
    before = False
    for (start, end), share in zip(spans, shares, strict=False):
        copied = share > HALF
        if copied and start < end:
            if before and found and not text[found[-1][1] : start].strip():
                start = found.pop()[0]
            found.append((start, end))
        before = copied
    return found
