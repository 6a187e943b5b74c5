"""The door to what surrounds an output layer: softmax, its loss, and the best of its words."""

from __future__ import annotations

from torch import Tensor

from luong.kernels.continuations import Continuations
from luong.kernels.dispatch import compute


def log_softmax(logits: Tensor, *, backend: str | None = None) -> Tensor:
    """The logarithm of the softmax over the last dimension.

    Args:
        logits: (rows, V).
        backend: An engine's name; None for the default.

    Returns:
        (rows, V), in float32 at least; NaN throughout for a row in which a number is NaN.
    """
    result: Tensor = compute("log_softmax", logits, backend, logits)
    return result


def best_continuations(
    scores: Tensor,
    log_probabilities: Tensor,
    only_end: Tensor,
    count: int,
    *,
    end: int,
    never: tuple[int, ...] = (),
    normalized: bool = True,
    backend: str | None = None,
) -> Continuations:
    """The best ways to continue the beams of each sentence by one token.

    Of the best 2 * count continuations, those that end and rank within the first `count` are
    ended, and the best `count` that do not end go on. Of equal values the earlier beam comes
    first, then the lower token. A NaN or an infinite log-probability never is among them.

    Args:
        scores: Of the beams (n, width), float32; -inf for a dead one.
        log_probabilities: Of the next token (n * width, V).
        only_end: Sentences that may only be ended, bool (n,).
        count: How many go on.
        end: The token that ends a sentence.
        never: Tokens that are never chosen.
        normalized: False: what is given are logits, whose logarithms of the softmax count; so they
            need not be made for all tokens.
        backend: An engine's name; None for the default.

    Returns:
        What goes on, and what ended.

    Example:
        >>> scores, next_ = torch.zeros(1, 1), torch.tensor([[-3.0, -1.0, -2.0, -0.5]])
        >>> found = best_continuations(scores, next_, torch.tensor([False]), 2, end=3)
        >>> found.scores, found.tokens, found.ended
        (tensor([[-1., -2.]]), tensor([[1, 2]]), tensor([[-0.5000]]))
    """
    result: Continuations = compute(
        "best_continuations",
        log_probabilities,
        backend,
        scores,
        log_probabilities,
        only_end,
        count,
        end,
        never,
        normalized,
    )
    return result


def softmax_sums(
    logits: Tensor, targets: Tensor, *, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """What a cross-entropy is made of; without derivatives.

    Args:
        logits: (rows, V).
        targets: The index of each row's target (rows,).
        backend: An engine's name; None for the default.

    Returns:
        Of each row log(sum of e^logit) and the logit of its target; (rows,) each, in float32 at
        least.

    Example:
        >>> log_sum, aimed = softmax_sums(torch.zeros(1, 2), torch.tensor([1]))
        >>> (log_sum - aimed).item()  # the negative log-likelihood
        0.6931
    """
    sums: tuple[Tensor, Tensor] = compute("softmax_sums", logits, backend, logits, targets)
    return sums


def logit_gradients(
    logits: Tensor,
    targets: Tensor,
    log_sum: Tensor,
    factors: Tensor,
    towards: Tensor,
    uniform: float,
    *,
    backend: str | None = None,
) -> Tensor:
    """Put the gradient of a cross-entropy in place of its logits.

    A row becomes factor * softmax(row) - uniform, with `towards` added at its target.

    Args:
        logits: (rows, V), contiguous; overwritten.
        targets: The index of each row's target (rows,).
        log_sum: As `softmax_sums` gave it (rows,).
        factors: (rows,).
        towards: (rows,).
        uniform: Taken off everywhere.
        backend: An engine's name; None for the default.

    Returns:
        The logits given, with their gradient in them.

    Example:
        >>> logits, targets = torch.zeros(1, 2), torch.tensor([1])
        >>> log_sum, _ = softmax_sums(logits, targets)
        >>> logit_gradients(logits, targets, log_sum, torch.ones(1), -torch.ones(1), 0.0)
        tensor([[ 0.5000, -0.5000]])
    """
    arguments = (logits, targets, log_sum, factors, towards, uniform)
    gradient: Tensor = compute("logit_gradients", logits, backend, *arguments)
    return gradient


def accumulate(total: Tensor, values: Tensor, *, backend: str | None = None) -> Tensor:
    """Add values in a narrower type, in one pass over both.

    Args:
        total: (rows, columns), contiguous; changed in place.
        values: Of the same shape.
        backend: An engine's name; None for the default.

    Example:
        >>> accumulate(torch.ones(1, 2), torch.ones(1, 2, dtype=torch.bfloat16))
        tensor([[2., 2.]])
    """
    result: Tensor = compute("accumulate", values, backend, total, values)
    return result
