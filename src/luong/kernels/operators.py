"""The kernels as torch sees them: once for eager code, and once for what traces it.

Eager code takes the `autograd.Function`s, whose calls cost least: decoding makes many small ones.
Tracers (torch.compile, make_fx, fake tensors) see the operators registered as `luong::*`. Both
call `cpu_calls`. A second derivative goes through the reference. The same operators stand for
the Triton kernels on other devices, traced or not: `triton_operators` registers those.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luong.kernels import cpu_calls, dot_calls, reference
from luong.kernels.cpu_additive import padded

Gradients = tuple[Tensor | None, ...]


def traced(tensor: Tensor) -> bool:
    """Whether something other than plain eager code looks on, and wants registered operators."""
    return (
        torch.compiler.is_compiling()
        or type(tensor) not in (Tensor, torch.nn.Parameter)
        or torch._C._len_torch_dispatch_stack() > 0
    )


class AdditiveScores(torch.autograd.Function):
    """Scores (B, T, S) of queries (B, T, n) and keys (B, S, n) with their exponentials."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
    ) -> Tensor:
        """Keep the inputs alone."""
        ctx.save_for_backward(query, key, weight, powers, maxima)
        return cpu_calls.additive_scores(query, key, weight, powers, maxima)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """Compute r anew."""
        return _additive_backward(ctx, incoming, cpu_calls.additive_gradients)


class BandScores(torch.autograd.Function):
    """Additive scores of bands (B, T, width)."""

    @staticmethod
    def forward(
        ctx: Any,
        query: Tensor,
        key: Tensor,
        weight: Tensor,
        powers: Tensor,
        maxima: Tensor,
        centres: Tensor,
        width: int,
    ) -> Tensor:
        """Keep the inputs alone."""
        ctx.save_for_backward(query, key, weight, powers, maxima, centres)
        return cpu_calls.band_scores(query, key, weight, powers, maxima, centres, width)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """Compute r anew."""
        return _band_scores_backward(ctx, incoming, cpu_calls.band_score_gradients)


# The next three are each other's derivatives, as often as one likes.


class BandDot(torch.autograd.Function):
    """Dot products of bands (B, T, width)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, centres: Tensor, width: int) -> Tensor:
        """Keep the inputs."""
        ctx.save_for_backward(query, key, centres)
        return cpu_calls.band_dot(query, key, centres, width)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """A sum of keys for each query, and the queries spread over the keys."""
        return _band_dot_backward(ctx, incoming, BandSum.apply, BandSpread.apply)


class BandSum(torch.autograd.Function):
    """Sums of the values under bands (B, T, v)."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
        """Keep the inputs."""
        ctx.save_for_backward(weights, value, centres)
        return cpu_calls.band_sum(weights, value, centres)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """Dot products for the weights, and the gradient spread over the values."""
        return _band_sum_backward(ctx, incoming, BandDot.apply, BandSpread.apply)


class BandSpread(torch.autograd.Function):
    """Rows (B, T, v) spread over the source (B, S, v): BandSum transposed."""

    @staticmethod
    def forward(ctx: Any, weights: Tensor, rows: Tensor, centres: Tensor, source: int) -> Tensor:
        """Keep the inputs."""
        ctx.save_for_backward(weights, rows, centres)
        return cpu_calls.band_spread(weights, rows, centres, source)

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """Dot products for the weights, and sums for the rows."""
        return _band_spread_backward(ctx, incoming, BandDot.apply, BandSum.apply)


class FewQueriesAttention(torch.autograd.Function):
    """Dot-product attention (B, T, v) of few queries; the mask is (B, T or 1, S)."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Keep the weights."""
        context, weights = dot_calls.attend(query, key, value, mask)
        ctx.save_for_backward(query, key, value, mask, weights)
        return context

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> Gradients:
        """One pass over keys and values."""
        query, key, value, mask, weights = ctx.saved_tensors
        if torch.is_grad_enabled():
            context = reference.dot_attention(query, key, value, mask)
            return *reference.differentiable(context, (query, key, value), incoming), None
        return *dot_calls.gradients(incoming, query, key, value, mask, weights), None


class LSTMUpdate(torch.autograd.Function):
    """The element-wise part of a step of the LSTM: (rows, 4H) and (rows, H) to two (rows, H)."""

    @staticmethod
    def forward(ctx: Any, gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
        """Keep the gates after their functions."""
        ctx.set_materialize_grads(False)
        hidden, new_cell, activated, squashed = cpu_calls.lstm_update(gates, cell)
        ctx.save_for_backward(gates, cell, activated, squashed)
        return hidden, new_cell

    @staticmethod
    def backward(ctx: Any, to_hidden: Tensor | None, to_cell: Tensor | None) -> Gradients:
        """One pass over the gates."""
        gates, cell, activated, squashed = ctx.saved_tensors
        zeros = torch.zeros_like(cell)
        to_hidden = zeros if to_hidden is None else to_hidden
        to_cell = zeros if to_cell is None else to_cell
        if torch.is_grad_enabled():
            new = torch.cat(reference.lstm_update(gates, cell), -1)
            incoming = torch.cat((to_hidden, to_cell), -1)
            return reference.differentiable(new, (gates, cell), incoming)
        kept = activated, squashed, cell, to_hidden, to_cell
        return cpu_calls.lstm_gradients(*kept, gates.dtype)


@torch.library.custom_op("luong::exponentiate", mutates_args=(), device_types="cpu")
def exponentiate(rows: Tensor) -> tuple[Tensor, Tensor]:
    """See `cpu_calls.exponentiate`."""
    return cpu_calls.exponentiate(rows)


@exponentiate.register_fake
def _(rows: Tensor) -> tuple[Tensor, Tensor]:
    *lead, size = rows.shape
    return rows.new_empty(*lead, padded(size)), rows.new_empty(lead)


@torch.library.custom_op("luong::additive_scores", mutates_args=(), device_types="cpu")
def additive_scores(
    query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> Tensor:
    """See `cpu_calls.additive_scores`."""
    return cpu_calls.additive_scores(query, key, weight, powers, maxima)


@additive_scores.register_fake
def _(query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], key.shape[1])


@torch.library.custom_op("luong::additive_gradients", mutates_args=(), device_types="cpu")
def additive_gradients(
    incoming: Tensor, query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """See `cpu_calls.additive_gradients`."""
    return cpu_calls.additive_gradients(incoming, query, key, weight, powers, maxima)


@additive_gradients.register_fake
def _(
    incoming: Tensor, query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(query), _like(key), _like(weight)


@torch.library.custom_op("luong::band_scores", mutates_args=(), device_types="cpu")
def band_scores(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
    width: int,
) -> Tensor:
    """See `cpu_calls.band_scores`."""
    return cpu_calls.band_scores(query, key, weight, powers, maxima, centres, width)


@band_scores.register_fake
def _(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
    width: int,
) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], width)


@torch.library.custom_op("luong::band_score_gradients", mutates_args=(), device_types="cpu")
def band_score_gradients(
    incoming: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """See `cpu_calls.band_score_gradients`."""
    return cpu_calls.band_score_gradients(incoming, query, key, weight, powers, maxima, centres)


@band_score_gradients.register_fake
def _(
    incoming: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    return _like(query), _like(key), _like(weight)


@torch.library.custom_op("luong::band_dot", mutates_args=(), device_types="cpu")
def band_dot(query: Tensor, key: Tensor, centres: Tensor, width: int) -> Tensor:
    """See `cpu_calls.band_dot`."""
    return cpu_calls.band_dot(query, key, centres, width)


@band_dot.register_fake
def _(query: Tensor, key: Tensor, centres: Tensor, width: int) -> Tensor:
    return query.new_empty(query.shape[0], query.shape[1], width)


@torch.library.custom_op("luong::band_sum", mutates_args=(), device_types="cpu")
def band_sum(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """See `cpu_calls.band_sum`."""
    return cpu_calls.band_sum(weights, value, centres)


@band_sum.register_fake
def _(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    return value.new_empty(weights.shape[0], weights.shape[1], value.shape[2])


@torch.library.custom_op("luong::band_spread", mutates_args=(), device_types="cpu")
def band_spread(weights: Tensor, rows: Tensor, centres: Tensor, source: int) -> Tensor:
    """See `cpu_calls.band_spread`."""
    return cpu_calls.band_spread(weights, rows, centres, source)


@band_spread.register_fake
def _(weights: Tensor, rows: Tensor, centres: Tensor, source: int) -> Tensor:
    return rows.new_empty(rows.shape[0], source, rows.shape[2])


def _like(tensor: Tensor) -> Tensor:
    """Of a tensor's shape and contiguous, whatever its strides."""
    return tensor.new_empty(tensor.shape)


def _keep(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
    ctx.save_for_backward(*(value for value in inputs if isinstance(value, Tensor)))


# The backward of both forms of an operator: the `autograd.Function`s hand in their own calls.


def _additive_backward(ctx: Any, incoming: Tensor, compute: Any = additive_gradients) -> Gradients:
    query, key, weight, powers, maxima = ctx.saved_tensors
    if torch.is_grad_enabled():
        scores = reference.additive_scores(query, key, weight)
        return *reference.differentiable(scores, (query, key, weight), incoming), None, None
    return *compute(incoming, query, key, weight, powers, maxima), None, None


def _band_scores_backward(
    ctx: Any, incoming: Tensor, compute: Any = band_score_gradients
) -> Gradients:
    query, key, weight, powers, maxima, centres = ctx.saved_tensors
    rest = (None, None, None, None)
    if torch.is_grad_enabled():
        half_width = incoming.shape[-1] // 2
        scores = reference.local_scores(query, key, centres, half_width, weight)
        return *reference.differentiable(scores, (query, key, weight), incoming), *rest
    return *compute(incoming, query, key, weight, powers, maxima, centres), *rest


def _band_dot_backward(
    ctx: Any, incoming: Tensor, total: Any = band_sum, spread: Any = band_spread
) -> Gradients:
    query, key, centres = ctx.saved_tensors
    query_gradient = key_gradient = None
    if ctx.needs_input_grad[0]:
        query_gradient = total(incoming, key, centres)
    if ctx.needs_input_grad[1]:
        key_gradient = spread(incoming, query, centres, key.shape[1])
    return query_gradient, key_gradient, None, None


def _band_sum_backward(
    ctx: Any, incoming: Tensor, dot: Any = band_dot, spread: Any = band_spread
) -> Gradients:
    weights, value, centres = ctx.saved_tensors
    weights_gradient = value_gradient = None
    if ctx.needs_input_grad[0]:
        weights_gradient = dot(incoming, value, centres, weights.shape[2])
    if ctx.needs_input_grad[1]:
        value_gradient = spread(weights, incoming, centres, value.shape[1])
    return weights_gradient, value_gradient, None


def _band_spread_backward(
    ctx: Any, incoming: Tensor, dot: Any = band_dot, total: Any = band_sum
) -> Gradients:
    weights, rows, centres = ctx.saved_tensors
    weights_gradient = rows_gradient = None
    if ctx.needs_input_grad[0]:
        weights_gradient = dot(rows, incoming, centres, weights.shape[2])
    if ctx.needs_input_grad[1]:
        rows_gradient = total(weights, incoming, centres)
    return weights_gradient, rows_gradient, None, None


additive_scores.register_autograd(_additive_backward, setup_context=_keep)
band_scores.register_autograd(_band_scores_backward, setup_context=_keep)
band_dot.register_autograd(_band_dot_backward, setup_context=_keep)
band_sum.register_autograd(_band_sum_backward, setup_context=_keep)
band_spread.register_autograd(_band_spread_backward, setup_context=_keep)
