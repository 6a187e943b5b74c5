"""A matrix that every step of a loop multiplies by, with its gradient in one product after it.

Left to autograd, each step makes a gradient as large as the matrix and adds it to the others:
thin products, and much traffic. Here a step only notes its input and its incoming gradient; when
the last of them has come, one product makes the gradient of the matrix. It is returned by an
autograd function, so hooks and distributed training see it as any other.
"""

from __future__ import annotations

from typing import Any, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from luong.kernels import products
from luong.models.quantized_matrix import QuantizedMatrix


class SharedWeight:
    """One matrix for the steps of one loop; make a new one for each loop.

    Args:
        weight: (outputs, inputs).

    Example:
        >>> shared = SharedWeight(linear.weight)
        >>> for inputs in steps:
        ...     hidden = torch.tanh(shared.product(inputs))
    """

    def __init__(self, weight: Tensor) -> None:
        device = weight.device.type
        narrow = torch.is_autocast_enabled(device)
        self.dtype = torch.get_autocast_dtype(device) if narrow else weight.dtype
        self.matrix = weight
        self.notes = _Notes()
        self._token: Tensor | None = None
        # Compilers and torch.func take the plain products: they cannot see into the notes.
        traced = torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()
        if torch.is_grad_enabled() and weight.requires_grad and not traced:
            self.matrix = weight.detach().to(self.dtype)
            self._token = cast(Tensor, _Gate.apply(weight, self.notes))  # type: ignore[no-untyped-call]

    def product(self, *parts: Tensor, start: Tensor | None = None) -> Tensor:
        """The product [parts] W^T, plus a start (rows, outputs) if there is one.

        Args:
            parts: What stands side by side (rows, inputs).
            start: Added to the product; a bias (outputs) will not do.
        """
        if self._token is None:
            return products.linear(_joined(parts), self.matrix, start)
        result = _Product.apply(start, self._token, self, *parts)  # type: ignore[no-untyped-call]
        return cast(Tensor, result)


def _joined(parts: tuple[Tensor, ...]) -> Tensor:
    return parts[0] if len(parts) == 1 else torch.cat(parts, -1)


def shared(weight: Tensor | QuantizedMatrix) -> SharedWeight | QuantizedMatrix:
    """What gives a loop its products with a matrix; one in int8 has no gradient to gather."""
    return weight if isinstance(weight, QuantizedMatrix) else SharedWeight(weight)


class _Notes:
    """What the products of one backward pass leave for the gradient of their matrix.

    An object of its own, which knows nothing of the graph: with a way back from the gate to its
    token, the graph would be a cycle and keep its memory until the garbage collector comes.
    """

    def __init__(self) -> None:
        self.backward_pass = -1
        self.inputs: list[Tensor] = []
        self.gradients: list[Tensor] = []

    def add(self, inputs: Tensor, gradient: Tensor) -> None:
        """Keep what one product contributes."""
        # A pass that wanted no gradient of the matrix, or broke off, never came to the gate.
        current = torch._C._current_graph_task_id()
        if current != self.backward_pass:
            self.backward_pass, self.inputs, self.gradients = current, [], []
        self.inputs.append(inputs)
        self.gradients.append(gradient)

    def gradient(self) -> Tensor:
        """The gradient of the matrix."""
        gradient = torch.cat(self.gradients).t() @ torch.cat(self.inputs)
        self.inputs, self.gradients = [], []
        return gradient


class _Gate(torch.autograd.Function):
    """Stands for the matrix: every product depends on it, so its backward comes after theirs."""

    @staticmethod
    def forward(ctx: Any, weight: Tensor, notes: _Notes) -> Tensor:
        ctx.notes = notes
        return weight.new_zeros(())

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, _: Tensor) -> tuple[Tensor, None]:
        return ctx.notes.gradient(), None


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, start: Tensor | None, token: Tensor, shared: SharedWeight, *parts: Tensor
    ) -> Tensor:
        ctx.notes, ctx.has_start = shared.notes, start is not None
        ctx.dtypes = [part.dtype for part in parts]
        ctx.sizes = [part.shape[-1] for part in parts]
        inputs = _joined(tuple(part.to(shared.dtype) for part in parts))
        # Saving the matrix, too, lets autograd notice if it was changed in place meanwhile.
        ctx.save_for_backward(inputs, shared.matrix)
        return products.multiply(inputs, shared.matrix, start)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        inputs, matrix = ctx.saved_tensors
        ctx.notes.add(inputs, gradient)
        to_inputs = products.multiply(gradient, matrix.t())
        to_parts = torch.split(to_inputs, ctx.sizes, -1)
        typed = [part.to(dtype) for part, dtype in zip(to_parts, ctx.dtypes, strict=True)]
        to_start = gradient if ctx.has_start else None
        return to_start, gradient.new_zeros(()), None, *typed
