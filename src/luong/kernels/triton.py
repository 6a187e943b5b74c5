"""The operations on Triton kernels, for CUDA tensors in float32, float16 and bfloat16.

What enters in 16 bits is widened before the kernels; all arithmetic is float32. With
TRITON_INTERPRET=1 in the environment before the first import, the kernels run on CPU tensors, in
Triton's interpreter: slow, and good for tests.
"""

from __future__ import annotations

import math
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from luong.kernels.prepared import PreparedKeys
from luong.kernels.reference import at_least_float32, dot_scores, global_context, lstm_update
from luong.kernels.sdpa import dot_attention
from luong.kernels.triton_additive import (
    BLOCK_QUERIES,
    parts,
    prepare,
    row_gradient,
    score_tiles,
    unlaid,
)
from luong.kernels.triton_attention import AdditiveAttention
from luong.kernels.triton_local import (
    AdditiveBand,
    Band,
    ContextBand,
    DotBand,
    band_scores,
    band_sums,
)

__all__ = [
    "additive_attention",
    "additive_scores",
    "dot_attention",
    "dot_scores",
    "global_context",
    "local_context",
    "local_scores",
    "lstm_update",
    "prepare_keys",
]

# A tile holds 32 queries; so few of them would leave most of it idle.
FEW_QUERIES = 4


def prepare_keys(key: Tensor) -> PreparedKeys:
    """See `luong.kernels.prepare_keys`; the exponentials' rows lie next to each other."""
    return prepare(at_least_float32(key))


def additive_scores(query: Tensor, key: Tensor | PreparedKeys, weight: Tensor) -> Tensor:
    """See `luong.kernels.additive_scores`."""
    prepared = _prepared(key)
    query = at_least_float32(query)
    lead = _lead(query, prepared.key)
    power, maxima = parts(prepared)
    scores: Tensor = AdditiveScores.apply(  # type: ignore[no-untyped-call]
        _folded(query, lead),
        _folded(prepared.key, lead),
        at_least_float32(weight),
        _folded(power, lead),
        _folded(maxima.unsqueeze(-1), lead).squeeze(-1),
    )
    return scores.reshape(*lead, *scores.shape[1:])


def local_scores(
    query: Tensor,
    key: Tensor | PreparedKeys,
    centres: Tensor,
    half_width: int,
    weight: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.local_scores`."""
    query = at_least_float32(query)
    plain = at_least_float32(key.key if isinstance(key, PreparedKeys) else key)
    lead = _lead(query, plain, centres.unsqueeze(-1))
    band = _band(centres, 2 * half_width + 1, lead)
    sides = _folded(query, lead), _folded(plain, lead)
    if weight is None:
        scores: Tensor = DotBand.apply(*sides, band)  # type: ignore[no-untyped-call]
    else:
        power, maxima = parts(_prepared(key))
        scores = AdditiveBand.apply(  # type: ignore[no-untyped-call]
            *sides,
            at_least_float32(weight),
            _folded(power, lead),
            _folded(maxima.unsqueeze(-1), lead).squeeze(-1),
            band,
        )
    return scores.reshape(*lead, *scores.shape[1:])


def local_context(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """See `luong.kernels.local_context`."""
    weights, value = at_least_float32(weights), at_least_float32(value)
    lead = _lead(weights, value, centres.unsqueeze(-1))
    band = _band(centres, weights.shape[-1], lead)
    context: Tensor = ContextBand.apply(  # type: ignore[no-untyped-call]
        _folded(weights, lead), _folded(value, lead), band
    )
    return context.reshape(*lead, *context.shape[1:])


def additive_attention(
    query: Tensor,
    key: Tensor | PreparedKeys,
    weight: Tensor,
    value: Tensor,
    *,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    bias: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Additive scores, softmax and context in one, without the T x S weights.

    Memory beside inputs, outputs and gradients does not grow with T x S. A gradient of `bias` is
    as large as the bias is when broadcast.

    Args:
        query: Projected queries (..., T, n).
        key: Projected keys (..., S, n), plain or prepared; leading dimensions broadcast.
        weight: The vector v (n).
        value: Values (..., S, v).
        mask: Bool, broadcastable to (..., T, S), True = may attend.
        lengths: Integers, broadcastable to the leading dimensions: keys beyond are masked.
        bias: Float, added to the scores, broadcastable to (..., T, S).

    Returns:
        Context (..., T, v) and log-sum-exp of the scores (..., T), float32. A row with nothing to
        attend has context 0, log-sum-exp -inf and gradients 0; a masked key or value takes no
        part at all.

    Raises:
        TypeError: The mask is not bool.

    Example:
        >>> context, log_sum = additive_attention(query, prepare_keys(key), weight, value)
    """
    if mask is not None and mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}; expected bool, True = may attend.")
    query, prepared, value = at_least_float32(query), _prepared(key), at_least_float32(value)
    lead = _lead(query, prepared.key, value)
    query_count, key_count = query.shape[-2], prepared.key.shape[-2]
    power, maxima = parts(prepared)
    batch = math.prod(lead)
    if lengths is None:
        lengths = torch.full((batch,), key_count, device=query.device)
    else:
        lengths = lengths.expand(lead).reshape(batch).to(query.device, torch.int64)
        lengths = lengths.clamp(max=key_count)
    pairs = (query_count, key_count)
    context, log_sum = AdditiveAttention.apply(  # type: ignore[no-untyped-call]
        _folded(query, lead),
        _folded(prepared.key, lead),
        at_least_float32(weight),
        _folded(value, lead),
        None if bias is None else _over_pairs(at_least_float32(bias), lead, pairs),
        _folded(power, lead),
        _folded(maxima.unsqueeze(-1), lead).squeeze(-1),
        None if mask is None else _over_pairs(mask.view(torch.uint8), lead, pairs),
        lengths,
    )
    return context.reshape(*lead, *context.shape[1:]), log_sum.reshape(*lead, query_count)


class AdditiveScores(torch.autograd.Function):
    """Scores (B, T, S) of queries (B, T, n) against prepared keys (B, S, n), all float32."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, weight: Tensor, power: Tensor, maxima: Tensor
    ) -> Tensor:
        """Score, and keep only the rows."""
        keys = PreparedKeys(key, power, maxima)
        few = query.shape[1] <= FEW_QUERIES
        queries = prepare(query, 1 if few else BLOCK_QUERIES)
        ctx.save_for_backward(query, key, weight, queries.row_maxima, maxima)
        if not few:
            return score_tiles(queries, keys, weight)
        return band_scores(queries, keys, weight, _everything(query, key))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, ...]:
        """Recompute r, once for the side of the queries and once for that of the keys."""
        query, key, weight, query_maxima, key_maxima = ctx.saved_tensors
        queries = unlaid(PreparedKeys(query, None, query_maxima))
        keys = unlaid(PreparedKeys(key, None, key_maxima))
        query_gradient = key_gradient = weight_gradient = None
        if ctx.needs_input_grad[0] or ctx.needs_input_grad[2]:
            if query.shape[1] <= FEW_QUERIES:
                band = _everything(query, key)
                query_gradient, total = band_sums(queries, keys, weight, band, error)
            else:
                query_gradient, total = row_gradient(
                    queries, keys, weight, error, with_weight=ctx.needs_input_grad[2]
                )
            weight_gradient = total.to(weight.dtype)
        if ctx.needs_input_grad[1]:
            swapped = error.transpose(1, 2)
            key_gradient, _ = row_gradient(keys, queries, weight, swapped, with_weight=False)
        return query_gradient, key_gradient, weight_gradient, None, None


def _prepared(key: Tensor | PreparedKeys) -> PreparedKeys:
    """Prepared keys with all parts; those of an engine without exponentials are completed."""
    if not isinstance(key, PreparedKeys):
        return prepare_keys(key)
    if key.exponentials is None or key.row_maxima is None:
        return prepare_keys(key.key)
    return key


def _lead(*rows: Tensor) -> torch.Size:
    """The leading dimensions that (..., R, n) tensors broadcast to."""
    shapes = (tensor.shape[:-2] for tensor in rows)
    return torch.Size(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def _folded(rows: Tensor, lead: torch.Size) -> Tensor:
    """(..., R, n) with leading dimensions broadcast and made one."""
    return rows.expand(*lead, *rows.shape[-2:]).reshape(math.prod(lead), *rows.shape[-2:])


def _over_pairs(tensor: Tensor, lead: torch.Size, pairs: tuple[int, int]) -> Tensor:
    """A mask or bias as (B, T, S); a T or S that it does not have is not made in memory."""
    while tensor.dim() < 2:
        tensor = tensor.unsqueeze(0)
    return _folded(tensor, lead).expand(-1, *pairs)


def _everything(query: Tensor, key: Tensor) -> Band:
    """The band of queries that see the whole source."""
    start = torch.zeros((), dtype=torch.int64, device=query.device)
    return Band(start.expand(query.shape[:2]), key.shape[1])


def _band(centres: Tensor, width: int, lead: torch.Size) -> Band:
    starts = centres.to(torch.int64) - width // 2
    return Band(_folded(starts.unsqueeze(-1), lead).squeeze(-1), width)
