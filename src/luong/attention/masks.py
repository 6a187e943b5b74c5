"""Masks with one meaning: bool, True = may attend."""

from __future__ import annotations

import torch
from torch import Tensor


def from_lengths(lengths: Tensor, size: int) -> Tensor:
    """Which positions lie inside their own sequence.

    Args:
        lengths: Integers (B,), 0 allowed.
        size: The padded length S.

    Returns:
        Bool (B, S), True at positions s < lengths[b].

    Example:
        >>> from_lengths(torch.tensor([2, 0]), 3).tolist()
        [[True, True, False], [False, False, False]]
    """
    return torch.arange(size, device=lengths.device) < lengths.unsqueeze(-1)


def from_padding_mask(mask: Tensor) -> Tensor:
    """Turn a mask of the opposite meaning (True = padding) into ours.

    This is what `torch.nn.MultiheadAttention` calls key_padding_mask.

    Args:
        mask: Bool, True where a position is padding.

    Returns:
        Bool of the same shape, True where a position may be attended.
    """
    return ~checked(mask, "mask")


def checked(mask: Tensor, name: str) -> Tensor:
    """Give a mask back if it is bool.

    Raises:
        TypeError: Any other dtype; a 0/1 or float mask would be read in two opposite ways.
    """
    if mask.dtype != torch.bool:
        raise TypeError(
            f"{name} has dtype {mask.dtype}; expected bool, True = may attend. "
            "Use `mask.bool()` for 0/1 masks, `bias=` for additive ones, and "
            "`masks.from_padding_mask` where True means padding."
        )
    return mask


def last_allowed(mask: Tensor) -> Tensor:
    """The length of each source as its mask tells it: 1 + the last True, 0 if there is none.

    Args:
        mask: Bool (B, S).

    Returns:
        Integers (B,).
    """
    positions = torch.arange(1, mask.shape[-1] + 1, device=mask.device)
    if mask.shape[-1] == 0:
        return torch.zeros(mask.shape[0], dtype=torch.long, device=mask.device)
    return (positions * mask).amax(-1)
