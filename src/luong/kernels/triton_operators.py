"""The registered operators on Triton kernels; see `luong.kernels.operators`.

Shapes here are (B, T, n) for queries, (B, S, n) for keys, (n) for the weight vector, (B, T) for
centres, all float32.
"""

from __future__ import annotations

import torch
from torch import Tensor

from luong.kernels import operators, triton_local
from luong.kernels.prepared import PreparedKeys
from luong.kernels.triton_additive import (
    BLOCK_QUERIES,
    INTERPRETED,
    prepare,
    row_gradient,
    score_tiles,
    unlaid,
)
from luong.kernels.triton_local import Band, plain_rows

# A tile holds 32 queries; so few of them would leave most of it idle.
FEW_QUERIES = 4


def register() -> None:
    """Let the operators run these kernels on CUDA tensors, or in the interpreter on CPU tensors."""
    device = "cpu" if INTERPRETED else "cuda"
    operators.additive_scores.register_kernel(device, additive_scores)
    operators.additive_gradients.register_kernel(device, additive_gradients)
    operators.band_scores.register_kernel(device, band_scores)
    operators.band_score_gradients.register_kernel(device, band_score_gradients)
    operators.band_dot.register_kernel(device, band_dot)
    operators.band_sum.register_kernel(device, band_sum)
    operators.band_spread.register_kernel(device, band_spread)


def additive_scores(
    query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> Tensor:
    """Scores (B, T, S)."""
    keys = PreparedKeys(key, powers, maxima)
    if query.shape[1] > FEW_QUERIES:
        return score_tiles(prepare(query, BLOCK_QUERIES), keys, weight)
    return triton_local.band_scores(prepare(query), keys, weight, _everything(query, key))


def additive_gradients(
    incoming: Tensor, query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the scores for query, key and weight: r is computed anew for each side."""
    queries = unlaid(prepare(query))
    keys = unlaid(PreparedKeys(key, None, maxima))
    if query.shape[1] > FEW_QUERIES:
        query_gradient, total = row_gradient(queries, keys, weight, incoming, with_weight=True)
    else:
        everything = _everything(query, key)
        query_gradient, total = triton_local.band_sums(queries, keys, weight, everything, incoming)
    swapped = incoming.transpose(1, 2)
    key_gradient, _ = row_gradient(keys, queries, weight, swapped, with_weight=False)
    return query_gradient, key_gradient, total.to(weight.dtype)


def band_scores(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
    width: int,
) -> Tensor:
    """Additive scores of bands (B, T, width)."""
    keys = PreparedKeys(key, powers, maxima)
    return triton_local.band_scores(prepare(query), keys, weight, _band(centres, width))


def band_score_gradients(
    incoming: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `band_scores` for query, key and weight."""
    sides = prepare(query), PreparedKeys(key, powers, maxima)
    band = _band(centres, incoming.shape[2])
    query_gradient, total = triton_local.band_sums(*sides, weight, band, incoming)
    key_gradient = triton_local.band_spread(*sides, weight, band, incoming)
    return query_gradient, key_gradient, total.to(weight.dtype)


def band_dot(query: Tensor, key: Tensor, centres: Tensor, width: int) -> Tensor:
    """Dot products of bands (B, T, width)."""
    sides = plain_rows(query), plain_rows(key)
    return triton_local.band_scores(*sides, None, _band(centres, width))


def band_sum(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """Sums of the values under bands (B, T, v)."""
    sides = plain_rows(weights), plain_rows(value)
    band = _band(centres, weights.shape[2])
    return triton_local.band_sums(*sides, None, band, weights)[0]


def band_spread(weights: Tensor, rows: Tensor, centres: Tensor, source: int) -> Tensor:
    """`band_sum` transposed: rows (B, T, v) spread over the source (B, S, v)."""
    sides = plain_rows(rows), plain_rows(rows.new_empty(rows.shape[0], source, 0))
    return triton_local.band_spread(*sides, None, _band(centres, weights.shape[2]), weights)


def _everything(query: Tensor, key: Tensor) -> Band:
    """The band of queries that see the whole source."""
    start = torch.zeros((), dtype=torch.int64, device=query.device)
    return Band(start.expand(query.shape[:2]), key.shape[1])


def _band(centres: Tensor, width: int) -> Band:
    return Band(centres - width // 2, width)
