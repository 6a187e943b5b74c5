"""Right kernels pass the check of every section, and wrong ones do not."""

import pytest
import torch

from luong import kernels
from luong.benchmark import additive, local, whole
from luong.benchmark.problem import (
    DIRECTIONS,
    LIMIT,
    Measurement,
    Problem,
    measure,
    relative_error,
)

EAGER = (additive.LUONG, additive.LINEAR, additive.SUM, additive.CHECKPOINT)

PROBLEMS = [
    *(
        (additive.problem, (shape, direction, EAGER))
        for shape in ((3, 1, 9, 20), (3, 17, 19, 20))
        for direction in DIRECTIONS
    ),
    *((whole.problem, ((3, 5, 7, 20), direction)) for direction in DIRECTIONS),
    *(
        (local.problem, (score, direction, (40, 2000), (local.MONOTONIC, local.RANDOM)))
        for score in local.SCORES
        for direction in DIRECTIONS
    ),
]


@pytest.mark.parametrize(("build", "arguments"), PROBLEMS)
def test_right_results_pass(build, arguments):
    problem = build(*arguments)
    for name, call in problem.calls.items():
        assert problem.error(name, call()) < LIMIT / 10


@pytest.mark.parametrize(("build", "arguments"), PROBLEMS)
def test_an_error_anywhere_in_a_result_that_counts_is_seen(build, arguments):
    problem = build(*arguments)
    name, call = next(iter(problem.calls.items()))
    results = call()
    for place in range(len(results)):
        for change in (1.001, torch.nan):
            wrong = [result.clone() for result in results]
            wrong[place] *= change
            error = problem.error(name, tuple(wrong))
            assert Measurement(error=error).wrong


@pytest.mark.parametrize("direction", DIRECTIONS)
def test_a_wrong_kernel_is_seen(monkeypatch, direction):
    right = kernels.additive_scores
    monkeypatch.setattr(kernels, "additive_scores", lambda *inputs: 1.001 * right(*inputs))
    found = measure(additive.problem, ((2, 3, 4, 8), direction, EAGER), 1, 0.0)
    assert found[additive.LUONG].wrong
    assert not found[additive.LINEAR].wrong
    assert found[additive.LINEAR].timing is not None


def test_the_deviation_is_relative_to_the_largest_number():
    expected = torch.tensor([1.0, -4.0], dtype=torch.float64)
    assert relative_error(torch.tensor([1.5, -4.0]), expected) == 0.125
    assert Measurement(error=relative_error(torch.tensor([1.0, torch.nan]), expected)).wrong


def test_what_cannot_run_says_why():
    def broken():
        raise RuntimeError("no compiler\nand much more")

    problem = Problem(
        {"good": lambda: (), "broken": broken, "large": broken},
        lambda *_: 0.0,
        lambda name: "needs 1000 GiB" if name == "large" else None,
    )
    found = measure(lambda: problem, (), 1, 0.0)
    assert found["broken"] == Measurement(failure="no compiler")
    assert found["large"] == Measurement(failure="needs 1000 GiB")
    assert found["good"].timing.repeats >= 7


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler's own
@pytest.mark.parametrize("direction", DIRECTIONS)
def test_compiled_spellings_are_right(direction):
    names = (additive.COMPILED_LINEAR, additive.COMPILED_SUM)
    found = measure(additive.problem, ((2, 3, 4, 8), direction, names), 1, 0.0)
    for measurement in found.values():
        assert measurement.failure is None
        assert not measurement.wrong
