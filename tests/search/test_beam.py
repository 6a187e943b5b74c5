"""The batched search against a slow one over lists, and against enumeration."""

from __future__ import annotations

import itertools
import random
from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from luong.search import beam_search, length_divisor

UNKNOWN, BEGIN, END = 1, 2, 3
STATES = 97


class Memory(NamedTuple):
    sentences: Tensor  # (B,)

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.sentences[rows])


class State(NamedTuple):
    hashes: Tensor  # (rows,): a hash of all tokens so far

    def select(self, rows: Tensor) -> State:
        return State(self.hashes[rows])


class Output(NamedTuple):
    log_probabilities: Tensor
    weights: Tensor


class Toy:
    """Random next-token tables, looked up by a hash of the whole prefix."""

    def __init__(self, seed: int, sentences: int, vocabulary: int, source_length: int = 3) -> None:
        generator = torch.Generator().manual_seed(seed)
        logits = 2 * torch.randn(sentences, STATES, vocabulary, generator=generator)
        self.table = logits.log_softmax(2)
        weights = torch.rand(sentences, STATES, source_length, generator=generator)
        self.weights = weights / weights.sum(2, keepdim=True)
        self.rows: list[int] = []

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[State, Output]:
        self.rows.append(len(tokens))
        hashes = (state.hashes * 31 + tokens + 1) % STATES
        beams = len(tokens) // len(memory.sentences)
        sentences = memory.sentences.repeat_interleave(beams)
        return State(hashes), Output(self.table[sentences, hashes], self.weights[sentences, hashes])

    def look_up(self, sentence: int, prefix: tuple[int, ...]) -> tuple[list[float], list[float]]:
        value = 0
        for token in (BEGIN, *prefix):
            value = (value * 31 + token + 1) % STATES
        return self.table[sentence, value].tolist(), self.weights[sentence, value].tolist()

    def search(self, sentences: list[int], max_lengths: list[int], **settings):
        memory = Memory(torch.tensor(sentences))
        state = State(torch.zeros(len(sentences), dtype=torch.int64))
        limits = torch.tensor(max_lengths)
        return beam_search(self.step, state, memory, max_lengths=limits, **settings)


def slow_beam(toy, sentence, max_length, size, normalization, alpha):
    """One sentence, lists and sorting: [(ids, score, log_probability)], best first."""
    beams, finished = [((), 0.0)], []
    for length in range(max_length + 1):
        candidates = []
        for prefix, score in beams:
            table, _ = toy.look_up(sentence, prefix)
            for token, value in enumerate(table):
                if token == END or (token not in (0, BEGIN) and length < max_length):
                    candidates.append((score + value, prefix, token))
        candidates.sort(key=lambda candidate: -candidate[0])
        candidates = candidates[: 2 * size]
        divisor = length_divisor(normalization, length + 1, alpha)
        finished += [
            (prefix, value / divisor, value)
            for value, prefix, token in candidates[:size]
            if token == END
        ]
        finished = sorted(finished, key=lambda hypothesis: -hypothesis[1])[:size]
        beams = [((*p, token), value) for value, p, token in candidates if token != END][:size]
        ahead = beams and (not finished or beams[0][1] / divisor > finished[0][1])
        if len(finished) == size and not ahead:
            break
    return finished


def check(toy, sentence, hypotheses, expected):
    assert [tuple(h.ids) for h in hypotheses] == [ids for ids, _, _ in expected]
    for hypothesis, (ids, score, log_probability) in zip(hypotheses, expected, strict=True):
        assert hypothesis.score == pytest.approx(score, abs=1e-5)
        assert hypothesis.log_probability == pytest.approx(log_probability, abs=1e-5)
        replayed = [toy.look_up(sentence, ids[:t])[1] for t in range(len(ids) + 1)]
        assert torch.equal(hypothesis.attention, torch.tensor(replayed))


@pytest.mark.parametrize("seed", range(40))
def test_equals_slow_search(seed: int) -> None:
    draw = random.Random(seed)
    count, size = draw.randint(1, 6), draw.randint(1, 6)
    normalization, alpha = draw.choice(["average", "gnmt", "none"]), draw.choice([0.4, 1.0])
    toy = Toy(seed, count, draw.randint(4, 12))
    limits = [draw.randint(0, 8) for _ in range(count)]
    found = toy.search(
        list(range(count)),
        limits,
        beam_size=size,
        n_best=size,
        normalization=normalization,
        alpha=alpha,
    )
    for sentence, hypotheses in enumerate(found):
        expected = slow_beam(toy, sentence, limits[sentence], size, normalization, alpha)
        check(toy, sentence, hypotheses, expected)


@pytest.mark.parametrize("normalization", ["average", "gnmt", "none"])
def test_wide_beam_is_exhaustive(normalization: str) -> None:
    toy, longest = Toy(7, 3, vocabulary=6), 3
    everything = [
        prefix
        for length in range(longest + 1)
        for prefix in itertools.product((UNKNOWN, 4, 5), repeat=length)
    ]
    found = toy.search(
        [0, 1, 2], [longest] * 3, beam_size=50, n_best=50, normalization=normalization
    )
    for sentence, hypotheses in enumerate(found):
        scored = []
        for ids in everything:
            value = sum(
                toy.look_up(sentence, ids[:t])[0][token] for t, token in enumerate((*ids, END))
            )
            scored.append((ids, value / length_divisor(normalization, len(ids) + 1), value))
        scored.sort(key=lambda hypothesis: -hypothesis[1])
        check(toy, sentence, hypotheses, scored)


def test_width_one_is_the_chain_of_maxima() -> None:
    toy = Toy(3, 20, 9)
    for sentence, [hypothesis] in enumerate(toy.search(list(range(20)), [6] * 20, beam_size=1)):
        chain: list[int] = []
        while len(chain) < 6:
            table, _ = toy.look_up(sentence, tuple(chain))
            token = max((1, *range(3, 9)), key=table.__getitem__)
            if token == END:
                break
            chain.append(token)
        assert hypothesis.ids == chain


def test_poor_early_ends_do_not_stop_the_search() -> None:
    toy = Toy(14, 1, 5)
    toy.table[:] = torch.tensor([-9.0, -5.0, -9.0, -4.0, -0.1])
    for length in range(12, 20):  # END becomes likely after 12 tokens
        prefix_hash = 0
        for token in (BEGIN, *[4] * length):
            prefix_hash = (prefix_hash * 31 + token + 1) % STATES
        toy.table[0, prefix_hash, END] = -0.1
    [[best]] = toy.search([0], [30], beam_size=3)
    assert best.ids == [4] * 12


def test_batch_mates_and_order_do_not_matter() -> None:
    toy, limits = Toy(5, 12, 10), [3, 9, 0, 5, 7, 2, 8, 1, 6, 4, 9, 3]
    settings = {"beam_size": 4, "n_best": 4, "normalization": "gnmt"}
    together = toy.search(list(range(12)), limits, **settings)
    order = torch.randperm(12, generator=torch.Generator().manual_seed(1)).tolist()
    shuffled = toy.search(order, [limits[i] for i in order], **settings)
    for place, sentence in enumerate(order):
        [alone] = toy.search([sentence], [limits[sentence]], **settings)
        for a, b, c in zip(together[sentence], shuffled[place], alone, strict=True):
            assert a[:3] == b[:3] == c[:3]
            assert torch.equal(a.attention, b.attention)
            assert torch.equal(a.attention, c.attention)


def test_n_best_only_selects() -> None:
    toy = Toy(8, 10, 12)
    full = toy.search(list(range(10)), [8] * 10, beam_size=5, n_best=5)
    for n_best in range(1, 5):
        part = toy.search(list(range(10)), [8] * 10, beam_size=5, n_best=n_best)
        for few, all_of_them in zip(part, full, strict=True):
            assert [h[:3] for h in few] == [h[:3] for h in all_of_them[:n_best]]
    for hypotheses in full:
        scores = [h.score for h in hypotheses]
        assert scores == sorted(scores, reverse=True)
        assert len({tuple(h.ids) for h in hypotheses}) == 5


def test_end_is_forced_and_counted() -> None:
    toy = Toy(2, 1, 8)
    toy.table[..., END] = -50.0
    [[hypothesis]] = toy.search([0], [4], beam_size=3, normalization="none")
    assert len(hypothesis.ids) == 4
    assert hypothesis.attention.shape == (5, 3)
    assert hypothesis.score < -50.0
    [[empty]] = toy.search([0], [0], beam_size=3, normalization="none")
    assert empty.ids == []
    assert empty.score == -50.0


def test_pad_and_begin_are_never_produced() -> None:
    toy = Toy(4, 5, 8)
    toy.table[..., [0, BEGIN]] = 0.0
    for hypotheses in toy.search(list(range(5)), [6] * 5, beam_size=4, n_best=4):
        assert not {0, BEGIN} & {token for h in hypotheses for token in h.ids}


def test_finished_sentences_leave_the_batch() -> None:
    toy = Toy(6, 8, 8)
    toy.search(list(range(8)), [0, 1, 2, 3, 4, 5, 6, 7], beam_size=3)
    assert toy.rows[0] == 8  # there is one beam at first
    assert toy.rows[1] <= 21
    assert toy.rows[1:] == sorted(toy.rows[1:], reverse=True)
    assert len(toy.rows) <= 8


def test_impossible_outputs_never_come_out() -> None:
    toy = Toy(9, 1, 6)
    toy.table[:] = -torch.inf
    toy.table[..., [4, END]] = -0.7
    [hypotheses] = toy.search([0], [2], beam_size=6, n_best=6, normalization="none")
    assert [h.ids for h in hypotheses] == [[], [4], [4, 4]]


def test_nan_ends_the_search_and_leaves_the_others_alone() -> None:
    toy = Toy(10, 3, 8)
    expected = toy.search([0, 1, 2], [5] * 3, beam_size=3, n_best=3)
    toy.table[1] = torch.nan
    toy.rows.clear()
    found = toy.search([0, 1, 2], [5] * 3, beam_size=3, n_best=3)
    assert found[1] == []
    for sentence in (0, 2):
        assert [h[:3] for h in found[sentence]] == [h[:3] for h in expected[sentence]]
    assert toy.rows[1] == 6
    [nothing] = toy.search([1], [1_000_000], beam_size=2)
    assert nothing == []


def test_nan_in_one_beam_loses() -> None:
    toy = Toy(11, 1, 8)
    [[best]] = toy.search([0], [5], beam_size=4)
    toy.table[..., 7] = torch.nan
    for hypothesis in toy.search([0], [5], beam_size=4, n_best=4)[0]:
        assert 7 not in hypothesis.ids
        assert hypothesis.score == hypothesis.score
    assert best.score == best.score


def test_equal_scores_go_to_the_lower_token() -> None:
    toy = Toy(12, 6, 300)
    toy.table[:] = -1.0
    for hypotheses in toy.search(list(range(6)), [2] * 6, beam_size=3, n_best=3):
        # 1, END, 4 are the first three of 298 equal candidates, and so on.
        assert [h.ids for h in hypotheses] == [[], [1], [1, 1]]


def test_tables_are_not_written_to() -> None:
    toy = Toy(13, 2, 7)
    table, weights = toy.table.clone(), toy.weights.clone()
    toy.search([0, 1], [4, 4], beam_size=3)
    assert torch.equal(toy.table, table)
    assert torch.equal(toy.weights, weights)


def test_no_sentences() -> None:
    assert Toy(1, 1, 5).search([], [], beam_size=2) == []


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"beam_size": 2, "n_best": 3}, "n_best"),
        ({"beam_size": 2, "n_best": 0}, "n_best"),
        ({"beam_size": 0}, "beam_size"),
        ({"beam_size": 2, "normalization": "gnmtt"}, "Did you mean 'gnmt'"),
    ],
)
def test_wrong_settings(settings: dict, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Toy(1, 1, 5).search([0], [3], **settings)
