"""Copying source words: the pointer-generator (See, Liu and Manning 2017, section 2.2).

    p_gen  = sigmoid(w_c c_t + w_h h_t + w_x x_t + b)                         (equation 8)
    P(w)   = p_gen P_vocab(w) + (1 - p_gen) sum_{i: x_i = w} a_i              (equation 9)

over an extended vocabulary: ids below V are target tokens, V, V + 1, ... are tokens of the row's
own source that the target's vocabulary does not know (`luong.text.copying` numbers them).

The weights a_i are those of attention, normalised over the positions that can be copied: the end
symbol and padding never are, and windows of the local kind do not sum to 1. Where nothing is
attended that could be copied, p_gen is 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from luong.attention import Memory
from luong.text.vocabulary import UNKNOWN

_LEAST = 1e-12
"""Less attention than this is none: its logarithm would have a gradient of any size."""


class CopyMemory(NamedTuple):
    """A memory, and what each of its positions is when it is copied.

    Attributes:
        memory: Of the sources.
        tokens: Extended target ids (B, S); negative where nothing can be copied.
        size: Of the extended vocabulary of the batch, V + E.
    """

    memory: Memory
    tokens: Tensor
    size: int

    def select(self, rows: Tensor) -> CopyMemory:
        """The same for the given sources (integers), in their order."""
        return CopyMemory(self.memory.select(rows), self.tokens[rows], self.size)


class Mixed(NamedTuple):
    """The distribution over the extended vocabulary.

    Attributes:
        log_probabilities: (rows, V + E); -inf for what neither part can give.
        copied: The share of each probability that comes from copying (rows, V + E), 0 to 1.
    """

    log_probabilities: Tensor
    copied: Tensor


class Mixture(NamedTuple):
    """What the probability of given targets is made of, P = e^generate P_vocab + e^copy.

    Attributes:
        targets: Ids below V, of which P_vocab is wanted.
        generate: log p_gen; -inf for a target that can only be copied.
        copy: log of (1 - p_gen) times the attention to such words; -inf where there is none.
    """

    targets: Tensor
    generate: Tensor
    copy: Tensor


def mixed(log_vocabulary: Tensor, gates: Tensor, weights: Tensor, memory: CopyMemory) -> Mixed:
    """Mix generating and copying for all words.

    Args:
        log_vocabulary: log P_vocab (rows, V).
        gates: Logits of p_gen (rows,).
        weights: Of attention (rows, S); with K rows for each source.
        memory: Of the sources.

    Returns:
        Probabilities of a row sum to 1.

    Example:
        >>> log_vocabulary = torch.tensor([[0.5, 0.5]]).log()
        >>> memory = CopyMemory(memory, torch.tensor([[1, 2, -1]]), 3)
        >>> weights = torch.tensor([[0.5, 0.25, 0.25]])
        >>> mixed(log_vocabulary, torch.zeros(1), weights, memory).log_probabilities.exp()
        tensor([[0.2500, 0.5833, 0.1667]])
    """
    tokens = memory.tokens.repeat_interleave(len(weights) // len(memory.tokens), 0)
    shares, generate, copy = _parts(weights, tokens >= 0, gates)
    places = tokens.clamp_min(0)
    size = memory.size
    table = torch.zeros(len(weights), size, dtype=shares.dtype, device=shares.device)
    # All positions of a word add up; what is then done once for each of them is the same.
    attended = table.scatter_add(1, places, shares).gather(1, places)
    logs = functional.pad(log_vocabulary, (0, size - log_vocabulary.shape[1]), value=-torch.inf)
    logs = logs + generate.unsqueeze(1)
    copied = attended.log() + copy.unsqueeze(1)
    whole = torch.logaddexp(logs.gather(1, places), copied)
    share = torch.exp(copied - whole).masked_fill(attended == 0, 0.0)
    return Mixed(logs.scatter(1, places, whole), table.scatter(1, places, share))


def mixture(
    weights: Tensor, tokens: Tensor, gates: Tensor, targets: Tensor, vocabulary_size: int
) -> Mixture:
    """What the loss needs of copying for known targets; P_vocab is left to it.

    A target beyond the vocabulary to which nothing attends, such as one outside of a local window,
    cannot be copied: it counts as the unknown word.

    Args:
        weights: Of attention (B, T, S).
        tokens: Extended ids of the source (B, S), negative where nothing can be copied.
        gates: Logits of p_gen (B, T).
        targets: Extended ids (B, T).
        vocabulary_size: V.

    Returns:
        Of each target, (B, T); a target has at least one of the two parts.
    """
    shares, generate, copy = _parts(weights, (tokens >= 0).unsqueeze(1), gates)
    same = tokens.unsqueeze(1) == targets.unsqueeze(2)
    attended = (shares * same).sum(-1)
    found = attended > _LEAST
    copy = copy + attended.masked_fill(~found, 1.0).log()
    beyond = targets >= vocabulary_size
    return Mixture(
        targets.masked_fill(beyond, UNKNOWN),
        generate.masked_fill(beyond & found, -torch.inf),
        copy.masked_fill(~found, -torch.inf),
    )


def _parts(weights: Tensor, copyable: Tensor, gates: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Attention over what can be copied, normalised; log p_gen and log (1 - p_gen)."""
    kept = weights.masked_fill(~copyable, 0.0)
    total = kept.sum(-1)
    some = total > _LEAST
    shares = kept / total.masked_fill(~some, 1.0).unsqueeze(-1)
    shares = shares.masked_fill(~some.unsqueeze(-1), 0.0)
    gates = gates.to(shares.dtype)
    generate = functional.logsigmoid(gates).masked_fill(~some, 0.0)
    return shares, generate, functional.logsigmoid(-gates)
