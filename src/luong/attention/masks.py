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


def check_broadcasts(tensor: Tensor, name: str, full: tuple[int, int, int]) -> None:
    """Refuse a tensor that does not broadcast to (B, T, S).

    Args:
        tensor: A mask or a bias.
        name: What the error calls it.
        full: B, T and S.

    Raises:
        ValueError: It does not fit; the message names both shapes.
    """
    trailing = zip(reversed(tensor.shape), reversed(full), strict=False)
    if tensor.dim() > 3 or any(size not in (1, wanted) for size, wanted in trailing):
        raise ValueError(
            f"{name} has shape {tuple(tensor.shape)}; expected one that broadcasts to "
            f"(B, T, S) = {full}."
        )


def checked_lengths(lengths: Tensor, batch: int, source_length: int) -> Tensor:
    """Give lengths back if they are those of a padded batch.

    Args:
        lengths: Integers (B,), 0 allowed.
        batch: B.
        source_length: The padded length S.

    Raises:
        TypeError: They are not integers.
        ValueError: They are not (B,), or not from 0 to S.
    """
    if lengths.dtype.is_floating_point or lengths.dtype == torch.bool:
        raise TypeError(f"lengths have dtype {lengths.dtype}; expected integers (B,).")
    if lengths.shape != (batch,):
        raise ValueError(f"lengths have shape {tuple(lengths.shape)}; expected (B,) = ({batch},).")
    # On other devices the look would wait for the device, and a tracer cannot look at all.
    if batch and lengths.device.type == "cpu" and not torch.compiler.is_compiling():
        low, high = int(lengths.min()), int(lengths.max())
        if low < 0 or high > source_length:
            raise ValueError(f"lengths run from {low} to {high}; expected 0 to {source_length}.")
    return lengths


def combined(
    lengths: Tensor | None, mask: Tensor | None, batch: int, size: int, device: torch.device
) -> Tensor:
    """The positions of a padded batch that both lengths and a mask leave.

    Args:
        lengths: Integers (B,), 0 allowed; None: all are full.
        mask: Bool (B, S), True = may attend; None: all.
        batch: B.
        size: The padded length S.
        device: Of the result.

    Returns:
        Bool (B, S).

    Raises:
        TypeError: The mask is not bool, or lengths are not integers.
        ValueError: Shapes do not fit.
    """
    allowed = torch.ones(batch, size, dtype=torch.bool, device=device)
    if mask is not None:
        if mask.shape != (batch, size):
            raise ValueError(
                f"mask has shape {tuple(mask.shape)}; expected (B, S) = {(batch, size)}."
            )
        allowed = allowed & checked(mask, "mask")
    if lengths is not None:
        allowed = allowed & from_lengths(checked_lengths(lengths, batch, size).to(device), size)
    return allowed


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
