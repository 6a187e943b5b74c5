"""The optimiser, the precision of products, and the running average of the weights."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractContextManager

import torch
from torch import Tensor, nn

from luong.config import TrainingConfig
from luong.errors import UserError


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: TrainingConfig
) -> torch.optim.Optimizer:
    """Adam (Kingma and Ba 2015), AdamW (Loshchilov and Hutter 2019) or SGD, fused into one pass."""
    if config.optimizer == "sgd":
        return torch.optim.SGD(
            parameters,
            config.learning_rate,
            momentum=config.momentum,
            weight_decay=config.weight_decay,
            fused=True,
        )
    kind = torch.optim.Adam if config.optimizer == "adam" else torch.optim.AdamW
    return kind(parameters, config.learning_rate, weight_decay=config.weight_decay, fused=True)


def choose_device(name: str) -> torch.device:
    """The device to train on; "auto" is a GPU if torch sees one.

    Raises:
        UserError: torch does not know or does not see the device.
    """
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
        torch.empty(0, device=device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"training.device = '{name}' cannot be used: {reason} Use 'auto', 'cpu' or 'cuda'."
        ) from None
    return device


def choose_precision(name: str, device: torch.device) -> tuple[torch.dtype, str]:
    """The type that products are computed in, and why.

    Args:
        name: "float32", "bfloat16", or "auto": bfloat16 where the hardware has it.
        device: Where training runs.

    Returns:
        The type, and the reason in words.

    Raises:
        UserError: The CPU is to multiply in bfloat16 and cannot.
    """
    cpu_has_bfloat16 = torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()
    if name == "bfloat16" and device.type == "cpu" and not cpu_has_bfloat16:
        raise UserError(
            "training.precision = 'bfloat16' needs a CPU with AVX512-BF16 or AMX; this one has "
            "neither. Use 'auto' or 'float32'."
        )
    if name != "auto":
        return getattr(torch, name), "as set"
    if device.type == "cuda":
        if torch.cuda.is_bf16_supported(including_emulation=False):
            return torch.bfloat16, "this GPU multiplies in bfloat16"
        return torch.float32, "this GPU does not multiply in bfloat16"
    if cpu_has_bfloat16:
        return torch.bfloat16, "this CPU multiplies in bfloat16"
    return torch.float32, "this CPU has neither AVX512-BF16 nor AMX"


def autocast(device: torch.device, precision: torch.dtype) -> AbstractContextManager[None]:
    """Products in a type, weights and sums in float32."""
    narrow = precision != torch.float32
    return torch.autocast(device.type, precision if narrow else None, enabled=narrow)


class Average:
    """A running average of a model's weights, kept in a second model.

    The decay grows from 0 to its full value over the first updates, so that early weights are
    soon forgotten: min(decay, (1 + update) / (10 + update)).

    Args:
        model: What is trained.
        averaged: A model of the same shape, whose weights become the average.
        decay: The share of the old average that an update keeps.
    """

    def __init__(self, model: nn.Module, averaged: nn.Module, decay: float) -> None:
        self.decay = decay
        self.trained: list[Tensor] = [parameter.detach() for parameter in model.parameters()]
        self.averaged: list[Tensor] = [parameter.detach() for parameter in averaged.parameters()]

    def update(self, number: int) -> None:
        """Take in the weights after an update, counted from 1."""
        decay = min(self.decay, (1 + number) / (10 + number))
        torch._foreach_lerp_(self.averaged, self.trained, 1.0 - decay)
