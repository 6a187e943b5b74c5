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

from luong.kernels import reference
from luong.kernels.prepared import PreparedKeys
from luong.kernels.reference import at_least_float32, dot_scores, global_context
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
    mask: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.additive_attention`: scores, softmax and sum in one, by online softmax.

    Memory beside inputs, outputs and gradients does not grow with T x S, but the gradient of
    `bias` is as large as the bias is when broadcast. A masked key or value takes no part at all.
    """
    query, prepared, value = at_least_float32(query), _prepared(key), at_least_float32(value)
    lead = _lead(query, prepared.key, value)
    pairs = (query.shape[-2], prepared.key.shape[-2])
    power, maxima = parts(prepared)
    allowed = _over_pairs(mask, lead)
    context: Tensor = AdditiveAttention.apply(  # type: ignore[no-untyped-call]
        _folded(query, lead),
        _folded(prepared.key, lead),
        at_least_float32(weight),
        _folded(value, lead),
        None if bias is None else _over_pairs(at_least_float32(bias), lead).expand(-1, *pairs),
        _folded(power, lead),
        _folded(maxima.unsqueeze(-1), lead).squeeze(-1),
        allowed.view(torch.uint8).expand(-1, *pairs),
        _ends(allowed, pairs[1]),
    )
    return context.reshape(*lead, *context.shape[1:])


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
    def backward(ctx: Any, error: Tensor) -> tuple[Tensor | None, ...]:
        """Recompute r, once for the side of the queries and once for that of the keys."""
        query, key, weight, query_maxima, key_maxima = ctx.saved_tensors
        if torch.is_grad_enabled():
            scores = reference.additive_scores(query, key, weight)
            return *reference.differentiable(scores, (query, key, weight), error), None, None
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


def _over_pairs(tensor: Tensor, lead: torch.Size) -> Tensor:
    """A mask or bias as (B, T or 1, S or 1): a T or S that it does not have is not made."""
    while tensor.dim() < 2:
        tensor = tensor.unsqueeze(0)
    return _folded(tensor, lead)


def _ends(allowed: Tensor, key_count: int) -> Tensor:
    """One more than the last key that any query may attend to (B,), so that padding is not walked.

    Args:
        allowed: Bool (B, T or 1, S or 1).
        key_count: S.
    """
    seen = allowed.any(1)
    places = torch.arange(1, key_count + 1, device=allowed.device)
    if key_count == 0:
        return torch.zeros(allowed.shape[0], dtype=torch.int64, device=allowed.device)
    return torch.where(seen, places, 0).amax(-1)


def _everything(query: Tensor, key: Tensor) -> Band:
    """The band of queries that see the whole source."""
    start = torch.zeros((), dtype=torch.int64, device=query.device)
    return Band(start.expand(query.shape[:2]), key.shape[1])


def _band(centres: Tensor, width: int, lead: torch.Size) -> Band:
    starts = centres.to(torch.int64) - width // 2
    return Band(_folded(starts.unsqueeze(-1), lead).squeeze(-1), width)
