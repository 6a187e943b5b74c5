"""The operations on compiled CPU kernels, for float32; what enters in 16 bits is widened.

What is plain matrix products over a global window stays with torch, which runs them best.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luong.kernels import (
    cpu_calls,
    cross_entropy,
    dot_calls,
    loss_calls,
    operators,
    reference,
    sdpa,
    small_calls,
)
from luong.kernels.continuations import Continuations
from luong.kernels.cpu_additive import padded
from luong.kernels.leading import broadcast, folded
from luong.kernels.prepared import PreparedKeys
from luong.kernels.reference import (
    at_least_float32,
    attended,
    dot_scores,
    global_context,
)
from luong.kernels.sdpa import FEW_QUERIES

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


def prepare_keys(key: Tensor) -> PreparedKeys:
    """See `luong.kernels.prepare_keys`. The gradient goes to the key, past its exponentials."""
    key = at_least_float32(key)
    return PreparedKeys(key, *_exponentials(key))


def dot_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """See `luong.kernels.dot_attention`."""
    if query.shape[-2] >= FEW_QUERIES or operators.traced(query):
        return sdpa.dot_attention(query, key, value, mask)
    query, key, value = (at_least_float32(tensor) for tensor in (query, key, value))
    if not dot_calls.serve(query, key, value, mask):
        return reference.dot_attention(query, key, value, mask)
    if not (torch.is_grad_enabled() and any(x.requires_grad for x in (query, key, value))):
        return dot_calls.attend(query, key, value, mask)[0]
    compute: Any = operators.FewQueriesAttention.apply
    context: Tensor = compute(query, key, value, mask)
    return context


def additive_scores(query: Tensor, key: Tensor | PreparedKeys, weight: Tensor) -> Tensor:
    """See `luong.kernels.additive_scores`."""
    query, weight = at_least_float32(query), at_least_float32(weight)
    if not _all_float32(at_least_float32(_plain(key)), weight):
        return reference.additive_scores(query, key, weight)
    key, powers, maxima = _prepared(key, query)
    compute: Any = operators.AdditiveScores.apply
    if operators.traced(query):
        compute = operators.additive_scores
    if query.dim() == 3 and key.dim() == 3 and query.shape[0] == key.shape[0]:
        scores: Tensor = compute(query, key, weight, powers, maxima)
        return scores
    lead = broadcast(query.shape[:-2], key.shape[:-2])
    rows = query.expand(*lead, *query.shape[-2:])
    if key.shape[:-2].numel() == 1:
        # One source for all: the queries are rows of one batch entry, and no key is copied.
        scores = compute(
            rows.reshape(1, -1, query.shape[-1]),
            key.reshape(1, *key.shape[-2:]),
            weight,
            powers.reshape(1, *powers.shape[-2:]),
            maxima.reshape(1, -1),
        )
    else:
        scores = compute(
            rows.flatten(0, -3),
            folded(key, lead),
            weight,
            folded(powers, lead),
            folded(maxima, lead, 1),
        )
    return scores.reshape(*lead, query.shape[-2], key.shape[-2])


def additive_attention(
    query: Tensor,
    key: Tensor | PreparedKeys,
    weight: Tensor,
    value: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.additive_attention`.

    The T x S scores are made: they are 1/n of the work, and making them again in the backward
    would cost more than keeping them.
    """
    return attended(additive_scores(query, key, weight), value, mask, bias)


def local_scores(
    query: Tensor,
    key: Tensor | PreparedKeys,
    centres: Tensor,
    half_width: int,
    weight: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.local_scores`."""
    query = at_least_float32(query)
    plain = at_least_float32(_plain(key))
    if not _all_float32(plain) or (weight is not None and weight.dtype == torch.float64):
        return reference.local_scores(query, key, centres, half_width, weight)
    lead = broadcast(query.shape[:-2], plain.shape[:-2], centres.shape[:-1])
    rows, sources = folded(query, lead), folded(plain, lead)
    places = folded(centres.long(), lead, 1)
    width = 2 * half_width + 1
    trace = operators.traced(query)
    compute: Any
    if weight is None:
        compute = operators.band_dot if trace else operators.BandDot.apply
        scores: Tensor = compute(rows, sources, places, width)
    else:
        _, powers, maxima = _prepared(key, query)
        compute = operators.band_scores if trace else operators.BandScores.apply
        scores = compute(
            rows,
            sources,
            at_least_float32(weight),
            folded(powers, lead),
            folded(maxima, lead, 1),
            places,
            width,
        )
    return scores.reshape(*lead, *scores.shape[1:])


def local_context(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """See `luong.kernels.local_context`."""
    weights, value = at_least_float32(weights), at_least_float32(value)
    if not _all_float32(weights, value):
        return reference.local_context(weights, value, centres)
    lead = broadcast(weights.shape[:-2], value.shape[:-2], centres.shape[:-1])
    compute: Any = operators.band_sum if operators.traced(weights) else operators.BandSum.apply
    context: Tensor = compute(
        folded(weights, lead), folded(value, lead), folded(centres.long(), lead, 1)
    )
    return context.reshape(*lead, *context.shape[1:])


def best_continuations(
    scores: Tensor,
    log_probabilities: Tensor,
    only_end: Tensor,
    count: int,
    end: int,
    never: tuple[int, ...],
    normalized: bool = True,
) -> Continuations:
    """See `luong.kernels.best_continuations`."""
    arguments = (only_end, count, end, never, normalized)
    if operators.traced(log_probabilities):
        return reference.best_continuations(scores, log_probabilities, *arguments)
    wide = at_least_float32(log_probabilities)
    return Continuations(*small_calls.best_continuations(scores, wide, *arguments))


def lstm_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.lstm_update`."""
    cell = at_least_float32(cell)
    # A compiler fuses such passes itself.
    if not _all_float32(cell) or operators.traced(gates):
        return reference.lstm_update(gates, cell)
    derived = torch.is_grad_enabled() and (gates.requires_grad or cell.requires_grad)
    if not derived or gates.dtype != torch.bfloat16:
        gates = at_least_float32(gates)
    if not derived:
        return small_calls.lstm_update(gates, cell)
    compute: Any = operators.LSTMUpdate.apply
    new: tuple[Tensor, Tensor] = compute(gates, cell)
    return new


def lstm_sequences(projected: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """See `luong.kernels.lstm_sequences`."""
    if not _all_float32(*projected, *weights) or operators.traced(projected[0]):
        return reference.lstm_sequences(projected, weights)
    return small_calls.lstm_sequences(projected, weights)


def softmax_context(scores: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.softmax_context`."""
    scores, value = at_least_float32(scores), at_least_float32(value)
    derived = torch.is_grad_enabled() and (scores.requires_grad or value.requires_grad)
    many = scores.shape[1] >= FEW_QUERIES  # for them, products are faster
    if derived or many or not _all_float32(scores, value) or operators.traced(scores):
        return reference.softmax_context(scores, value, mask)
    return small_calls.softmax_context(scores, value, mask)


def log_softmax(logits: Tensor) -> Tensor:
    """See `luong.kernels.log_softmax`."""
    logits = at_least_float32(logits)
    derived = torch.is_grad_enabled() and logits.requires_grad
    if derived or not _all_float32(logits) or operators.traced(logits):
        return reference.log_softmax(logits)
    return small_calls.log_softmax(logits)


def softmax_sums(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.softmax_sums`."""
    if not loss_calls.serve(logits) or operators.traced(logits):
        return cross_entropy.softmax_sums(logits, targets)
    return loss_calls.softmax_sums(logits, targets)


def logit_gradients(
    logits: Tensor,
    targets: Tensor,
    log_sum: Tensor,
    factors: Tensor,
    towards: Tensor,
    uniform: float,
) -> Tensor:
    """See `luong.kernels.logit_gradients`."""
    arguments = (logits, targets, log_sum, factors, towards, uniform)
    if not loss_calls.serve(logits) or operators.traced(logits):
        return cross_entropy.logit_gradients(*arguments)
    return loss_calls.logit_gradients(*arguments)


def accumulate(total: Tensor, values: Tensor) -> Tensor:
    """See `luong.kernels.accumulate`."""
    narrow = values.dtype == torch.bfloat16 and total.dtype == torch.float32
    if not narrow or values.dim() != 2 or operators.traced(values):
        return cross_entropy.accumulate(total, values)
    return loss_calls.accumulate(total, values)


def few_rows_product(inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    """See `luong.kernels.few_rows_product`."""
    if not _all_float32(inputs, weight) or operators.traced(inputs):
        return reference.few_rows_product(inputs, weight, start)
    return small_calls.few_rows_product(inputs, weight, start)


def int8_product(
    inputs: Tensor, weight: Tensor, scales: Tensor, packed: Any, start: Tensor | None
) -> Tensor:
    """See `luong.kernels.int8_product`."""
    if packed is None or operators.traced(inputs):
        return reference.int8_product(inputs, weight, scales, packed, start)
    return small_calls.int8_product(inputs, packed, scales, start)


def _exponentials(key: Tensor) -> tuple[Tensor, Tensor]:
    exponentiate: Any = cpu_calls.exponentiate
    if operators.traced(key):
        exponentiate = operators.exponentiate
    powers, maxima = exponentiate(key.detach())
    return powers, maxima


def _plain(key: Tensor | PreparedKeys) -> Tensor:
    return key.key if isinstance(key, PreparedKeys) else key


def _prepared(key: Tensor | PreparedKeys, query: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """The keys with the exponentials of this engine, which others do not make."""
    if isinstance(key, PreparedKeys):
        powers, maxima = key.exponentials, key.row_maxima
        if powers is not None and maxima is not None:
            columns = padded(key.key.shape[-1])
            if powers.shape[-1] == columns and powers.dtype == torch.float32:
                return key.key, powers, maxima
    plain = at_least_float32(_plain(key))
    queries_a_source = query.shape[:-1].numel() / max(1, plain.shape[:-2].numel())
    if queries_a_source <= 1 and not operators.traced(plain):
        # Exponentials of a single use cost more than the sums' own; beyond every bound, all pairs
        # take the direct way. Measured: 0.5 to 0.6 of the time.
        return plain, plain, plain.new_full(plain.shape[:-1], torch.inf)
    return plain, *_exponentials(plain)


def _all_float32(*tensors: Tensor) -> bool:
    return all(tensor.dtype == torch.float32 for tensor in tensors)
