"""Which backends run here, and what every test of them does: values and gradients of a call."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from luong import kernels
from luong.errors import UserError

EPSILON = 2.0**-22


def _serving() -> list[str]:
    names = []
    for engine in kernels.BACKENDS:
        try:
            kernels.choose("additive_scores", "cpu", torch.float32, engine.name)
        except UserError:
            continue
        names.append(engine.name)
    return names


BACKENDS = _serving()
FUSED = [name for name in BACKENDS if name != "reference"]


def derived(function: Any, inputs: list[Tensor], incoming: Tensor) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    gradients = torch.autograd.grad(
        output, leaves, incoming.to(output.dtype), allow_unused=True, materialize_grads=True
    )
    return [output.detach(), *gradients]
