"""Positions: how attention, which by itself sees a bag, learns where things stand."""

from __future__ import annotations

import torch
from torch import Tensor, nn


def sinusoidal_positions(
    length: int,
    size: int,
    *,
    dtype: torch.dtype | None = None,
    device: torch.device | None = None,
) -> Tensor:
    """Sines and cosines that tell positions apart, to be added to the inputs.

    PE(s, 2i) = sin(s / 10000^(2i/size)) and PE(s, 2i+1) = cos of the same (Vaswani 2017, section
    3.5). Nothing is learned, so every length is known.

    Args:
        length: S.
        size: Of an input; may be odd.
        dtype: Of the result; torch's default otherwise.
        device: Of the result.

    Returns:
        (S, size).

    Example:
        >>> sinusoidal_positions(2, 2)
        tensor([[0.0000, 1.0000],
                [0.8415, 0.5403]])
    """
    steps = torch.arange(length, device=device, dtype=torch.float64).unsqueeze(-1)
    even = torch.arange(0, size, 2, device=device, dtype=torch.float64)
    angles = steps / 10000 ** (even / size)
    waves = torch.stack([angles.sin(), angles.cos()], -1).flatten(1)[:, :size]
    return waves.to(dtype or torch.get_default_dtype())


class RelativePositions(nn.Module):
    """A learned number for each distance s - t and each head, added to score(t, s).

    Distances beyond the largest count as the largest (Shaw 2018, section 3.2). A number and not
    a vector for each distance (Raffel 2020, section 2.1), since that suits every score function.

    Args:
        heads: H.
        max_distance: The largest distance told apart, on either side.

    Example:
        >>> RelativePositions(heads=2, max_distance=3)(5).shape
        torch.Size([2, 5, 5])
    """

    def __init__(self, heads: int, max_distance: int = 16) -> None:
        super().__init__()
        if max_distance < 1:
            raise ValueError(f"max_distance is {max_distance}; expected at least 1.")
        self.heads = heads
        self.max_distance = max_distance
        self.weight = nn.Parameter(torch.zeros(heads, 2 * max_distance + 1))

    def forward(self, length: int) -> Tensor:
        """What is added to the scores of a sequence with itself.

        Args:
            length: S.

        Returns:
            (heads, S, S), a row for each query.
        """
        steps = torch.arange(length, device=self.weight.device)
        distances = steps - steps.unsqueeze(-1)
        largest = self.max_distance
        return self.weight[:, distances.clamp(-largest, largest) + largest]
