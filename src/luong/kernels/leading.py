"""Leading dimensions, which broadcast: engines compute on tensors that have one of them."""

from __future__ import annotations

import torch
from torch import Tensor


def broadcast(*shapes: torch.Size) -> torch.Size:
    """The leading dimensions that those of several tensors broadcast to.

    Raises:
        RuntimeError: They do not fit together.
    """
    return torch.Size(torch.broadcast_shapes(*shapes))  # type: ignore[no-untyped-call]


def folded(tensor: Tensor, lead: torch.Size, own: int = 2) -> Tensor:
    """A tensor with its leading dimensions broadcast and made one.

    Args:
        tensor: (..., and `own` dimensions more).
        lead: What its leading dimensions broadcast to.
        own: The last dimensions, which stay as they are.

    Example:
        >>> folded(torch.zeros(3, 1, 5, 7), torch.Size([3, 2])).shape
        torch.Size([6, 5, 7])
    """
    if tensor.dim() == own + 1 and len(lead) == 1 and tensor.shape[0] == lead[0]:
        return tensor
    last = tensor.shape[tensor.dim() - own :]
    return tensor.expand(*lead, *last).reshape(lead.numel(), *last)
