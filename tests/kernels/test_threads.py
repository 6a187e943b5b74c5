"""The pool, and kernels called from many places at once."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from torch import Tensor
from torch.utils.data import DataLoader, Dataset

from luong import kernels
from luong.kernels import cpu_calls, team
from luong.kernels.threads import share


def test_every_task_runs_once() -> None:
    counts = np.zeros(100, int)

    def task(number: int) -> None:
        counts[number] += 1

    for _ in range(20):
        share(task, 100)
    assert (counts == 20).all()


def test_inline_work_stays_on_the_calling_thread() -> None:
    seen: set[int] = set()
    share(lambda number: seen.add(threading.get_ident()), 50, inline=True)
    assert seen == {threading.get_ident()}


def test_one_torch_thread_means_one_thread() -> None:
    torch.set_num_threads(1)
    seen: set[int] = set()
    share(lambda number: seen.add(threading.get_ident()), 50)
    assert seen == {threading.get_ident()}


@pytest.mark.parametrize("bad", range(8))
def test_an_error_in_a_task_reaches_the_caller_and_the_pool_lives_on(bad: int) -> None:
    def task(number: int) -> None:
        if number == bad:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        share(task, 8)
    done: list[int] = []
    share(done.append, 8)
    assert sorted(done) == list(range(8))


def results(seed: int) -> list[Tensor]:
    """Scores and gradients large enough to be shared between threads."""
    generator = torch.Generator().manual_seed(seed)
    query = torch.randn(3, 20, 129, generator=generator, requires_grad=True)
    key = torch.randn(3, 130, 129, generator=generator, requires_grad=True)
    weight = torch.randn(129, generator=generator, requires_grad=True)
    centres = torch.randint(0, 130, (3, 20), generator=generator)
    scores = kernels.additive_scores(query, kernels.prepare_keys(key), weight)
    band = kernels.local_scores(query, key, centres, 30, weight)
    dots = kernels.local_scores(query, key, centres, 30)
    context = kernels.local_context(dots, key, centres)
    rows = key.flatten(0, 1)
    states = torch.cat(kernels.lstm_update(rows[:, :128], rows[:, 97:]))
    made = [scores, band, dots, context, states]
    total = torch.stack([(tensor * tensor).sum() for tensor in made]).sum()
    gradients = torch.autograd.grad(total, [query, key, weight])
    return [tensor.detach() for tensor in (*made, *gradients)]


@pytest.fixture
def everything_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_calls, "SMALL", 0)
    monkeypatch.setattr(team, "SMALL", 0)


@pytest.mark.usefixtures("everything_is_shared")
def test_the_number_of_threads_changes_no_bit() -> None:
    expected = results(0)
    for threads in (1, 3, 8):
        torch.set_num_threads(threads)
        for found, before in zip(results(0), expected, strict=True):
            assert torch.equal(found, before)


@pytest.mark.usefixtures("everything_is_shared")
def test_eight_python_threads_at_once() -> None:
    expected = [results(seed) for seed in range(8)]
    with ThreadPoolExecutor(8) as pool:
        for _ in range(3):
            for found, before in zip(pool.map(results, range(8)), expected, strict=True):
                assert all(torch.equal(a, b) for a, b in zip(found, before, strict=True))


class Scored(Dataset[Tensor]):
    """Items that a forked worker computes with the kernels, on two threads of its own.

    Torch's own threads do not outlive a fork, so a worker gives torch one; ours may be more.
    """

    def __len__(self) -> int:
        return 4

    def __getitem__(self, index: int) -> Tensor:
        torch.get_num_threads = lambda: 2
        return results(index)[0]


@pytest.mark.usefixtures("everything_is_shared")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_worker_makes_threads_of_its_own() -> None:
    expected = [results(index)[0] for index in range(4)]  # The parent's pool is at work now.
    loader = DataLoader(Scored(), batch_size=None, num_workers=2, multiprocessing_context="fork")
    for found, before in zip(loader, expected, strict=True):
        assert torch.equal(found, before)
