"""The best continuations of beams, against a list that Python sorts."""

import math

import pytest
import torch

from luong import kernels

END, NEVER = 3, (0, 2)


def expected(scores, log_probabilities, only_end, count):
    """Sort all continuations of each sentence, by value, then beam, then token; part them."""
    width = scores.shape[1]
    lists, ended = [], torch.full_like(scores, -torch.inf)
    for sentence, beams in enumerate(scores.tolist()):
        found = []
        for beam, score in enumerate(beams):
            row = log_probabilities[sentence * width + beam]
            for token in range(len(row)):
                if token in NEVER or (only_end[sentence] and token != END):
                    continue
                value = (torch.tensor(score) + row[token]).item()
                if math.isfinite(value):
                    found.append((-value, beam, token))
        found = sorted(found)[: 2 * count]
        for value, beam, token in found[:count]:
            if token == END:
                ended[sentence, beam] = -value
        going = [item for item in found if item[2] != END][:count]
        going += [(math.inf, 0, 0)] * (count - len(going))
        lists.append(going)
    values, beams, tokens = torch.tensor(lists, dtype=torch.float64).unbind(-1)
    return -values.float(), beams.long(), tokens.long(), ended


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize(
    ("sentences", "width", "count", "size"),
    [
        (1, 1, 1, 5),
        (3, 4, 4, 6),
        (2, 5, 5, 200),
        (4, 2, 2, 64),
        (3, 1, 5, 70),
        (2, 2, 30, 4),
        (0, 3, 3, 9),
    ],
)
def test_they_are_those_that_a_sorted_list_begins_with(
    backend, ties, sentences, width, count, size
):
    torch.manual_seed(size)
    log_probabilities = torch.randn(sentences * width, size)
    log_probabilities[:, END] += 2.0  # so that some end
    scores = torch.randn(sentences, width)
    if ties:
        log_probabilities, scores = log_probabilities.round(), scores.round()
    if sentences > 1 and width > 1:
        scores[1, 1:] = -torch.inf
        log_probabilities[0, -1] = torch.nan
        log_probabilities[1, 1] = torch.inf
        log_probabilities[2] = -torch.inf
        log_probabilities[-1] = torch.nan
    only_end = torch.arange(sentences) == 2
    found = kernels.best_continuations(
        scores, log_probabilities, only_end, count, end=END, never=NEVER, backend=backend
    )
    if not sentences:
        assert [part.shape for part in found] == [(0, count)] * 3 + [(0, width)]
        return
    wanted = expected(scores, log_probabilities, only_end, count)
    for part, right in zip(found, wanted, strict=True):
        torch.testing.assert_close(part, right, rtol=0, atol=0)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("size", [5, 64, 1000])
def test_logits_count_by_their_log_softmax(backend, size):
    torch.manual_seed(size)
    logits, scores = 4 * torch.randn(6, size).round(decimals=1), torch.randn(2, 3)
    logits[0] += 30.0
    logits[1, 1] = torch.nan
    logits[3, : size // 2] = -torch.inf
    logits[:, END] = logits[:, 1]
    only_end = torch.tensor([False, True])
    logs = kernels.log_softmax(logits, backend=backend)
    options = {"end": END, "never": NEVER, "backend": backend}
    found = kernels.best_continuations(scores, logits, only_end, 4, normalized=False, **options)
    wanted = kernels.best_continuations(scores, logs, only_end, 4, **options)
    assert all(torch.equal(a, b) for a, b in zip(found, wanted, strict=True))
    logs = torch.log_softmax(logits.double(), -1).float()
    wanted = expected(scores, logs, only_end, 4)
    # Of equal logits either may be the greater one once they are rounded in another way.
    for part, right in zip((found.scores, found.ended), (wanted[0], wanted[3]), strict=True):
        torch.testing.assert_close(part, right, rtol=1e-6, atol=1e-5)


def test_threads_change_nothing():
    log_probabilities, scores = torch.randn(40, 70_000), torch.randn(8, 5)
    results = []
    before = torch.get_num_threads()
    try:
        for count in (1, 3):
            torch.set_num_threads(count)
            only_end = torch.zeros(8, dtype=torch.bool)
            results.append(
                kernels.best_continuations(scores, log_probabilities, only_end, 10, end=END)
            )
    finally:
        torch.set_num_threads(before)
    assert all(torch.equal(a, b) for a, b in zip(*results, strict=True))
