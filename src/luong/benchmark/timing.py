"""Timing of calls that compete, in turn, so that noise of the machine hits all alike."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeVar

Result = TypeVar("Result")

REPEATS = 7
MOST_REPEATS = 51
PAUSE = 0.02
SLOW = 5.0
"""Seconds from which a call is not repeated so often."""


class Timing(NamedTuple):
    """Seconds of a call: the median, the least and the most of so many repeats."""

    median: float
    low: float
    high: float
    repeats: int


def summarised(seconds: list[float]) -> Timing:
    """Median and spread.

    Args:
        seconds: One number a repeat, at least one.

    Example:
        >>> summarised([3.0, 1.0, 2.0])
        Timing(median=2.0, low=1.0, high=3.0, repeats=3)
    """
    return Timing(statistics.median(seconds), min(seconds), max(seconds), len(seconds))


def interleaved(
    calls: Mapping[str, Callable[[], Any]], *, budget: float = 1.0, slow: float = SLOW
) -> dict[str, Timing]:
    """Time calls in turn, each round in another order.

    Args:
        calls: By name; each was called before.
        budget: Seconds, pauses included, to fill with further rounds where calls are quick.
        slow: A call that takes longer is not repeated, all others at least REPEATS times.

    Returns:
        The timing of each call.
    """
    seconds: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    start = time.perf_counter()
    for number in range(MOST_REPEATS):
        if number >= REPEATS and time.perf_counter() - start > budget:
            break
        turn = number % max(1, len(names))
        for name in names[turn:] + names[:turn]:
            if seconds[name] and seconds[name][0] > slow:
                continue
            # Threads of the call before may still spin, waiting for more, and would take a core.
            time.sleep(PAUSE)
            seconds[name].append(timed(calls[name])[0])
    return {name: summarised(times) for name, times in seconds.items()}


def timed(call: Callable[[], Result]) -> tuple[float, Result]:
    """The seconds a call takes, and its result."""
    begin = time.perf_counter()
    result = call()
    return time.perf_counter() - begin, result
