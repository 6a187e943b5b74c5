"""Dropout (Srivastava 2014) from 16 random bits a unit.

torch draws a word of its generator for each unit, one after the other: in a small model that is
some percent of a training step. Here one word serves four units.
"""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

_LEVELS = 2**16


def keep_mask(*shape: int, probability: float, like: Tensor) -> Tensor:
    """A random mask to multiply by: 0 for a unit that is dropped, else what keeps the mean.

    Args:
        shape: Of the mask.
        probability: Share of units that are dropped, rounded to a multiple of 2^-16.
        like: A tensor of the device and type wanted.

    Example:
        >>> keep_mask(2, 3, probability=0.5, like=torch.zeros(1))
        tensor([[2., 0., 2.], [0., 0., 2.]])
    """
    kept = round((1.0 - probability) * _LEVELS)
    if like.device.type != "cpu" or torch.compiler.is_compiling() or not kept:
        return functional.dropout(like.new_ones(shape), probability)
    mask = like.new_empty(shape)
    words = torch.empty(-(-mask.numel() // 4), dtype=torch.int64).random_(-(2**63), None)
    bits = words.view(torch.int16)[: mask.numel()].view(shape)
    torch.lt(bits, kept - _LEVELS // 2, out=mask)
    return mask.mul_(_LEVELS / kept)


def dropout(tensor: Tensor, probability: float, training: bool) -> Tensor:
    """Drop units in training, and scale the others so that the mean stays.

    Args:
        tensor: Any shape.
        probability: Share of units that are dropped.
        training: False: nothing is dropped.
    """
    if not training or not probability:
        return tensor
    return tensor * keep_mask(*tensor.shape, probability=probability, like=tensor)
