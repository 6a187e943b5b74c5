"""Windows: which source positions a query may see.

| name | centre c | weights |
|---|---|---|
| global | | softmax over all S_b positions |
| local-m | min(t, S_b - 1) | softmax over [c - D, c + D] |
| local-p | min(floor(p_t), S_b - 1) | softmax over [c - D, c + D], times a Gaussian around p_t |

Source: Luong, Pham and Manning 2015, sections 3.1 and 3.2. S_b is the length of source b.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import NamedTuple

import torch
from torch import Tensor, nn
from typing_extensions import override

from luong.errors import nearest
from luong.kernels.products import linear
from luong.kernels.reference import at_least_float32


class Located(NamedTuple):
    """Where the bands of queries lie.

    Attributes:
        half_width: D.
        centres: Integer positions c (B, T).
        points: The real-valued positions p_t (B, T) that weigh the band; None: no weighing.
    """

    half_width: int
    centres: Tensor
    points: Tensor | None = None


class Window(nn.Module, ABC):
    """Which source positions a query may see."""

    @abstractmethod
    def locate(self, query: Tensor, positions: Tensor, lengths: Tensor) -> Located | None:
        """Find the band of each query.

        Args:
            query: (B, T, q).
            positions: The time step t of each query (B, T).
            lengths: S_b (B,).

        Returns:
            Where the bands lie; None: the whole source is seen.
        """


class Global(Window):
    """All positions of the source (Luong 2015, section 3.1)."""

    @override
    def locate(self, query: Tensor, positions: Tensor, lengths: Tensor) -> None:
        return None


class _Local(Window):
    """A band of 2D+1 positions around a centre."""

    def __init__(self, half_width: int) -> None:
        super().__init__()
        if half_width < 1:
            raise ValueError(f"half_width is {half_width}; a local window needs at least 1.")
        self.half_width = half_width


class LocalMonotonic(_Local):
    """local-m: source and target run roughly side by side, so the centre is t."""

    @override
    def locate(self, query: Tensor, positions: Tensor, lengths: Tensor) -> Located:
        last = (lengths - 1).clamp(min=0).unsqueeze(-1)
        return Located(self.half_width, torch.minimum(positions, last))


class LocalPredictive(_Local):
    """local-p: p_t = S_b sigmoid(v_p^T tanh(W_p h_t)) (Luong 2015, equations 9 and 10).

    The softmax weights of the band are multiplied by exp(-(s - p_t)^2 / (2 sigma^2)) with
    sigma = D/2 and not normalised again, so the gradient reaches p_t through the Gaussian.

    Args:
        half_width: D.
        query_size: q.
        attention_size: Rows of W_p (n, q); query_size by default.
    """

    def __init__(self, half_width: int, query_size: int, attention_size: int | None = None) -> None:
        super().__init__(half_width)
        size = attention_size or query_size
        self.weight = nn.Parameter(torch.empty(size, query_size))
        self.weight_vector = nn.Parameter(torch.empty(size))
        nn.init.xavier_uniform_(self.weight)
        nn.init.uniform_(self.weight_vector, -(size**-0.5), size**-0.5)

    @override
    def locate(self, query: Tensor, positions: Tensor, lengths: Tensor) -> Located:
        hidden = torch.tanh(at_least_float32(linear(query, self.weight)))
        points = torch.sigmoid((hidden * self.weight_vector).sum(-1)) * lengths.unsqueeze(-1)
        last = (lengths - 1).clamp(min=0).unsqueeze(-1)
        # A NaN query has no integer position; its band may lie anywhere, its weights are NaN.
        floor = points.detach().nan_to_num().floor().long()
        return Located(self.half_width, torch.minimum(floor, last), points)


WINDOWS = ("global", "local-m", "local-p")


def make_window(
    window: str | Window, half_width: int, query_size: int, attention_size: int | None = None
) -> Window:
    """A window by its name; an object is given back as it is.

    Raises:
        ValueError: The name is unknown, or half_width is below 1.
    """
    if isinstance(window, Window):
        return window
    if window == "global":
        return Global()
    if window == "local-m":
        return LocalMonotonic(half_width)
    if window == "local-p":
        return LocalPredictive(half_width, query_size, attention_size)
    raise ValueError(f"'{window}' is not a window.{nearest(window, WINDOWS)}")
