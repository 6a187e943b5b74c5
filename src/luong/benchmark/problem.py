"""A problem: calls that compete, how wrong a result is, and measuring it."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from luong.benchmark.process import peak_growth
from luong.benchmark.timing import SLOW, Timing, interleaved, summarised, timed

FORWARD = "forward"
BACKWARD = "fwd+bwd"
DIRECTIONS = (FORWARD, BACKWARD)
COMPILED = "compile"
"""In the name of every call that torch.compile made."""

LIMIT = 1e-4
"""Largest error of a right result, relative to the largest expected number of its tensor."""

Results = tuple[Tensor, ...]


class Problem(NamedTuple):
    """Calls by name, and the error of the result of a named call."""

    calls: dict[str, Callable[[], Results]]
    error: Callable[[str, Results], float]
    needs: Callable[[str], str | None] = lambda _: None
    """Why a call cannot run here, such as want of memory; None if it can."""
    eager: tuple[str, ...] = ()
    """Calls of which the first takes no longer than the others, as nothing is compiled."""


class Measurement(NamedTuple):
    """What was measured of one call; `failure` says why it was not."""

    timing: Timing | None = None
    error: float | None = None
    failure: str | None = None

    @property
    def wrong(self) -> bool:
        """Whether the result was computed and is not right; NaN is not."""
        return self.error is not None and not self.error <= LIMIT


class Row(NamedTuple):
    """What was measured of a problem: by call, and the peaks in MiB."""

    section: str
    label: str
    direction: str
    terms: int
    measurements: dict[str, Measurement]
    peaks: dict[str, float | None]


def relative_error(found: Tensor, expected: Tensor) -> float:
    """The largest deviation, relative to the largest expected number.

    Args:
        found: Any floats.
        expected: Of the same shape, float64.

    Returns:
        NaN where either holds NaN.

    Example:
        >>> relative_error(torch.tensor([1.0, 2.1]), torch.tensor([1.0, 2.0]).double())
        0.04999995231628418
    """
    scale = expected.abs().max().clamp(min=torch.finfo(torch.float32).tiny)
    return float((found.double() - expected).abs().max() / scale)


def results_of(
    function: Callable[..., Tensor], inputs: Results, incoming: Tensor | None
) -> Results:
    """The value of a function, and with an incoming gradient those of all inputs too."""
    if incoming is None:
        with torch.no_grad():
            return (function(*inputs),)
    value = function(*inputs)
    return value.detach(), *torch.autograd.grad(value, inputs, incoming)


def measure(
    build: Callable[..., Problem], arguments: tuple[object, ...], threads: int, budget: float
) -> dict[str, Measurement]:
    """Check every call of a problem, then time those that are there.

    Args:
        build: Makes the problem; of a module's top level.
        arguments: What it is made of.
        threads: Of torch and the kernels.
        budget: Seconds for repeats beyond the least.
    """
    torch.set_num_threads(threads)
    problem = build(*arguments)
    errors: dict[str, float] = {}
    failures: dict[str, str] = {}
    timings: dict[str, Timing] = {}
    for name, call in problem.calls.items():
        reason = problem.needs(name)
        if reason is None:
            try:
                seconds, results = timed(call)
                errors[name] = problem.error(name, results)
                del results
                if seconds > SLOW and name in problem.eager:
                    timings[name] = summarised([seconds])
            except (RuntimeError, ImportError, OSError) as failure:  # torch.compile without g++
                reason = (str(failure).strip() or type(failure).__name__).splitlines()[0]
        if reason is not None:
            failures[name] = reason
    rest = {name: problem.calls[name] for name in errors if name not in timings}
    timings |= interleaved(rest, budget=budget)
    return {
        name: Measurement(timings.get(name), errors.get(name), failures.get(name))
        for name in problem.calls
    }


def measure_peak(
    build: Callable[..., Problem], arguments: tuple[object, ...], name: str, threads: int
) -> float | None:
    """The peak memory of one call beside its inputs, in MiB; to be run in its own process."""
    torch.set_num_threads(threads)
    problem = build(*arguments)
    if problem.needs(name):
        return None
    call = problem.calls[name]
    if COMPILED in name:
        call()  # The compiler's own memory is not counted.
    return peak_growth(call)
