"""Inference with int8 weights: a scale for each row of a matrix, and for each row of its inputs.

With W ~ diag(s) Q, Q int8, and an input row x ~ a p, p whole numbers of 7 bits:

    W x + b ~ a diag(s) (Q p) + b

Sums of Q p are exact, and the scale a = max|x| / 63 belongs to the row alone, so what stands beside
a row in its batch changes nothing. Seven bits, because the products of CPUs without VNNI add pairs
in 16 bits, which eight would overflow.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from luong import kernels
from luong.kernels import int8_layout, products
from luong.kernels.reference import started

_LEAST = 1e-30  # the scale of a row of zeros


class QuantizedMatrix(nn.Module):
    """A matrix in int8, each row with its scale; it takes the place of a parameter.

    Where the CPU has int8 products they are used; elsewhere, as on a GPU, the matrix is widened to
    float32 again, and only its rounding remains.

    Args:
        weight: (outputs, inputs).

    Attributes:
        values: int8 (outputs, inputs), from -127 to 127.
        scales: float32 (outputs).

    Example:
        >>> matrix = QuantizedMatrix(linear.weight)
        >>> logits = matrix.product(hidden, start=linear.bias)
    """

    values: Tensor
    scales: Tensor

    def __init__(self, weight: Tensor) -> None:
        super().__init__()
        wide = weight.detach().float()
        scales = (wide.abs().amax(1) / 127).clamp_min(_LEAST)
        values = (wide / scales.unsqueeze(1)).round_().to(torch.int8)
        self.register_buffer("values", values)
        self.register_buffer("scales", scales)
        self.pack()

    def pack(self) -> None:
        """Lay the values out for products; to be called again after they have changed or moved."""
        self._packed: Any = int8_layout.packed(self.values, self.scales)
        self._wide = self.widened() if self._packed is None else None

    def widened(self) -> Tensor:
        """The matrix in float32."""
        return self.values.float() * self.scales.unsqueeze(1)

    def rows(self, numbers: Tensor) -> Tensor:
        """Rows in float32: integers (...) to (..., inputs)."""
        flat = numbers.flatten()
        scales = self.scales.index_select(0, flat).unsqueeze(1)
        rows = self.values.index_select(0, flat).float().mul_(scales)
        return rows.view(*numbers.shape, -1)

    def selected(self, numbers: Tensor) -> QuantizedMatrix:
        """The matrix of the given rows (n,), in their order."""
        chosen = QuantizedMatrix.__new__(QuantizedMatrix)
        nn.Module.__init__(chosen)
        chosen.register_buffer("values", self.values.index_select(0, numbers))
        chosen.register_buffer("scales", self.scales.index_select(0, numbers))
        chosen.pack()
        return chosen

    def product(self, *parts: Tensor, start: Tensor | None = None) -> Tensor:
        """The product [parts] W^T, plus a start or bias if there is one.

        Args:
            parts: What stands side by side, float32 (..., inputs).
            start: Added to the product: (outputs), of the shape of the result, or (parts, outputs),
                each for as many of the rows in turn.
        """
        inputs = parts[0] if len(parts) == 1 else torch.cat(parts, -1)
        rows = inputs.reshape(-1, inputs.shape[-1])
        if start is not None and start.dim() > 1:
            start = start.reshape(-1, start.shape[-1])
        if self._wide is None:
            product = kernels.int8_product(rows, self.values, self.scales, self._packed, start)
        else:
            product = started(functional.linear(rows, self._wide), start)
        return product.view(*inputs.shape[:-1], self.scales.shape[0])


class QuantizedEmbedding(nn.Module):
    """Embeddings from a quantised matrix, which may be that of the output layer."""

    def __init__(self, weight: QuantizedMatrix) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, tokens: Tensor) -> Tensor:
        """Integers (...) to float32 (..., e)."""
        return self.weight.rows(tokens)


def linear(inputs: Tensor, weight: Tensor | QuantizedMatrix, bias: Tensor | None = None) -> Tensor:
    """The product inputs W^T + b, for a weight of either kind."""
    if isinstance(weight, QuantizedMatrix):
        return weight.product(inputs, start=bias)
    return products.linear(inputs, weight, bias)
