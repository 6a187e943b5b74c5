"""The operations on Triton kernels, for CUDA tensors in float32, float16 and bfloat16.

What enters in 16 bits is widened before the kernels; all arithmetic is float32. With
TRITON_INTERPRET=1 in the environment before the first import, the kernels run on CPU tensors, in
Triton's interpreter: slow, and good for tests.
"""

from __future__ import annotations

import torch
from torch import Tensor

from luong.kernels import operators, triton_operators
from luong.kernels.continuations import best_continuations
from luong.kernels.cross_entropy import accumulate, logit_gradients, softmax_sums
from luong.kernels.leading import broadcast, folded
from luong.kernels.prepared import PreparedKeys
from luong.kernels.reference import (
    at_least_float32,
    attended,
    dot_scores,
    few_rows_product,
    global_context,
    int8_product,
    log_softmax,
    lstm_sequences,
    lstm_update,
    softmax_context,
)
from luong.kernels.sdpa import dot_attention
from luong.kernels.triton_additive import parts, prepare
from luong.kernels.triton_attention import AdditiveAttention

__all__ = [
    "accumulate",
    "additive_attention",
    "additive_scores",
    "best_continuations",
    "dot_attention",
    "dot_scores",
    "few_rows_product",
    "global_context",
    "int8_product",
    "local_context",
    "local_scores",
    "log_softmax",
    "logit_gradients",
    "lstm_sequences",
    "lstm_update",
    "prepare_keys",
    "softmax_context",
    "softmax_sums",
]

triton_operators.register()


def prepare_keys(key: Tensor) -> PreparedKeys:
    """See `luong.kernels.prepare_keys`; the exponentials' rows lie next to each other."""
    return prepare(at_least_float32(key))


def additive_scores(query: Tensor, key: Tensor | PreparedKeys, weight: Tensor) -> Tensor:
    """See `luong.kernels.additive_scores`."""
    prepared = _prepared(key)
    query = at_least_float32(query)
    lead = broadcast(query.shape[:-2], prepared.key.shape[:-2])
    power, maxima = parts(prepared)
    scores: Tensor = operators.additive_scores(
        folded(query, lead),
        folded(prepared.key, lead),
        at_least_float32(weight),
        folded(power, lead),
        folded(maxima, lead, 1),
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
    lead = broadcast(query.shape[:-2], plain.shape[:-2], centres.shape[:-1])
    places, width = folded(centres.long(), lead, 1), 2 * half_width + 1
    sides = folded(query, lead), folded(plain, lead)
    if weight is None:
        scores: Tensor = operators.band_dot(*sides, places, width)
    else:
        power, maxima = parts(_prepared(key))
        scores = operators.band_scores(
            *sides,
            at_least_float32(weight),
            folded(power, lead),
            folded(maxima, lead, 1),
            places,
            width,
        )
    return scores.reshape(*lead, *scores.shape[1:])


def local_context(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """See `luong.kernels.local_context`."""
    weights, value = at_least_float32(weights), at_least_float32(value)
    lead = broadcast(weights.shape[:-2], value.shape[:-2], centres.shape[:-1])
    context: Tensor = operators.band_sum(
        folded(weights, lead), folded(value, lead), folded(centres.long(), lead, 1)
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
    if operators.traced(query):
        # Compilers would look into the launches of this one, which is not a registered operator.
        return attended(additive_scores(query, key, weight), value, mask, bias)
    query, prepared, value = at_least_float32(query), _prepared(key), at_least_float32(value)
    lead = broadcast(query.shape[:-2], prepared.key.shape[:-2], value.shape[:-2])
    pairs = (query.shape[-2], prepared.key.shape[-2])
    power, maxima = parts(prepared)
    allowed = _over_pairs(mask, lead)
    context: Tensor = AdditiveAttention.apply(  # type: ignore[no-untyped-call]
        folded(query, lead),
        folded(prepared.key, lead),
        at_least_float32(weight),
        folded(value, lead),
        None if bias is None else _over_pairs(at_least_float32(bias), lead).expand(-1, *pairs),
        folded(power, lead),
        folded(maxima, lead, 1),
        allowed.view(torch.uint8).expand(-1, *pairs),
        _ends(allowed, pairs[1]),
    )
    return context.reshape(*lead, *context.shape[1:])


def _prepared(key: Tensor | PreparedKeys) -> PreparedKeys:
    """Prepared keys with all parts; those of an engine without exponentials are completed."""
    if not isinstance(key, PreparedKeys):
        return prepare_keys(key)
    if key.exponentials is None or key.row_maxima is None:
        return prepare_keys(key.key)
    return key


def _over_pairs(tensor: Tensor, lead: torch.Size) -> Tensor:
    """A mask or bias as (B, T or 1, S or 1): a T or S that it does not have is not made."""
    while tensor.dim() < 2:
        tensor = tensor.unsqueeze(0)
    return folded(tensor, lead)


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
