"""Softmax and cross-entropy by plain torch, without derivatives: the specification."""

from __future__ import annotations

import torch
from torch import Tensor


def softmax_sums(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """See `luong.kernels.softmax_sums`."""
    wide = logits if logits.dtype == torch.float64 else logits.float()
    aimed = wide.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
    return torch.logsumexp(wide, -1), aimed


def logit_gradients(
    logits: Tensor,
    targets: Tensor,
    log_sum: Tensor,
    factors: Tensor,
    towards: Tensor,
    uniform: float,
) -> Tensor:
    """See `luong.kernels.logit_gradients`."""
    gradient = torch.exp(logits.to(log_sum.dtype) - log_sum.unsqueeze(-1))
    gradient.mul_(factors.unsqueeze(-1)).sub_(uniform)
    gradient.scatter_add_(-1, targets.unsqueeze(-1), towards.unsqueeze(-1))
    return logits.copy_(gradient)


def accumulate(total: Tensor, values: Tensor) -> Tensor:
    """See `luong.kernels.accumulate`."""
    return total.add_(values)
