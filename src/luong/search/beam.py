"""Beam search over a step function: batched, in tensors only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from luong import kernels
from luong.search.constraints import without_end, without_repeats
from luong.search.penalties import length_divisor
from luong.text.vocabulary import BEGIN, END, PAD


class Rows(Protocol):
    """Values with one row per sentence, as a memory, or per hypothesis, as a decoder's state."""

    def select(self, rows: Tensor) -> Self:
        """Give the same values for these rows, (n,) int64, in this order."""
        ...


class Output(Protocol):
    """What a step says about the next token."""

    @property
    def log_probabilities(self) -> Tensor:
        """(rows, V), natural logarithm."""
        ...

    @property
    def weights(self) -> Tensor:
        """Attention over source positions, (rows, S)."""
        ...


StateT = TypeVar("StateT", bound=Rows)
MemoryT = TypeVar("MemoryT", bound=Rows)
Step = Callable[[Tensor, StateT, MemoryT], tuple[StateT, Output]]


class Hypothesis(NamedTuple):
    """One finished output of the search.

    Attributes:
        ids: Tokens, without the end symbol.
        score: Log-probability, the end symbol included, after length normalisation.
        log_probability: The same before it.
        attention: (len(ids) + 1, S); row t is the step that predicted token t, the last row the
            step that predicted the end symbol.
        copied: The share of each token's probability that came from copying the source; none of
            a model that does not copy.
    """

    ids: list[int]
    score: float
    log_probability: float
    attention: Tensor
    copied: Sequence[float] = ()


class _Finished(NamedTuple):
    """Ended hypotheses, best first, (sentences, K); a free place has score -inf."""

    scores: Tensor
    log_probabilities: Tensor
    lengths: Tensor  # tokens before the end symbol
    beams: Tensor  # the beam that the end symbol followed


class _Step(NamedTuple):
    """What is kept of a step to trace hypotheses back; there is one beam in the first step."""

    sentences: Tensor  # (n,), ascending
    tokens: Tensor  # (n, K): what each beam was continued with
    parents: Tensor  # (n, K): the beam that it continues
    weights: Tensor  # (n, beams, S): attention of the beams before they were continued
    copied: Tensor  # (n, K): shares of copying in the tokens; (0) where nothing is copied


def beam_search(
    step: Step[StateT, MemoryT],
    state: StateT,
    memory: MemoryT,
    *,
    beam_size: int,
    max_lengths: Tensor,
    n_best: int = 1,
    normalization: str = "average",
    alpha: float = 1.0,
    min_length: int = 0,
    block_ngrams: int = 0,
    never: tuple[int, ...] = (PAD, BEGIN),
) -> list[list[Hypothesis]]:
    """Find the most probable outputs of a batch of sentences.

    Each sentence keeps `beam_size` unfinished hypotheses. Of the best 2 * beam_size
    continuations by log-probability, those that end and rank within the first `beam_size` are
    finished, and the best `beam_size` that do not end go on. A sentence leaves the batch once it
    has `beam_size` finished hypotheses and the score of its best unfinished one, normalised for
    its length so far, is not above that of the best finished one. Width 1 is greedy search. Equal
    scores go to the earlier beam, then to the lower token id.

    Args:
        step: `step(tokens, state, memory) -> (state, output)` without side effects; tokens (rows,)
            int64, sentence by sentence: one for each sentence in the first step, afterwards
            beam_size; output has `log_probabilities` (rows, V) and `weights` (rows, S), and may
            have `copied`, a share of each probability (rows, V). Where its `normalized` is False,
            its `scores` (rows, V) are logits, and log-probabilities are only made of them where a
            constraint asks.
        state: The state before the first token, one row per sentence; has `select`.
        memory: What the state attends to, one row per sentence; has `select`.
        beam_size: K, the hypotheses kept per sentence.
        max_lengths: Most tokens of each output, the end symbol not counted, (B,) int64, on the
            device of the state. A hypothesis that has so many is continued with the end symbol.
        n_best: How many of the finished hypotheses to give; the search does not depend on it.
        normalization: "average", "gnmt" or "none", see `length_divisor`.
        alpha: The strength of the normalisation.
        min_length: Fewest tokens of an output, the end symbol not counted; fewer only where
            max_lengths or the probabilities leave nothing else.
        block_ngrams: No so many tokens in a row come twice in an output; 0: they may.
        never: Tokens that no output has.

    Returns:
        For each sentence up to n_best distinct hypotheses, best first; fewer where fewer have a
        probability above 0, none where the log-probabilities are NaN.

    Raises:
        ValueError: n_best is not between 1 and beam_size, or the normalisation is unknown.

    Example:
        >>> memory, state = model.encode(source, lengths)
        >>> found = beam_search(model.step, state, memory, beam_size=5, max_lengths=2 * lengths)
        >>> found[0][0].ids
        [17, 4, 52]
    """
    if beam_size < 1:
        raise ValueError(f"beam_size must be 1 or more, not {beam_size}")
    if not 1 <= n_best <= beam_size:
        raise ValueError(f"n_best must lie between 1 and beam_size ({beam_size}), not {n_best}")
    length_divisor(normalization, 1, alpha)

    device, count = max_lengths.device, len(max_lengths)
    sentences = torch.arange(count, device=device)
    limits = max_lengths
    scores = torch.zeros((count, 1), device=device)
    tokens = torch.full((count,), BEGIN, device=device)
    finished = _nothing_finished(count, beam_size, device)
    bars = torch.full((count,), -inf, device=device)  # what a sentence goes on for, if it beats it
    history: list[_Step] = []
    prefixes = tokens.new_zeros(count, 0)

    while len(sentences):
        length, width = len(history), scores.shape[1]
        state, output = step(tokens, state, memory)
        full = limits <= length
        constrained = bool(block_ngrams) or length < min_length
        normalized = constrained or getattr(output, "normalized", True)
        following = getattr(output, "log_probabilities" if normalized else "scores")
        following = without_repeats(following, prefixes, block_ngrams)
        if length < min_length:
            following = without_end(following, full, never)
        scores, parents, tokens, ended = kernels.best_continuations(
            scores, following, full, beam_size, end=END, never=never, normalized=normalized
        )
        weights = output.weights.view(len(sentences), width, -1)
        history.append(_Step(sentences, tokens, parents, weights, _shares(output, parents, tokens)))

        divisor = length_divisor(normalization, length + 1, alpha)
        if float(ended.max()) > -inf:
            _finish(finished, sentences, ended, length, divisor)
            # A model with few tokens soon has K poor ends: go on while the best may be to come.
            best, worst = finished.scores[sentences][:, [0, -1]].unbind(1)
            bars = torch.where(worst > -inf, best, -inf)

        live = scores[:, 0] / divisor > bars
        all_live = bool(live.all())
        if not all_live:
            kept = live.nonzero()[:, 0]
            if not len(kept):
                break
            sentences, limits, scores, bars, tokens, parents = (
                part.index_select(0, kept)
                for part in (sentences, limits, scores, bars, tokens, parents)
            )
            memory = memory.select(kept)
        tokens = tokens.flatten()
        if beam_size == 1 and all_live and not block_ngrams:
            continue  # each row goes on where it is
        firsts = torch.arange(len(live), device=device) if all_live else kept
        rows = (firsts.unsqueeze(1) * width + parents).flatten()
        state = state.select(rows)
        if block_ngrams:
            prefixes = torch.cat((prefixes[rows], tokens.unsqueeze(1)), 1)
    return _trace(history, finished, n_best)


def _nothing_finished(count: int, beam_size: int, device: torch.device) -> _Finished:
    scores = torch.full((count, beam_size), -inf, device=device)
    nowhere = torch.zeros((count, beam_size), dtype=torch.int64, device=device)
    return _Finished(scores, scores.clone(), nowhere, nowhere.clone())


def _shares(output: Output, parents: Tensor, tokens: Tensor) -> Tensor:
    """The shares of copying (n, K) in the tokens that the beams are continued with, or (0)."""
    copied: Tensor | None = getattr(output, "copied", None)
    if copied is None:
        return parents.new_zeros(0)
    table = copied.view(len(parents), -1, copied.shape[1])
    rows = torch.arange(len(parents), device=parents.device).unsqueeze(1)
    return table[rows, parents, tokens]


def _finish(
    finished: _Finished, sentences: Tensor, ended: Tensor, length: int, divisor: float
) -> None:
    """Put hypotheses that ended now among the finished ones, and keep the best, in place."""
    beams = torch.arange(ended.shape[1], device=ended.device).expand(ended.shape)
    new = _Finished(ended / divisor, ended, torch.full_like(beams, length), beams)
    both = [
        torch.cat((old[sentences], part), dim=1) for old, part in zip(finished, new, strict=True)
    ]
    order = both[0].sort(dim=1, descending=True, stable=True).indices
    for old, merged in zip(finished, both, strict=True):
        old[sentences] = merged.gather(1, order[:, : old.shape[1]])


def _trace(history: list[_Step], finished: _Finished, n_best: int) -> list[list[Hypothesis]]:
    """Follow the best finished hypotheses from their ends to their first tokens."""
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(len(finished.scores))]
    fields = [field[:, :n_best].detach().cpu().numpy() for field in finished]
    places = (fields[0] > -inf).nonzero()
    sentence = places[0]
    if not len(sentence):
        return hypotheses
    scores, log_probabilities, lengths, beams = (field[places] for field in fields)
    ids = np.zeros((len(sentence), len(history)), np.int64)
    source_length = history[0].weights.shape[2]
    attention = torch.zeros(*ids.shape, source_length, dtype=history[0].weights.dtype)
    rows = attention.numpy()
    copied = np.zeros(ids.shape)
    for time in range(len(history) - 1, -1, -1):
        present, tokens, parents, weights, shares = (
            part.detach().cpu().numpy() for part in history[time]
        )
        # What ended before is elsewhere: it is looked at, but not followed.
        slots = np.searchsorted(present, sentence).clip(max=len(present) - 1)
        ids[:, time] = tokens[slots, beams]
        if shares.size:
            copied[:, time] = shares[slots, beams]
        beams = np.where(lengths > time, parents[slots, beams], beams)
        rows[:, time] = weights[slots, beams]
    copies = history[0].copied.numel() > 0
    for row, (index, length, score, log_probability, output, shares) in enumerate(
        zip(
            sentence.tolist(),
            lengths.tolist(),
            scores.tolist(),
            log_probabilities.tolist(),
            ids.tolist(),
            copied.tolist(),
            strict=True,
        )
    ):
        hypotheses[index].append(
            Hypothesis(
                output[:length],
                score,
                log_probability,
                attention[row, : length + 1],
                shares[:length] if copies else (),
            )
        )
    return hypotheses
