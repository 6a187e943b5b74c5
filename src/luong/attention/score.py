"""What every score function is: keys prepared once, queries scored against them, and a price."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, NamedTuple

from torch import Tensor, nn

from luong import kernels
from luong.kernels.reference import biased, masked_softmax


class Cost(NamedTuple):
    """What a score costs for one source: parameters, and floating-point operations.

    A multiply-add counts as two operations, a tanh as one.
    """

    parameters: int
    operations: int


class Score(nn.Module, ABC):
    """A score function: it prepares keys once and then scores queries against them.

    Args:
        query_size: q, the size of a query.
        key_size: k, the size of a key.
        attention_size: n, the hidden size of `concat` and `additive`.
        max_length: Source positions that `location` knows.
    """

    attends = True
    """False for the score that means no attention at all."""
    covers = False
    """True where `scores` takes what was attended before, see `covered`."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        attention_size: int | None = None,
        max_length: int | None = None,
    ) -> None:
        super().__init__()
        self.query_size = query_size
        self.key_size = key_size
        self.max_length: int | None = None
        """Positions from this one on are never attended; None: no such bound."""

    @abstractmethod
    def prepare(self, keys: Tensor) -> Any:
        """Do what every query would do again: project the keys (B, S, k).

        Returns:
            A tensor with the batch first, or a tuple of them with `select(rows)`.
        """

    @abstractmethod
    def scores(self, query: Tensor, prepared: Any) -> Tensor:
        """Score queries (B, T, q) against all prepared keys: (B, T, S), float32 at least."""

    @abstractmethod
    def banded(self, query: Tensor, prepared: Any, centres: Tensor, half_width: int) -> Tensor:
        """Score queries (B, T, q) against the keys around centres (B, T): (B, T, 2D+1)."""

    def covered(self, query: Tensor, prepared: Any, coverage: Tensor) -> Tensor:
        """Score as `scores` does, given the sum of the weights so far (B, T, S).

        Raises:
            ValueError: This score knows no coverage.
        """
        raise ValueError(
            f"{type(self).__name__} knows no coverage. Make 'additive' or 'concat' with "
            "coverage=True."
        )

    def context(
        self,
        query: Tensor,
        prepared: Any,
        values: Tensor,
        mask: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        """Attend to a whole source where nobody asks for the weights.

        A score whose weights need not be made at all overrides it.

        Args:
            query: (B, T, q).
            prepared: What `prepare` made of the keys.
            values: (B, S, v).
            mask: Bool, broadcastable to (B, T, S).
            bias: Float, added to the scores, broadcastable to (B, T, S).

        Returns:
            (B, T, v), float32 at least.
        """
        weights = masked_softmax(biased(self.scores(query, prepared), bias), mask)
        return kernels.global_context(weights, values)

    def cost(
        self, source_length: int, target_length: int = 1, half_width: int | None = None
    ) -> Cost:
        """Parameters and floating-point operations for one source.

        Args:
            source_length: S.
            target_length: T, the queries.
            half_width: D of a local window; None for a global one.

        Example:
            >>> General(4, 4).cost(10, target_length=2)
            Cost(parameters=16, operations=480)
        """
        seen = source_length if half_width is None else min(source_length, 2 * half_width + 1)
        operations = self.operations(source_length, target_length, target_length * seen)
        return Cost(sum(p.numel() for p in self.parameters()), operations)

    @abstractmethod
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        """Operations for S keys, T queries, and the pairs of them that are scored."""
