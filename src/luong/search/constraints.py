"""Constraints of a search: what a hypothesis may not be continued with."""

from __future__ import annotations

import torch
from torch import Tensor

from luong.text.vocabulary import BEGIN, END, PAD


def without_end(
    log_probabilities: Tensor, full: Tensor, never: tuple[int, ...] = (PAD, BEGIN)
) -> Tensor:
    """Forbid the end symbol wherever there is another way on.

    Args:
        log_probabilities: Of the next token (rows, V).
        full: Sentences that may only be ended, bool (n,); rows are sentence by sentence.
        never: Tokens that are no way on.

    Example:
        >>> without_end(torch.tensor([[0.0, -1.0, 0.0, -2.0]]), torch.tensor([False]))
        tensor([[ 0.0000, -1.0000,  0.0000,    -inf]])
    """
    others = log_probabilities.clone()
    others[:, (*never, END)] = -torch.inf
    goes_on = (others > -torch.inf).any(1)
    goes_on &= ~full.repeat_interleave(len(log_probabilities) // len(full))
    result = log_probabilities.clone()
    result[goes_on, END] = -torch.inf
    return result


def without_repeats(log_probabilities: Tensor, prefixes: Tensor, size: int) -> Tensor:
    """Forbid the tokens that would end an n-gram that a hypothesis has already.

    The end symbol is no part of an n-gram, so that a way on is always left.

    Args:
        log_probabilities: Of the next token (rows, V).
        prefixes: The tokens of each hypothesis (rows, length).
        size: n; 0 forbids nothing.

    Example:
        >>> prefixes = torch.tensor([[5, 6, 4, 5]])
        >>> without_repeats(torch.zeros(1, 7), prefixes, 2)
        tensor([[0., 0., 0., 0., 0., 0., -inf]])
    """
    rows, length = prefixes.shape
    if not size or length < size:
        return log_probabilities
    ngrams = prefixes.unfold(1, size, 1)
    begun = prefixes[:, length - size + 1 :].unsqueeze(1)
    repeats = (ngrams[..., :-1] == begun).all(-1)
    vocabulary = log_probabilities.shape[1]
    # What does not repeat goes to a column of its own, past the vocabulary.
    tokens = ngrams[..., -1].masked_fill(~repeats, vocabulary)
    forbidden = torch.zeros(rows, vocabulary + 1, dtype=torch.bool, device=prefixes.device)
    forbidden.scatter_(1, tokens, True)
    return log_probabilities.masked_fill(forbidden[:, :vocabulary], -torch.inf)
