import time

import pytest

from luong.benchmark import timing
from luong.benchmark.timing import REPEATS, Timing, interleaved, summarised


def test_median_and_spread():
    assert summarised([5.0, 1.0, 2.0, 9.0]) == Timing(3.5, 1.0, 9.0, 4)
    assert summarised([2.0]) == Timing(2.0, 2.0, 2.0, 1)


def test_calls_take_turns_and_none_is_always_first():
    order = []
    calls = {name: (lambda name=name: order.append(name)) for name in "abc"}
    found = interleaved(calls, budget=0.0)
    assert "".join(order) == "abcbcacab" * 2 + "abc"
    assert [found[name].repeats for name in "abc"] == [REPEATS] * 3


def test_quick_calls_are_repeated_while_there_is_time(monkeypatch):
    monkeypatch.setattr(timing, "MOST_REPEATS", 30)
    assert interleaved({"a": lambda: None}, budget=60.0)["a"].repeats == 30


def test_a_slow_call_is_not_repeated_and_the_others_are():
    found = interleaved(
        {"slow": lambda: time.sleep(0.02), "fast": lambda: None}, budget=0.0, slow=0.02
    )
    assert found["slow"].repeats == 1
    assert found["slow"].median >= 0.02
    assert found["fast"].repeats == REPEATS
    assert found["fast"].low <= found["fast"].median <= found["fast"].high


def test_a_failure_of_a_call_is_not_hidden():
    with pytest.raises(ZeroDivisionError):
        interleaved({"a": lambda: 1 / 0})
