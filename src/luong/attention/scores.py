"""Score functions: how well a query matches a key.

| name | score(h_t, h_s) | source |
|---|---|---|
| dot | h_t . h_s | Luong 2015, equation 8 |
| scaled-dot | h_t . h_s / sqrt(k) | Vaswani 2017, equation 1 |
| general | h_t^T W h_s | Luong 2015, equation 8 |
| concat | v^T tanh(W [h_t; h_s]) | Luong 2015, equation 8 |
| additive | v^T tanh(W_q h_t + W_k h_s + b) | Bahdanau 2015, appendix A.1.2 |
| location | (W h_t)_s | Luong 2015, equation 9 |
| none | no attention | Luong 2015, Table 1, base |

With coverage `concat` and `additive` add w times the sum of the weights so far inside the tanh (See
2017, equation 11).

A new score is one class here and one line in SCORES; every window and placement then has it.
"""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from luong import kernels
from luong.attention.score import Cost as Cost
from luong.attention.score import Score as Score
from luong.errors import nearest
from luong.kernels import reference
from luong.kernels.products import linear
from luong.kernels.reference import at_least_float32


class DotProduct(Score):
    """The scores that end in a dot product between the query and a prepared key."""

    @override
    def scores(self, query: Tensor, prepared: Tensor) -> Tensor:
        return kernels.dot_scores(self._scaled(query), prepared)

    @override
    def banded(self, query: Tensor, prepared: Tensor, centres: Tensor, half_width: int) -> Tensor:
        return kernels.local_scores(self._scaled(query), prepared, centres, half_width)

    @override
    def context(
        self,
        query: Tensor,
        prepared: Tensor,
        values: Tensor,
        mask: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        if bias is not None:
            return super().context(query, prepared, values, mask, bias)
        return kernels.dot_attention(self._scaled(query), prepared, values, mask)

    def _scaled(self, query: Tensor) -> Tensor:
        return at_least_float32(query)


class Dot(DotProduct):
    """h_t . h_s (Luong 2015, equation 8); queries and keys have one size."""

    def __init__(self, query_size: int, key_size: int, **sizes: int | None) -> None:
        super().__init__(query_size, key_size)
        if query_size != key_size:
            raise ValueError(
                f"a dot product needs queries and keys of one size, but query_size is "
                f"{query_size} and key_size is {key_size}. Use score='general', which has a "
                "matrix between them."
            )

    @override
    def prepare(self, keys: Tensor) -> Tensor:
        return at_least_float32(keys)

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return 2 * pairs * self.key_size


class ScaledDot(Dot):
    """h_t . h_s / sqrt(k) (Vaswani 2017, equation 1)."""

    def _scaled(self, query: Tensor) -> Tensor:
        return at_least_float32(query) / math.sqrt(self.key_size)

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return super().operations(keys, queries, pairs) + queries * self.query_size


class General(DotProduct):
    """h_t^T W h_s with W (q, k) (Luong 2015, equation 8)."""

    def __init__(self, query_size: int, key_size: int, **sizes: int | None) -> None:
        super().__init__(query_size, key_size)
        self.weight = nn.Parameter(torch.empty(query_size, key_size))
        nn.init.xavier_uniform_(self.weight)

    @override
    def prepare(self, keys: Tensor) -> Tensor:
        return at_least_float32(linear(keys, self.weight))

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return 2 * keys * self.key_size * self.query_size + 2 * pairs * self.query_size


class Location(DotProduct):
    """(W h_t)_s with W (max_length, q): the query alone decides (Luong 2015, equation 9).

    This is `dot` with the rows of W as keys, shared by the whole batch.
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        max_length: int | None = None,
        **sizes: int | None,
    ) -> None:
        super().__init__(query_size, key_size)
        if max_length is None:
            raise ValueError("score='location' needs max_length, the source positions it knows.")
        self.max_length = max_length
        self.weight = nn.Parameter(torch.empty(max_length, query_size))
        nn.init.xavier_uniform_(self.weight)

    @override
    def prepare(self, keys: Tensor) -> Tensor:
        batch, source_length, _ = keys.shape
        rows = at_least_float32(self.weight[:source_length])
        beyond = source_length - rows.shape[0]
        return functional.pad(rows, (0, 0, 0, beyond)).expand(batch, -1, -1)

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return 2 * pairs * self.query_size


class _Additive(Score):
    """The scores v^T tanh(query' + key'), whatever makes the two projections."""

    weight_vector: nn.Parameter
    coverage_weight: nn.Parameter | None

    @override
    def covered(self, query: Tensor, prepared: kernels.PreparedKeys, coverage: Tensor) -> Tensor:
        if self.coverage_weight is None:
            return super().covered(query, prepared, coverage)
        queries, weight = self._projected(query), self.weight_vector
        with torch.autocast(query.device.type, enabled=False):
            return reference.covered_scores(
                queries, prepared, weight, coverage, self.coverage_weight
            )

    def _prepared(self, projected: Tensor) -> kernels.PreparedKeys:
        # With coverage nothing is made of the exponentials that other engines take beforehand.
        prepare = reference.prepare_keys if self.covers else kernels.prepare_keys
        return prepare(projected)

    def _cover(self, coverage: bool, size: int) -> None:
        """Make the weights of coverage, or note that there are none."""
        self.covers = coverage
        self.coverage_weight = nn.Parameter(torch.empty(size)) if coverage else None
        if self.coverage_weight is not None:
            nn.init.uniform_(self.coverage_weight, -(size**-0.5), size**-0.5)

    @override
    def scores(self, query: Tensor, prepared: kernels.PreparedKeys) -> Tensor:
        return kernels.additive_scores(self._projected(query), prepared, self.weight_vector)

    @override
    def banded(
        self, query: Tensor, prepared: kernels.PreparedKeys, centres: Tensor, half_width: int
    ) -> Tensor:
        projected = self._projected(query)
        return kernels.local_scores(projected, prepared, centres, half_width, self.weight_vector)

    @override
    def context(
        self,
        query: Tensor,
        prepared: kernels.PreparedKeys,
        values: Tensor,
        mask: Tensor,
        bias: Tensor | None = None,
    ) -> Tensor:
        return kernels.additive_attention(
            self._projected(query), prepared, self.weight_vector, values, mask, bias
        )

    @abstractmethod
    def _projected(self, query: Tensor) -> Tensor:
        """The query side of the sum inside tanh (B, T, n)."""

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        size = self.weight_vector.numel()
        projections = 2 * size * (keys * self.key_size + queries * self.query_size)
        return projections + (6 if self.covers else 4) * pairs * size


class Concat(_Additive):
    """v^T tanh(W [h_t; h_s]) with W (n, q+k) and v (n) (Luong 2015, equation 8)."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        attention_size: int | None = None,
        coverage: bool = False,
        **sizes: int | None,
    ) -> None:
        super().__init__(query_size, key_size)
        size = attention_size or query_size
        self._cover(coverage, size)
        self.weight = nn.Parameter(torch.empty(size, query_size + key_size))
        self.weight_vector = nn.Parameter(torch.empty(size))
        nn.init.xavier_uniform_(self.weight)
        nn.init.uniform_(self.weight_vector, -(size**-0.5), size**-0.5)

    @override
    def prepare(self, keys: Tensor) -> kernels.PreparedKeys:
        return self._prepared(linear(keys, self.weight[:, self.query_size :]))

    def _projected(self, query: Tensor) -> Tensor:
        return linear(query, self.weight[:, : self.query_size])


class Additive(_Additive):
    """v^T tanh(W_q h_t + W_k h_s + b) (Bahdanau 2015, appendix A.1.2)."""

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        attention_size: int | None = None,
        coverage: bool = False,
        **sizes: int | None,
    ) -> None:
        super().__init__(query_size, key_size)
        size = attention_size or query_size
        self._cover(coverage, size)
        self.query_weight = nn.Parameter(torch.empty(size, query_size))
        self.key_weight = nn.Parameter(torch.empty(size, key_size))
        self.bias = nn.Parameter(torch.zeros(size))
        self.weight_vector = nn.Parameter(torch.empty(size))
        nn.init.xavier_uniform_(self.query_weight)
        nn.init.xavier_uniform_(self.key_weight)
        nn.init.uniform_(self.weight_vector, -(size**-0.5), size**-0.5)

    @override
    def prepare(self, keys: Tensor) -> kernels.PreparedKeys:
        return self._prepared(linear(keys, self.key_weight))

    def _projected(self, query: Tensor) -> Tensor:
        return linear(query, self.query_weight, self.bias)

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return super().operations(keys, queries, pairs) + queries * self.bias.numel()


class NoAttention(Score):
    """No attention: the plain encoder-decoder of Luong 2015, Table 1 ("base").

    Nothing is attended, so weights are zero rows and the context has size 0.
    """

    attends = False

    @override
    def prepare(self, keys: Tensor) -> Tensor:
        return keys[..., :0]

    @override
    def scores(self, query: Tensor, prepared: Tensor) -> Tensor:
        return at_least_float32(query).new_zeros(*query.shape[:-1], prepared.shape[-2])

    @override
    def banded(self, query: Tensor, prepared: Tensor, centres: Tensor, half_width: int) -> Tensor:
        return at_least_float32(query).new_zeros(*query.shape[:-1], 2 * half_width + 1)

    @override
    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return 0


SCORES: dict[str, type[Score]] = {
    "dot": Dot,
    "scaled-dot": ScaledDot,
    "general": General,
    "concat": Concat,
    "additive": Additive,
    "location": Location,
    "none": NoAttention,
}


def make_score(
    score: str | Score,
    query_size: int,
    key_size: int,
    *,
    attention_size: int | None = None,
    max_length: int | None = None,
    coverage: bool = False,
) -> Score:
    """A score function by its name; an object is given back as it is.

    Raises:
        ValueError: The name is unknown, or the sizes do not suit the score.

    Example:
        >>> make_score("general", 4, 6).weight.shape
        torch.Size([4, 6])
    """
    if isinstance(score, Score):
        return score
    if score not in SCORES:
        raise ValueError(f"'{score}' is not a score function.{nearest(score, SCORES)}")
    made: type[Score] = SCORES[score]
    if not coverage:
        return made(query_size, key_size, attention_size=attention_size, max_length=max_length)
    if not issubclass(made, Additive | Concat):
        raise ValueError(f"'{score}' knows no coverage. Use score='additive' or 'concat'.")
    return made(query_size, key_size, attention_size=attention_size, coverage=True)
