"""The operations as the papers write them: the specification every other engine is held to.

Eager torch, so any dtype and device, second derivatives, vmap and export work. It builds the
(..., T, S, n) tensor of the additive score, and (..., T, 2D+1, n) for bands.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luong.kernels.continuations import best_continuations as best_continuations
from luong.kernels.cross_entropy import accumulate as accumulate
from luong.kernels.cross_entropy import logit_gradients as logit_gradients
from luong.kernels.cross_entropy import softmax_sums as softmax_sums
from luong.kernels.leading import broadcast
from luong.kernels.prepared import PreparedKeys


def at_least_float32(tensor: Tensor) -> Tensor:
    """Widen 16-bit floats to float32 and leave wider ones alone."""
    return tensor.float() if tensor.dtype in (torch.float16, torch.bfloat16) else tensor


def prepare_keys(key: Tensor) -> PreparedKeys:
    """See `luong.kernels.prepare_keys`."""
    return PreparedKeys(at_least_float32(key))


def _plain(key: Tensor | PreparedKeys) -> Tensor:
    return at_least_float32(key.key if isinstance(key, PreparedKeys) else key)


def additive_scores(query: Tensor, key: Tensor | PreparedKeys, weight: Tensor) -> Tensor:
    """See `luong.kernels.additive_scores`."""
    hidden = torch.tanh(at_least_float32(query).unsqueeze(-2) + _plain(key).unsqueeze(-3))
    return hidden @ at_least_float32(weight)


def covered_scores(
    query: Tensor,
    key: Tensor | PreparedKeys,
    weight: Tensor,
    coverage: Tensor,
    coverage_weight: Tensor,
) -> Tensor:
    """score[t, s] = v . tanh(query[t] + key[s] + w coverage[t, s]) (See 2017, equation 11).

    What depends on both t and s does not factorise, so no other engine has a faster way. It is
    for few queries at a time: the steps of a decoder, each of which waits for the one before.

    Args:
        query: Projected queries (..., T, n).
        key: Projected keys (..., S, n), plain or prepared.
        weight: The vector v (n).
        coverage: The sum of the weights of the steps before (..., T, S).
        coverage_weight: The vector w (n).

    Returns:
        Scores (..., T, S), in float32 at least.
    """
    queries = at_least_float32(query).unsqueeze(-2) + _plain(key).unsqueeze(-3)
    feature = at_least_float32(coverage).unsqueeze(-1)
    hidden = torch.tanh(torch.addcmul(queries, feature, at_least_float32(coverage_weight)))
    return hidden @ at_least_float32(weight)


def dot_scores(query: Tensor, key: Tensor) -> Tensor:
    """See `luong.kernels.dot_scores`."""
    return at_least_float32(query) @ at_least_float32(key).transpose(-1, -2)


def dot_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """See `luong.kernels.dot_attention`."""
    return attended(dot_scores(query, key), value, mask)


def additive_attention(
    query: Tensor,
    key: Tensor | PreparedKeys,
    weight: Tensor,
    value: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.additive_attention`."""
    return attended(additive_scores(query, key, weight), value, mask, bias)


def attended(scores: Tensor, value: Tensor, mask: Tensor, bias: Tensor | None = None) -> Tensor:
    """The context (..., T, v) that scores (..., T, S) give of values (..., S, v)."""
    return global_context(masked_softmax(biased(scores, bias), mask), value)


def biased(scores: Tensor, bias: Tensor | None) -> Tensor:
    """Scores (..., T, S) with a bias that broadcasts to them, if there is one."""
    return scores if bias is None else scores + bias.to(scores.dtype)


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension, of the allowed positions alone.

    Args:
        scores: (..., S), float32 at least.
        mask: Bool, broadcastable to scores; True = may attend.

    Returns:
        Weights (..., S), exactly 0 where masked; a row with nothing allowed is all 0, with zero
        gradients. What stands in masked scores, NaN included, changes nothing.

    Example:
        >>> masked_softmax(torch.tensor([1.0, 1.0, 100.0]), torch.tensor([True, True, False]))
        tensor([0.5000, 0.5000, 0.0000])
    """
    empty = ~mask.any(-1, keepdim=True)
    filled = scores.masked_fill(~mask, -torch.inf).masked_fill(empty, 0.0)
    return torch.softmax(filled, -1).masked_fill(~mask, 0.0)


def global_context(weights: Tensor, value: Tensor) -> Tensor:
    """See `luong.kernels.global_context`."""
    return at_least_float32(weights) @ at_least_float32(value)


def softmax_context(scores: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.softmax_context`."""
    weights = masked_softmax(at_least_float32(scores), mask)
    return global_context(weights, value), weights


def log_softmax(logits: Tensor) -> Tensor:
    """See `luong.kernels.log_softmax`."""
    return torch.log_softmax(at_least_float32(logits), -1)


def few_rows_product(inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    """See `luong.kernels.few_rows_product`."""
    return started(inputs @ weight.t(), start)


def int8_product(
    inputs: Tensor, weight: Tensor, scales: Tensor, packed: Any, start: Tensor | None
) -> Tensor:
    """See `luong.kernels.int8_product`."""
    largest = inputs.abs().amax(-1, keepdim=True).clamp_min(1e-30)
    whole = (inputs * (63 / largest)).round()
    sums = whole.double() @ weight.double().t()  # exact
    return started(sums.float() * scales * (largest / 63), start)


def started(product: Tensor, start: Tensor | None) -> Tensor:
    """A product (rows, outputs) plus a bias (outputs), or a row for as many of its rows in turn."""
    if start is None or start.dim() == 1:
        return product if start is None else product + start
    parts = product.view(start.shape[0], -1, product.shape[1])
    return (parts + start.unsqueeze(1)).flatten(0, 1)


def lstm_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.lstm_update`."""
    entry, forget, candidate, exit_ = at_least_float32(gates).chunk(4, -1)
    new = torch.sigmoid(forget) * at_least_float32(cell)
    new = new + torch.sigmoid(entry) * torch.tanh(candidate)
    return torch.sigmoid(exit_) * torch.tanh(new), new


def lstm_sequences(projected: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """See `luong.kernels.lstm_sequences`."""
    found = []
    for steps, weight in zip(projected, weights, strict=True):
        hidden = cell = steps.new_zeros(*steps.shape[1:-1], weight.shape[1])
        states = []
        for gates in steps:
            hidden, cell = lstm_update(gates + hidden @ weight.t(), cell)
            states.append(hidden)
        found.append(torch.stack(states) if states else steps.new_zeros(0, *hidden.shape))
    return found


def local_scores(
    query: Tensor,
    key: Tensor | PreparedKeys,
    centres: Tensor,
    half_width: int,
    weight: Tensor | None = None,
) -> Tensor:
    """See `luong.kernels.local_scores`."""
    query = at_least_float32(query).unsqueeze(-2)
    band, inside = _band(_plain(key), centres, 2 * half_width + 1)
    if weight is None:
        scores = (query * band).sum(-1)
    else:
        scores = torch.tanh(query + band) @ at_least_float32(weight)
    return scores.masked_fill(~inside, 0.0)


def local_context(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """See `luong.kernels.local_context`."""
    band, inside = _band(at_least_float32(value), centres, weights.shape[-1])
    weights = at_least_float32(weights).masked_fill(~inside, 0.0)
    return (weights.unsqueeze(-2) @ band).squeeze(-2)


def _band(rows: Tensor, centres: Tensor, width: int) -> tuple[Tensor, Tensor]:
    """The rows under each band (..., T, width, n), 0 outside, and which slots are inside."""
    lead = broadcast(rows.shape[:-2], centres.shape[:-1])
    rows = rows.expand(*lead, *rows.shape[-2:])
    centres = centres.expand(*lead, centres.shape[-1])
    slots = centres.unsqueeze(-1) + torch.arange(width, device=rows.device) - width // 2
    source_length = rows.shape[-2]
    inside = (slots >= 0) & (slots < source_length)
    if source_length == 0:
        return rows.new_zeros(*slots.shape, rows.shape[-1]), inside
    flat = slots.clamp(0, source_length - 1).flatten(-2).unsqueeze(-1)
    band = torch.take_along_dim(rows, flat, dim=-2)
    band = band.reshape(*band.shape[:-2], *slots.shape[-2:], band.shape[-1])
    return band.masked_fill(~inside.unsqueeze(-1), 0.0), inside


def differentiable(
    result: Tensor, inputs: tuple[Tensor | None, ...], incoming: Tensor
) -> tuple[Tensor | None, ...]:
    """Gradients that can be derived again, which engines with a fused backward take from here.

    Args:
        result: What the reference made of the inputs.
        inputs: Those that `result` was made of; None for one that is absent.
        incoming: The gradient of `result`.

    Returns:
        A gradient for each input; None for those that want none.
    """
    wanted = [tensor for tensor in inputs if tensor is not None and tensor.requires_grad]
    found = iter(torch.autograd.grad(result, wanted, incoming, create_graph=True))
    return tuple(
        next(found) if tensor is not None and tensor.requires_grad else None for tensor in inputs
    )
