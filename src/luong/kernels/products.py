"""Matrix products in float32 on a CPU: of a few rows by our own loops, else by oneDNN.

torch's own `linear` takes another library, which at the rows of a recurrent step or of a beam
search reaches half to two thirds of oneDNN's rate; of the beams of one sentence our loops reach
twice that. The accuracy is that of float32 sums in all of them.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Literal

import torch
from torch import Tensor
from torch.nn import functional

from luong.kernels.dispatch import compute, plain_torch

Library = Literal["onednn", "default"]

_library: ContextVar[Library] = ContextVar("luong_products", default="onednn")

# With a transposed matrix and many rows the default library is the faster one.
_MANY_ROWS = 256

# Up to so many rows our own loops are faster than oneDNN.
_FEW_ROWS = 12


@contextmanager
def use_library(name: Library) -> Iterator[None]:
    """Multiply by one library inside a `with` block.

    Args:
        name: "onednn", or "default" for what torch would take.
    """
    token = _library.set(name)
    try:
        yield
    finally:
        _library.reset(token)


def library() -> Library:
    """The library that multiplies here and now."""
    return _library.get()


def linear(inputs: Tensor, weight: Tensor, start: Tensor | None = None) -> Tensor:
    """The product inputs W^T plus a start; under autocast in its type, as torch's `linear`.

    Args:
        inputs: (..., inputs).
        weight: (outputs, inputs).
        start: Added to the product: a bias (outputs), or of the shape of the result.

    Example:
        >>> linear(torch.ones(2, 3), torch.ones(4, 3)).shape
        torch.Size([2, 4])
    """
    if not _by_onednn(inputs, weight):
        return _by_default(inputs, weight, start)
    if torch.is_grad_enabled() and _wants_gradient(inputs, weight, start):
        result: Tensor = _Linear.apply(inputs, weight, start)  # type: ignore[no-untyped-call]
        return result
    return _product(inputs, weight, start)


def multiply(inputs: Tensor, weight: Tensor, start: Tensor | None = None) -> Tensor:
    """`linear` for code that makes its derivatives itself.

    Args:
        inputs: (..., inputs).
        weight: (outputs, inputs), any strides.
        start: Added to the product: a bias (outputs), or of the shape of the result.
    """
    if not _by_onednn(inputs, weight):
        return _by_default(inputs, weight, start)
    return _product(inputs, weight, start)


# Absent from builds of torch without oneDNN.
_onednn: Any = getattr(torch.ops.mkldnn, "_linear_pointwise", None)


def _by_onednn(inputs: Tensor, weight: Tensor) -> bool:
    return (
        not torch.compiler.is_compiling()
        and inputs.dtype == weight.dtype
        and inputs.is_cpu
        and weight.is_cpu
        and _taken(inputs.dtype)
        and _onednn is not None
        and inputs.numel() > 0
        and weight.numel() > 0
        and torch._C._get_mkldnn_enabled()
        and type(weight) in (Tensor, torch.nn.Parameter)
        and plain_torch() is None
    )


def _taken(dtype: torch.dtype) -> bool:
    """Whether a type is multiplied by oneDNN here and now."""
    if dtype == torch.float32:
        return library() == "onednn" and not torch.is_autocast_enabled("cpu")
    # torch multiplies in bfloat16 by oneDNN, too, but copies what is added to the product first.
    return dtype == torch.bfloat16 and _multiplies_bfloat16()


@functools.cache
def _multiplies_bfloat16() -> bool:
    return torch.ops.mkldnn._is_mkldnn_bf16_supported()  # type: ignore[no-any-return]


def _by_default(inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    if start is None or start.dim() == 1:
        return functional.linear(inputs, weight, start)
    return torch.addmm(start.to(inputs.dtype), inputs, weight.t())


def _product(inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    rows = inputs.numel() // inputs.shape[-1]
    start = None if start is None else start.to(inputs.dtype)
    if rows <= _FEW_ROWS and weight.dtype == torch.float32 and weight.is_contiguous():
        flat = inputs.reshape(rows, -1)
        product: Tensor = compute("few_rows_product", inputs, None, flat, weight, start)
        return product.view(*inputs.shape[:-1], weight.shape[0])
    if start is None or start.dim() == 1:
        return _onednn(inputs, weight, start, "none", [], "")  # type: ignore[no-any-return]
    return _onednn.binary(inputs, start.contiguous(), weight, None, "add")  # type: ignore[no-any-return]


def _wants_gradient(*tensors: Tensor | None) -> bool:
    return any(tensor is not None and tensor.requires_grad for tensor in tensors)


class _Linear(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
        ctx.is_bias = start is not None and start.dim() == 1
        ctx.save_for_backward(inputs, weight)
        return _product(inputs, weight, start)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, weight = ctx.saved_tensors
        rows = gradient.flatten(0, -2)
        to_inputs = to_weight = to_start = None
        if ctx.needs_input_grad[0]:
            if torch.is_grad_enabled() or len(rows) > _MANY_ROWS:
                to_inputs = gradient @ weight
            else:
                to_inputs = multiply(gradient, weight.t())
        if ctx.needs_input_grad[1]:
            to_weight = rows.t() @ inputs.flatten(0, -2)
        if ctx.needs_input_grad[2]:
            to_start = rows.sum(0) if ctx.is_bias else gradient
        return to_inputs, to_weight, to_start
