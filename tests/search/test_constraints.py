"""Minimum length and n-gram blocking against an enumeration of all outputs."""

import itertools
from math import inf
from typing import NamedTuple

import pytest
import torch

from luong.search import beam_search
from luong.search.constraints import without_end, without_repeats
from luong.text.vocabulary import END

SIZE = 7  # tokens 4, 5 and 6 beside the special ones


class Rows(NamedTuple):
    values: torch.Tensor

    def select(self, rows):
        return Rows(self.values[rows])

    def repeat(self, count):
        return Rows(self.values.repeat_interleave(count, 0))


class Output(NamedTuple):
    log_probabilities: torch.Tensor
    weights: torch.Tensor


def step_of(table):
    """A bigram model, another one for each sentence: table (B, V, V)."""

    def step(tokens, state, memory):
        logs = table[state.values, tokens]
        return state, Output(logs, torch.zeros(len(tokens), 1))

    return step


def enumerated(table, longest, shortest, block):
    """All outputs of one sentence with their log-probabilities, best first."""
    found = []
    for length in range(longest + 1):
        for ids in itertools.product((1, 4, 5, 6), repeat=length):
            ngrams = list(zip(*(ids[start:] for start in range(block)), strict=False))
            if length < shortest or (block and len(set(ngrams)) < len(ngrams)):
                continue
            path = [2, *ids, END]
            score = sum(table[a, b].item() for a, b in itertools.pairwise(path))
            found.append((score, list(ids)))
    return sorted(found, reverse=True)


@pytest.mark.parametrize(("shortest", "block"), [(0, 0), (3, 0), (0, 1), (0, 2), (2, 2), (4, 3)])
def test_a_wide_beam_finds_the_best_allowed_output(shortest, block):
    # All outputs fit in the beam, so that nothing but the constraints leaves any out.
    torch.manual_seed(shortest + 10 * block)
    table = torch.randn(2, SIZE, SIZE).mul(2).log_softmax(2)
    found = beam_search(
        step_of(table),
        Rows(torch.arange(2)),
        Rows(torch.arange(2)),
        beam_size=256,
        n_best=5,
        max_lengths=torch.tensor([4, 3]),
        normalization="none",
        min_length=shortest,
        block_ngrams=block,
    )
    for sentence, longest in enumerate((4, 3)):
        # The longest length wins over the least one.
        expected = enumerated(table[sentence], longest, min(shortest, longest), block)[:5]
        for hypothesis, (score, ids) in zip(found[sentence], expected, strict=True):
            assert hypothesis.ids == ids
            assert hypothesis.score == pytest.approx(score, abs=1e-5)


def test_the_end_stays_where_nothing_else_is_left():
    logs = torch.full((4, SIZE), -inf)
    logs[:, END] = -1.0
    logs[1, 5] = -3.0
    logs[2, 2] = -3.0  # the begin symbol is no way on
    logs[3, 5] = -3.0
    found = without_end(logs, torch.tensor([False, False, False, True]))
    assert found[:, END].tolist() == [-1.0, -inf, -1.0, -1.0]
    assert torch.equal(found[:, :END], logs[:, :END])


@pytest.mark.parametrize("size", [1, 2, 3])
def test_blocked_tokens_against_a_loop(size):
    prefixes = torch.randint(4, SIZE, (50, 6))
    logs = torch.randn(50, SIZE)
    kept = logs.clone()
    found = without_repeats(logs, prefixes, size)
    assert torch.equal(logs, kept)
    for row in range(50):
        prefix = prefixes[row].tolist()
        ngrams = {tuple(prefix[i : i + size]) for i in range(len(prefix) - size + 1)}
        for token in range(SIZE):
            blocked = (*prefix[len(prefix) - size + 1 :], token) in ngrams
            assert found[row, token] == (-inf if blocked else logs[row, token])


def test_one_beam_says_no_word_twice():
    table = torch.zeros(1, SIZE, SIZE)
    table[..., 5] = 2.0
    table[..., END] = -4.0
    options = {"beam_size": 1, "max_lengths": torch.tensor([9]), "block_ngrams": 1}
    state = Rows(torch.zeros(1, dtype=torch.int64))
    [[best]] = beam_search(step_of(table.log_softmax(2)), state, state, **options)
    assert best.ids == [5, 1, 4, 6]
