"""Searching batches that may be too large for memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from luong.errors import UserError, is_out_of_memory
from luong.search.beam import Hypothesis

Item = TypeVar("Item")


def search_split(
    search: Callable[[Sequence[Item]], list[list[Hypothesis]]],
    batch: Sequence[Item],
    too_large: Callable[[Item], str],
) -> list[list[Hypothesis]]:
    """Search a batch at once, or in two halves where it does not fit in memory.

    Args:
        search: Gives the hypotheses of each item, best first.
        batch: What is searched.
        too_large: What to say of an item that does not fit alone.

    Returns:
        For each item one hypothesis or more.

    Raises:
        UserError: An item alone does not fit in memory, or the model gives NaN.

    Example:
        >>> search_split(search, sentences, lambda sentence: f"{sentence} is too long.")
    """
    try:
        found = search(batch)
    except RuntimeError as error:
        if not is_out_of_memory(error):
            raise
        found = None  # split outside of the handler: the error keeps the tensors alive
    if found is None:
        if len(batch) == 1:
            raise UserError(too_large(batch[0]))
        middle = len(batch) // 2
        halves = (
            search_split(search, half, too_large) for half in (batch[:middle], batch[middle:])
        )
        return [hypotheses for half in halves for hypotheses in half]
    if not all(found):
        raise UserError(
            "The model gives no numbers (NaN) as probabilities: its training has diverged. "
            "Train anew with a lower learning rate."
        )
    return found
