"""Keys that were made ready once for many queries."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class PreparedKeys(NamedTuple):
    """Projected keys (..., S, n) and what an engine keeps beside them.

    Attributes:
        key: The projected keys, float32 at least.
        exponentials: exp(2 key), for engines that use tanh(a+b) = 1 - 2 / (1 + e^2a e^2b).
        row_maxima: max |key| of each row (..., S), which tells where that identity holds.
    """

    key: Tensor
    exponentials: Tensor | None = None
    row_maxima: Tensor | None = None

    def select(self, rows: Tensor) -> PreparedKeys:
        """The same for the given rows of the first dimension, in their order.

        Args:
            rows: Integer indices (n,).
        """
        exponentials, row_maxima = self.exponentials, self.row_maxima
        return PreparedKeys(
            self.key.index_select(0, rows),
            None if exponentials is None else exponentials.index_select(0, rows),
            None if row_maxima is None else row_maxima.index_select(0, rows),
        )
