"""The loss: label-smoothed cross-entropy, summed over tokens."""

from __future__ import annotations

from typing import Any, NamedTuple, cast

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


class Loss(NamedTuple):
    """Sums over the tokens of a batch.

    Attributes:
        smoothed: What training minimises, with gradients.
        likelihood: Negative log-likelihood without smoothing, in nats, which perplexity is made
            of; without gradients.
    """

    smoothed: Tensor
    likelihood: Tensor


def cross_entropy(logits: Tensor, targets: Tensor, smoothing: float = 0.0) -> Loss:
    """Cross-entropy against targets smoothed by a uniform share (Szegedy 2016, section 7).

    A token's loss is (1 - smoothing) * -log p(target) + smoothing * mean over the vocabulary of
    -log p. The gradient is made in the forward pass, in place of the probabilities.

    Args:
        logits: (N, V), any float type; the loss is computed in float32 at least.
        targets: Token ids (N,).
        smoothing: The share given to the uniform distribution.

    Example:
        >>> cross_entropy(torch.zeros(1, 4), torch.tensor([2])).likelihood
        tensor(1.3863)
    """
    return Loss(*_CrossEntropy.apply(logits, targets, smoothing))  # type: ignore[no-untyped-call]


class _CrossEntropy(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any, logits: Tensor, targets: Tensor, smoothing: float
    ) -> tuple[Tensor, Tensor]:
        wide = logits if logits.dtype == torch.float64 else logits.float()
        log_probabilities = torch.log_softmax(wide, -1)
        column = targets.unsqueeze(-1)
        likelihood = -log_probabilities.gather(-1, column).sum()
        uniform = -log_probabilities.mean(-1).sum() if smoothing else torch.zeros_like(likelihood)
        if ctx.needs_input_grad[0]:
            gradient = log_probabilities.exp_()
            if smoothing:
                gradient -= smoothing / logits.shape[-1]
            gradient.scatter_add_(-1, column, gradient.new_full(column.shape, smoothing - 1.0))
            ctx.save_for_backward(gradient.to(logits.dtype))
        ctx.mark_non_differentiable(likelihood)
        return (1.0 - smoothing) * likelihood + smoothing * uniform, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, smoothed: Tensor, _likelihood: Tensor) -> tuple[Tensor, None, None]:
        (gradient,) = ctx.saved_tensors
        return cast(Tensor, gradient * smoothed.to(gradient.dtype)), None, None
