"""The optimiser, the device, and the running average of the weights."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor, nn

from luong.config import TrainingSettings
from luong.errors import UserError


def make_optimizer(
    parameters: Iterable[nn.Parameter], config: TrainingSettings
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


def clipped_step(optimizer: torch.optim.Optimizer, divisor: float) -> None:
    """Step with the gradients divided by a number, without a pass of its own.

    The fused optimisers divide while they read; it is how mixed precision undoes its scale.

    Args:
        optimizer: Of `make_optimizer`.
        divisor: At least 1; the norm over the norm allowed.
    """
    scale = torch.tensor(divisor, device=optimizer.param_groups[0]["params"][0].device)
    # Where nothing is to be divided, the gradients are not written back, either.
    optimizer.grad_scale = scale if divisor != 1.0 else None  # type: ignore[attr-defined]
    optimizer.step()


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
