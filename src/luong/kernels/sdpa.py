"""Dot-product attention by torch's `scaled_dot_product_attention`, which keeps no T x S weights."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from luong.kernels import reference
from luong.kernels.reference import at_least_float32, differentiable

__all__ = ["dot_attention"]

# For so few of them plain products are faster, forward three times and backward four.
FEW_QUERIES = 8


def dot_attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    """See `luong.kernels.dot_attention`."""
    if query.shape[-2] < FEW_QUERIES:
        return reference.dot_attention(query, key, value, mask)
    query, key, value = (at_least_float32(tensor) for tensor in (query, key, value))
    needs_gradient = query.requires_grad or key.requires_grad or value.requires_grad
    if not (needs_gradient and torch.is_grad_enabled()) or torch.compiler.is_compiling():
        return _attend(query, key, value, mask)
    context: Tensor = _DotAttention.apply(query, key, value, mask)  # type: ignore[no-untyped-call]
    return context


def _attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
    # The fused kernels want a dimension of heads.
    query, key, value, mask = (x.unsqueeze(-3) for x in (query, key, value, mask))
    return scaled_dot_product_attention(query, key, value, mask, scale=1.0).squeeze(-3)


class _DotAttention(torch.autograd.Function):
    """The fused kernels have no second derivative: that one goes through the reference."""

    @staticmethod
    def forward(ctx: Any, query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> Tensor:
        """Keep the inputs, and the graph of torch's own function for the first derivative."""
        ctx.save_for_backward(query, key, value, mask)
        with torch.enable_grad():
            leaves = [tensor.detach() for tensor in (query, key, value)]
            for leaf, needed in zip(leaves, ctx.needs_input_grad, strict=False):
                leaf.requires_grad_(needed)
            ctx.leaves = leaves
            ctx.context = _attend(leaves[0], leaves[1], leaves[2], mask)
        return ctx.context.detach()  # type: ignore[no-any-return]

    @staticmethod
    def backward(ctx: Any, incoming: Tensor) -> tuple[Tensor | None, ...]:
        """By torch's own derivative, or by the reference's where that is derived again."""
        if torch.is_grad_enabled():
            query, key, value, mask = ctx.saved_tensors
            context = reference.dot_attention(query, key, value, mask)
            return *differentiable(context, (query, key, value), incoming), None
        wanted = [leaf for leaf in ctx.leaves if leaf.requires_grad]
        found = iter(torch.autograd.grad(ctx.context, wanted, incoming, retain_graph=True))
        return *(next(found) if leaf.requires_grad else None for leaf in ctx.leaves), None
