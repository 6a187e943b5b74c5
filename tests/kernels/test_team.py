"""Loops in torch's own threads: every row once, by whichever way the threads are reached."""

from __future__ import annotations

import pytest
import torch

from luong.kernels import team
from luong.kernels.compiled import floats, number, numbers
from luong.kernels.team import Loop, bits


@Loop
def add(first: int, last: int, call: int) -> None:
    """Add a number to the rows [first, last) at an address."""
    address, size, addend = numbers(call, 3)
    rows = floats(address, last, size)
    for row in range(first, last):
        for column in range(size):
            rows[row, column] += number(addend)


@pytest.fixture(params=["OpenMP", "a pool"])
def everything_is_shared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(team, "SMALL", 0)
    if request.param == "a pool":
        monkeypatch.setattr(team, "_openmp", None)
    elif team._openmp is None:
        pytest.skip("torch has no OpenMP library that could be found")


@pytest.mark.usefixtures("everything_is_shared")
@pytest.mark.parametrize("threads", [1, 2, 3, 8])
@pytest.mark.parametrize("rows", [0, 1, 2, 7, 1000])
def test_every_row_is_met_once(rows: int, threads: int) -> None:
    torch.set_num_threads(threads)
    numbers_ = torch.arange(3.0 * rows).view(rows, 3)
    expected = numbers_ + 0.1
    add(rows, 3, numbers_.data_ptr(), 3, bits(0.1))
    torch.testing.assert_close(numbers_, expected, rtol=0, atol=0)


def test_small_work_stays_on_the_calling_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    torch.set_num_threads(2)

    def refuse(*_: object) -> None:
        raise AssertionError

    monkeypatch.setattr(team, "_shared_part", refuse)
    monkeypatch.setattr(team, "share", refuse)
    rows = torch.zeros(2, 3)
    add(2, team.SMALL // 2, rows.data_ptr(), 3, bits(1.0))
    assert rows.tolist() == [[1.0] * 3] * 2
    with pytest.raises(AssertionError):
        add(2, team.SMALL, rows.data_ptr(), 3, bits(1.0))


@pytest.mark.parametrize("value", [0.0, -1.5, 1e-42, 3.4e38, float("inf")])
def test_bits_are_those_of_float32(value: float) -> None:
    assert bits(value) == torch.tensor(value).view(torch.int32).item()
