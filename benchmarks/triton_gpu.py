"""Tests and times the Triton kernels on a GPU: `python benchmarks/triton_gpu.py`.

First the checks of tests/kernels/triton_checks.py run on the GPU, then each shape is timed. A
figure is the median of 9 runs with the smallest and the largest, in milliseconds; terms are the
B T S n additions under a tanh. What does not fit in memory is left out, and said so. A few minutes.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

sys.path.insert(0, str(Path(__file__).parents[1] / "tests" / "kernels"))

import triton_checks

from luong.kernels import triton, triton_additive

SHAPES = [
    (64, 1, 50, 512), (64, 25, 25, 512), (64, 50, 50, 512), (128, 10, 128, 1024),
    (16, 100, 100, 512), (16, 100, 800, 512), (1, 2048, 2048, 256),
]  # fmt: skip
LENGTHS = (1024, 8192, 65536, 262144)
HALF_WIDTH = 10
RUNS = 9
DEVICE = "cuda"


class Timing(NamedTuple):
    """Milliseconds, and MiB of memory beside what was there before."""

    median: float
    low: float
    high: float
    memory: float

    def __str__(self) -> str:
        return f"{self.median:9.3f} [{self.low:.3f}, {self.high:.3f}] {self.memory:8.0f} MiB"


def timed(run: Callable[[], object]) -> Timing:
    for _ in range(3):
        run()
    torch.cuda.synchronize()
    torch.cuda.reset_peak_memory_stats()
    before = torch.cuda.memory_allocated()
    times = []
    for _ in range(RUNS):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        run()
        end.record()
        torch.cuda.synchronize()
        times.append(start.elapsed_time(end))
    memory = (torch.cuda.max_memory_allocated() - before) / 2**20
    return Timing(statistics.median(times), min(times), max(times), memory)


def report(name: str, terms: int, run: Callable[[], object]) -> None:
    try:
        timing = timed(run)
    except torch.OutOfMemoryError:
        torch.cuda.empty_cache()
        print(f"  {name:34} out of memory")
        return
    print(f"  {name:34} {timing}  {terms / timing.median / 1e6:10.1f} G terms/s", flush=True)


def eager_linear(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    return torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) @ weight


def eager_sum(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    return (weight * torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3))).sum(-1)


def rows(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.randn(*shape, device=DEVICE, dtype=dtype, requires_grad=True)


def report_both_ways(
    name: str, terms: int, score: Callable[..., Tensor], inputs: tuple[Tensor, ...]
) -> None:
    def run() -> object:
        output = score(*inputs)
        return torch.autograd.grad(output, inputs, torch.ones_like(output))

    report(name, terms, run)


def scorers(compiled: bool) -> dict[str, Callable[..., Tensor]]:
    found: dict[str, Callable[..., Tensor]] = {
        "triton": triton.additive_scores,
        "eager, product with v": eager_linear,
        "eager, multiply and sum": eager_sum,
    }
    if compiled:
        found["compiled, product with v"] = torch.compile(eager_linear)
        found["compiled, multiply and sum"] = torch.compile(eager_sum)
    return found


def time_scores(
    inputs: tuple[Tensor, Tensor, Tensor], terms: int, scores: dict[str, Callable[..., Tensor]]
) -> None:
    query, key, weight = inputs
    if terms <= 2**28:
        truth = eager_linear(query.double(), key.double(), weight.double())
        error = (triton.additive_scores(*inputs) - truth).abs().max().item()
        print(f"  largest error of a score {error:.2e}")
    with torch.no_grad():
        prepared = triton.prepare_keys(key)

        def run() -> Tensor:
            return triton.additive_scores(query, prepared, weight)

        report("scores, triton, prepared keys", terms, run)
        triton_additive.MERGED = False
        report("scores, triton, one by one", terms, run)
        triton_additive.MERGED = True
        for name, score in scores.items():
            report(f"scores, {name}", terms, partial(score, *inputs))
    for name, score in scores.items():
        report_both_ways(f"both ways, {name}", terms, score, inputs)


def context(query: Tensor, key: Tensor, weight: Tensor, value: Tensor) -> Tensor:
    mask = torch.ones((), dtype=torch.bool, device=DEVICE)
    return triton.additive_attention(query, key, weight, value, mask)


def global_attention(compiled: bool) -> None:
    scores = scorers(compiled)
    for batch, queries, keys, size in SHAPES:
        terms = batch * queries * keys * size
        print(f"\n[B, T, S, n] = {[batch, queries, keys, size]}")
        inputs = rows(batch, queries, size), rows(batch, keys, size), rows(size)
        time_scores(inputs, terms, scores)
        attended = (*inputs, rows(batch, keys, size))
        with torch.no_grad():
            report("attention, flash", terms, partial(context, *attended))
        report_both_ways("attention, flash, both ways", terms, context, attended)


def local_scores(centres: Tensor, query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    return triton.local_scores(query, key, centres, HALF_WIDTH, weight)


def local_attention() -> None:
    size = 512
    for length in LENGTHS:
        inputs = rows(1, length, size), rows(1, length, size), rows(size)
        terms = length * (2 * HALF_WIDTH + 1) * size
        for kind, centres in {
            "local-m": torch.arange(length, device=DEVICE).unsqueeze(0),
            "random centres": torch.randint(0, length, (1, length), device=DEVICE),
        }.items():
            print(f"\nlocal, S = T = {length}, D = {HALF_WIDTH}, n = {size}, {kind}")
            score = partial(local_scores, centres)
            with torch.no_grad():
                report("scores", terms, partial(score, *inputs))
            report_both_ways("both ways", terms, score, inputs)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="run the slow checks too")
    parser.add_argument("--compiled", action="store_true", help="time torch.compile too")
    parser.add_argument("--checks-only", action="store_true")
    arguments = parser.parse_args()
    print(torch.cuda.get_device_name(), "torch", torch.__version__, "CUDA", torch.version.cuda)
    triton_checks.device = DEVICE
    named = list(triton_checks.checks())
    if arguments.slow:
        named += triton_checks.slow_checks()
    failed = 0
    for name, check in named:
        error = triton_checks.outcome(check)
        failed += error is not None
        if error:
            print(f"FAILED {name}: {error}", flush=True)
    print(f"{len(named) - failed} of {len(named)} checks held")
    if not arguments.checks_only:
        global_attention(arguments.compiled)
        local_attention()
    return failed != 0


if __name__ == "__main__":
    sys.exit(main())
