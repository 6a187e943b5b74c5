"""The fused output loss against the plain form: time, memory and error, by size of the vocabulary.

Each row is a forked process of its own, so that its peak memory is its own; the plain form is a
linear layer with torch's cross-entropy, and runs right before the fused one.

    python benchmarks/output_loss.py [--threads 2] [--tokens 1000] [--rows ...] [--calls 7]

Growth is the peak of resident memory over the state before the first call, gradients counted: those
of the weights alone take V x H x 4 bytes (column "floor"). Error is that of the gradient of the
weights against float64, over its largest element, on the first 64 tokens.
"""

from __future__ import annotations

import argparse
import multiprocessing
import resource
import statistics
import time
from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional

from luong.training.loss import output_loss

SMOOTHING = 0.1


def plain(states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, _: int | None) -> Tensor:
    logits = functional.linear(states, weight, bias)
    return functional.cross_entropy(logits, targets, label_smoothing=SMOOTHING)


def fused(
    states: Tensor, weight: Tensor, bias: Tensor, targets: Tensor, rows: int | None
) -> Tensor:
    return output_loss(
        states, weight, bias, targets, smoothing=SMOOTHING, divisor=len(targets), rows=rows
    ).smoothed


def inputs(tokens: int, vocabulary: int, hidden: int) -> tuple[Tensor, ...]:
    torch.manual_seed(1)
    states = torch.randn(tokens, hidden).requires_grad_()
    weight = torch.empty(vocabulary, hidden).uniform_(-0.1, 0.1).requires_grad_()
    bias = torch.zeros(vocabulary, requires_grad=True)
    return states, weight, bias, torch.randint(vocabulary, (tokens,))


def error(form: Callable[..., Tensor], vocabulary: int, hidden: int, rows: int | None) -> float:
    """Largest error of the weights' gradient against float64, over its largest element."""
    single = inputs(64, vocabulary, hidden)
    double = [x.detach().double().requires_grad_() for x in single[:3]]
    plain(*double, single[3], None).backward()
    form(*single, rows).backward()
    difference = (single[1].grad.double() - double[1].grad).abs().max()
    return (difference / double[1].grad.abs().max()).item()


def row(
    form: Callable[..., Tensor],
    rows: int | None,
    tokens: int,
    vocabulary: int,
    hidden: int,
    options: argparse.Namespace,
) -> None:
    torch.set_num_threads(options.threads)
    tensors = inputs(tokens, vocabulary, hidden)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    times = []
    for _ in range(options.calls + 1):
        for tensor in tensors[:3]:
            tensor.grad = None
        start = time.perf_counter()
        form(*tensors, rows).backward()
        times.append(1e3 * (time.perf_counter() - start))
    growth = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024
    times = times[1:]
    floor = vocabulary * hidden * 4 / 2**20
    print(
        f"{vocabulary:>8,} {hidden:>4} {tokens:>6} {form.__name__:>6} {rows or '-':>5}"
        f" {statistics.median(times):>8.1f} [{min(times):.1f}, {max(times):.1f}] ms"
        f" {growth:>7.0f} MiB (floor {floor:.0f}) {error(form, vocabulary, hidden, rows):.1e}",
        flush=True,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--tokens", type=int, nargs="+", default=[1000])
    parser.add_argument("--vocabulary", type=int, nargs="+", default=[5000, 8000, 50_000, 200_000])
    parser.add_argument("--hidden", type=int, nargs="+", default=[320, 512])
    parser.add_argument("--rows", type=int, nargs="*", default=[], help="chunks to try, too")
    parser.add_argument("--calls", type=int, default=7)
    options = parser.parse_args()
    # The parent computes nothing, so its children may be forked with all libraries loaded.
    fork = multiprocessing.get_context("fork")
    forms = [(plain, None), (fused, None), *((fused, rows) for rows in options.rows)]
    print("vocabulary hidden tokens form rows, median [least, most], growth, error", flush=True)
    for vocabulary in options.vocabulary:
        for hidden in options.hidden:
            for tokens in options.tokens:
                for form, rows in forms:
                    arguments = (form, rows, tokens, vocabulary, hidden, options)
                    child = fork.Process(target=row, args=arguments)
                    child.start()
                    child.join()


if __name__ == "__main__":
    main()
