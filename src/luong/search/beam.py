"""Beam search over a step function: batched, in tensors only."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import inf
from typing import NamedTuple, Protocol, Self, TypeVar

import torch
from torch import Tensor

from luong import kernels
from luong.search.constraints import without_end, without_repeats
from luong.search.penalties import length_divisor
from luong.text.vocabulary import BEGIN, END, PAD


class Rows(Protocol):
    """Values with one row per sentence; the memory of a search is such a thing."""

    def select(self, rows: Tensor) -> Self:
        """Give the same values for these rows, (n,) int64, in this order."""
        ...


class State(Rows, Protocol):
    """What a step hands to the next, one row per hypothesis."""

    def repeat(self, count: int) -> Self:
        """Give every row `count` times, the copies of a row side by side."""
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


StateT = TypeVar("StateT", bound=State)
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
    """What is kept of a step to trace hypotheses back."""

    sentences: Tensor  # (n,), ascending
    tokens: Tensor  # (n, K): what each beam was continued with
    parents: Tensor  # (n, K): the beam that it continues
    weights: Tensor  # (n, K, S): attention of the beams before they were continued
    copied: Tensor | None  # (n, K): shares of copying in the tokens


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
            int64 with rows = sentences * beam_size, sentence by sentence; output has
            `log_probabilities` (rows, V) and `weights` (rows, S), and may have `copied`, a share
            of each probability (rows, V).
        state: The state before the first token, one row per sentence; has `select` and `repeat`.
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
    scores = torch.full((count, beam_size), -inf, device=device)
    scores[:, 0] = 0.0  # the beams start alike: all but one are dead until they differ
    tokens = torch.full((count * beam_size,), BEGIN, device=device)
    nowhere = torch.zeros((count, beam_size), dtype=torch.int64, device=device)
    finished = _Finished(torch.full_like(scores, -inf), scores.clone(), nowhere, nowhere.clone())
    history: list[_Step] = []
    prefixes = tokens.new_zeros(len(tokens), 0)
    state = state.repeat(beam_size)

    while len(sentences):
        length = len(history)
        state, output = step(tokens, state, memory)
        full = max_lengths[sentences] <= length
        logs = without_repeats(output.log_probabilities, prefixes, block_ngrams)
        if length < min_length:
            logs = without_end(logs, full)
        values, beams, symbols = kernels.best_continuations(
            scores, logs, full, 2 * beam_size, end=END, never=(PAD, BEGIN)
        )

        divisor = length_divisor(normalization, length + 1, alpha)
        ends = symbols == END
        ended = torch.where(ends, values, -inf)[:, :beam_size]
        if bool((ended > -inf).any()):
            _finish(finished, sentences, ended, beams[:, :beam_size], length, divisor)

        going = ends.to(torch.int8).sort(dim=1, stable=True).indices[:, :beam_size]
        scores, parents, chosen = (x.gather(1, going) for x in (values, beams, symbols))
        weights = output.weights.reshape(len(sentences), beam_size, -1)
        history.append(_Step(sentences, chosen, parents, weights, _shares(output, parents, chosen)))

        # A model with few tokens soon has K poor ends: go on while the best may be still to come.
        best, worst = finished.scores[sentences][:, [0, -1]].unbind(1)
        ahead = scores[:, 0] / divisor > best
        live = (scores[:, 0] > -inf) & ((worst == -inf) | ahead)
        kept = live.nonzero()[:, 0]
        if not len(kept):
            break
        if len(kept) < len(sentences):
            sentences, scores, memory = sentences[kept], scores[kept], memory.select(kept)
        tokens = chosen[kept].flatten()
        rows = (kept[:, None] * beam_size + parents[kept]).flatten()
        state = state.select(rows)
        if block_ngrams:
            prefixes = torch.cat((prefixes[rows], tokens.unsqueeze(1)), 1)
    return _trace(history, finished, n_best)


def _shares(output: Output, parents: Tensor, chosen: Tensor) -> Tensor | None:
    """The shares of copying (n, K) in the tokens that the beams are continued with."""
    copied: Tensor | None = getattr(output, "copied", None)
    if copied is None:
        return None
    table = copied.view(len(parents), -1, copied.shape[1])
    rows = torch.arange(len(parents), device=parents.device).unsqueeze(1)
    return table[rows, parents, chosen]


def _finish(
    finished: _Finished,
    sentences: Tensor,
    log_probabilities: Tensor,
    beams: Tensor,
    length: int,
    divisor: float,
) -> None:
    """Put hypotheses that ended now among the finished ones, and keep the best, in place."""
    ended = _Finished(
        log_probabilities / divisor, log_probabilities, torch.full_like(beams, length), beams
    )
    both = [
        torch.cat((old[sentences], new), dim=1) for old, new in zip(finished, ended, strict=True)
    ]
    order = both[0].sort(dim=1, descending=True, stable=True).indices[:, : beams.shape[1]]
    for old, merged in zip(finished, both, strict=True):
        old[sentences] = merged.gather(1, order)


def _trace(history: list[_Step], finished: _Finished, n_best: int) -> list[list[Hypothesis]]:
    """Follow the best finished hypotheses from their ends to their first tokens."""
    hypotheses: list[list[Hypothesis]] = [[] for _ in range(len(finished.scores))]
    places = (finished.scores[:, :n_best] > -inf).nonzero(as_tuple=True)
    if not len(places[0]):
        return hypotheses
    sentence, (scores, log_probabilities, lengths, beams) = (
        places[0],
        (field[places] for field in finished),
    )
    ids = torch.zeros((len(sentence), len(history)), dtype=torch.int64, device=sentence.device)
    source_length = history[0].weights.shape[2]
    attention = history[0].weights.new_zeros((*ids.shape, source_length))
    copied = attention.new_zeros(ids.shape)
    for time in range(len(history) - 1, -1, -1):
        step = history[time]
        longer = (lengths > time).nonzero()[:, 0]
        slots = torch.searchsorted(step.sentences, sentence[longer])
        ids[longer, time] = step.tokens[slots, beams[longer]]
        if step.copied is not None:
            copied[longer, time] = step.copied[slots, beams[longer]]
        beams[longer] = step.parents[slots, beams[longer]]
        reached = (lengths >= time).nonzero()[:, 0]
        slots = torch.searchsorted(step.sentences, sentence[reached])
        attention[reached, time] = step.weights[slots, beams[reached]]
    copies = history[0].copied is not None
    for row, (index, length, score, log_probability, tokens, shares) in enumerate(
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
                tokens[:length],
                score,
                log_probability,
                attention[row, : length + 1],
                shares[:length] if copies else (),
            )
        )
    return hypotheses
