"""The values that attention takes and gives: a prepared source, and what came of a query."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
from torch import Tensor


class Memory(NamedTuple):
    """Sources made ready to be attended, an immutable value.

    Attributes:
        keys: What the score function made of the keys.
        values: (B, S, v), zero where masked or broken.
        mask: Bool (B, S), True = may attend.
        lengths: S_b, the length of each source (B,), which windows go by.
        broken: Bool (B, S), True where a key or value that may be attended is not finite. A query
            that sees such a position gives NaN; one that does not is untouched by it. None where
            there is known to be none.
    """

    keys: Any
    values: Tensor
    mask: Tensor
    lengths: Tensor
    broken: Tensor | None

    def select(self, rows: Tensor) -> Memory:
        """The memory of the given sources, in their order.

        Args:
            rows: Integer indices (n,).
        """
        is_plain = isinstance(self.keys, Tensor)
        keys = self.keys.index_select(0, rows) if is_plain else self.keys.select(rows)
        values, mask, lengths = (
            part.index_select(0, rows) for part in (self.values, self.mask, self.lengths)
        )
        broken = None if self.broken is None else self.broken.index_select(0, rows)
        return Memory(keys, values, mask, lengths, broken)


class AttentionOutput(NamedTuple):
    """What attending gives.

    Attributes:
        context: (B, T, v).
        weights: (B, T, S), or the band (B, T, 2D+1) of a local window; before dropout. None if
            they were not asked for.
        band_start: Source position of the band's first slot, c - D, (B, T), which may be
            negative; None for a global window.
    """

    context: Tensor
    weights: Tensor | None
    band_start: Tensor | None

    def dense(self, source_length: int) -> Tensor:
        """The weights over the whole source, (B, T, S), whatever the window.

        Args:
            source_length: S.

        Raises:
            ValueError: The weights were not asked for.
        """
        if self.weights is None:
            raise ValueError("the weights were not kept; attend with need_weights=True.")
        if self.band_start is None:
            return self.weights
        width = self.weights.shape[-1]
        slots = self.band_start.unsqueeze(-1) + torch.arange(width, device=self.weights.device)
        inside = (slots >= 0) & (slots < source_length)
        dense = self.weights.new_zeros(*self.weights.shape[:-1], source_length)
        if source_length == 0:
            return dense
        slots = slots.clamp(0, source_length - 1)
        return dense.scatter_add(-1, slots, self.weights.masked_fill(~inside, 0.0))
