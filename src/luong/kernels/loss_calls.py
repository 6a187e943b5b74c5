"""Calls of the compiled loops of a loss, of tensors in float32 or bfloat16, without derivatives.

How the rows are cut between threads never changes a sum.
"""

from __future__ import annotations

import torch
from torch import Tensor

from luong.kernels import cpu_loss
from luong.kernels.cpu_calls import checked
from luong.kernels.small_calls import EXPONENTIAL
from luong.kernels.team import bits


def serve(logits: Tensor) -> bool:
    """Whether the loops read these logits where they lie."""
    return logits.dtype in (torch.float32, torch.bfloat16) and logits.is_contiguous()


def softmax_sums(logits: Tensor, targets: Tensor) -> tuple[Tensor, Tensor]:
    """Log-sums and logits of targets (rows,) each of logits (rows, V)."""
    rows, size = logits.shape
    targets = _indices(targets, rows, size)
    sums = torch.empty(rows, 2)
    given = (logits.data_ptr(), logits.dtype == torch.bfloat16, targets.data_ptr(), size)
    cpu_loss.sums(rows, EXPONENTIAL * size, *given, sums.data_ptr())
    log_sum, aimed = sums.t().contiguous().unbind()
    return log_sum, aimed


def logit_gradients(
    logits: Tensor,
    targets: Tensor,
    log_sum: Tensor,
    factors: Tensor,
    towards: Tensor,
    uniform: float,
) -> Tensor:
    """The logits (rows, V), overwritten by their gradient."""
    rows, size = logits.shape
    targets = _indices(targets, rows, size)
    parts = [checked(part, rows) for part in (log_sum, factors, towards)]
    given = (logits.data_ptr(), logits.dtype == torch.bfloat16, targets.data_ptr())
    addresses = tuple(part.data_ptr() for part in parts)
    cpu_loss.gradients(rows, EXPONENTIAL * size, *given, *addresses, bits(uniform), size)
    return logits


def accumulate(total: Tensor, values: Tensor) -> Tensor:
    """`total` (rows, columns) plus values in bfloat16."""
    rows, size = total.shape
    if not total.is_contiguous():
        raise ValueError("a sum was given whose rows do not lie one after the other.")
    values = checked(values, rows, size, dtype=torch.bfloat16)
    cpu_loss.accumulate(rows, size, values.data_ptr(), size, total.data_ptr())
    return total


def _indices(targets: Tensor, rows: int, size: int) -> Tensor:
    targets = checked(targets, rows, dtype=torch.int64)
    # A loop would read and write beyond the row.
    if rows and not 0 <= int(targets.amin()) <= int(targets.amax()) < size:
        raise IndexError(f"a target is not one of the {size} logits.")
    return targets
