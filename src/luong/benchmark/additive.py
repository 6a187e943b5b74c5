"""Additive scores: the kernels beside the spellings that people write."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from luong import kernels
from luong.benchmark.problem import BACKWARD, Problem, Results, relative_error, results_of
from luong.benchmark.process import free_bytes
from luong.kernels import reference

Shape = tuple[int, int, int, int]

SHAPES: tuple[Shape, ...] = (
    (64, 1, 50, 512),
    (64, 25, 25, 512),
    (64, 50, 50, 512),
    (128, 10, 128, 1024),
    (16, 100, 100, 512),
    (16, 100, 800, 512),
    (1, 2048, 2048, 256),
)
QUICK_SHAPES: tuple[Shape, ...] = ((4, 1, 9, 64), (4, 9, 11, 64))

LUONG = "luong"
LINEAR = "Linear"
SUM = "multiply-sum"
COMPILED_LINEAR = "compile Linear"
COMPILED_SUM = "compile sum"
CHECKPOINT = "checkpoint"
EAGER = (LINEAR, SUM, CHECKPOINT)
SPELLINGS: tuple[str, ...] = (LUONG, LINEAR, SUM, COMPILED_LINEAR, COMPILED_SUM, CHECKPOINT)

# Multiply-adds of a term: one before and one after the reciprocal; the backward does the first
# again, r - r r, and adds to the gradients of query, key and weight.
MULTIPLY_ADDS = {"forward": 2, "fwd+bwd": 7}

_ROWS = 8
_COLUMNS = 8


def linear_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """Eager, ending in a linear layer of one output."""
    hidden = torch.tanh(query.unsqueeze(2) + key.unsqueeze(1))
    return functional.linear(hidden, weight.unsqueeze(0)).squeeze(-1)


def sum_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """Eager, ending in a product and a sum."""
    return (weight * torch.tanh(query.unsqueeze(2) + key.unsqueeze(1))).sum(-1)


def checkpointed_scores(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
    """Eager, computed again in the backward."""
    result: Tensor = checkpoint(linear_scores, query, key, weight, use_reentrant=False)
    return result


def problem(shape: Shape, direction: str, names: tuple[str, ...] = SPELLINGS) -> Problem:
    """Additive scores (B, T, S) of random queries, keys and weight vector.

    Args:
        shape: (B, T, S, n). With T = 1 the keys are prepared beforehand, as for one decoding step.
        direction: One of DIRECTIONS.
        names: Of SPELLINGS; a checkpoint changes nothing without a backward and is left out.
    """
    batch, steps, source, size = shape
    torch.manual_seed(1)
    query, key = torch.randn(batch, steps, size), torch.randn(batch, source, size)
    weight = torch.randn(size) / math.sqrt(size)
    incoming = torch.randn(batch, steps, source) if direction == BACKWARD else None
    inputs = (query, key, weight)
    for tensor in inputs:
        tensor.requires_grad_(incoming is not None)
    prepared = kernels.prepare_keys(key) if steps == 1 and LUONG in names else None

    def ours(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        return kernels.additive_scores(query, prepared or key, weight)

    functions: dict[str, Callable[..., Tensor]] = {
        LUONG: ours,
        LINEAR: linear_scores,
        SUM: sum_scores,
        CHECKPOINT: checkpointed_scores,
    }
    for name, function in ((COMPILED_LINEAR, linear_scores), (COMPILED_SUM, sum_scores)):
        if name in names:
            # Imports the compiler, which takes seconds.
            functions[name] = torch.compile(function, dynamic=False)
    calls: dict[str, Callable[[], Results]] = {
        name: partial(results_of, functions[name], inputs, incoming)
        for name in names
        if name != CHECKPOINT or incoming is not None
    }
    check = Check(*inputs, incoming)

    def needs(name: str) -> str | None:
        # Sum and tanh, and their gradients; compiled code may keep less, never more.
        needed = 4 * 4.0 * math.prod(shape) if name != LUONG else 0.0
        if needed < free_bytes():
            return None
        return f"may need {needed / 2**30:.0f} GiB, and {free_bytes() / 2**30:.0f} are free"

    return Problem(calls, lambda _, results: check.error(results), needs, EAGER)


class Check:
    """The truth in float64, on a sample of what a gradient depends on whole.

    Scores and the gradient of the query on some rows of the first and the last batch entry, that
    of the key on some of its rows, that of the weight vector in some of its columns.
    """

    def __init__(self, query: Tensor, key: Tensor, weight: Tensor, incoming: Tensor | None) -> None:
        query, key, weight = (tensor.detach().double() for tensor in (query, key, weight))
        batch, steps, size = query.shape
        self.rows = _sample(steps, _ROWS)
        self.positions = _sample(key.shape[1], _ROWS)
        self.columns = _sample(size, _COLUMNS)
        self.entries = _sample(batch, 2)
        mine = query[self.entries][:, self.rows].requires_grad_()
        ours = key[self.entries]
        scores = reference.additive_scores(mine, ours, weight)
        self.expected: list[Tensor] = [scores.detach()]
        if incoming is None:
            return
        e = incoming.double()
        found = torch.autograd.grad(scores, mine, e[self.entries][:, self.rows])
        others = ours[:, self.positions].requires_grad_()
        scores = reference.additive_scores(query[self.entries], others, weight)
        found += torch.autograd.grad(scores, others, e[self.entries][:, :, self.positions])
        self.expected += found
        columns = [self._weight_gradient(query[..., c], key[..., c], e) for c in self.columns]
        self.expected.append(torch.stack(columns))

    @staticmethod
    def _weight_gradient(query: Tensor, key: Tensor, incoming: Tensor) -> Tensor:
        """Sum of e tanh(q + k) over all pairs, for one column."""
        hidden = torch.tanh(query.unsqueeze(-1) + key.unsqueeze(-2))
        return (incoming * hidden).sum()

    def error(self, results: Results) -> float:
        """The largest relative error of (scores) or (scores, and three gradients)."""
        sampled = [results[0][self.entries][:, self.rows]]
        if len(results) > 1:
            sampled += [
                results[1][self.entries][:, self.rows],
                results[2][self.entries][:, self.positions],
                results[3][self.columns],
            ]
        errors = [relative_error(*pair) for pair in zip(sampled, self.expected, strict=True)]
        return float(torch.tensor(errors).max())  # Unlike `max`, it lets no NaN go unseen.


def _sample(size: int, count: int) -> Tensor:
    """Up to `count` different indices, spread from the first to the last."""
    return torch.linspace(0, size - 1, min(size, count)).round().long()
