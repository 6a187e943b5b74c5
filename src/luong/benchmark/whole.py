"""Whole attention: additive beside dot products, with weights."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor

from luong import kernels
from luong.attention import masks
from luong.benchmark.additive import Shape
from luong.benchmark.problem import BACKWARD, Problem, Results, relative_error, results_of
from luong.kernels import reference
from luong.kernels.reference import masked_softmax

SHAPES: tuple[Shape, ...] = ((64, 25, 25, 512), (64, 50, 50, 512), (16, 100, 100, 512))
QUICK_SHAPES: tuple[Shape, ...] = ((4, 9, 11, 64),)

ADDITIVE = "additive"
DOT = "dot"


def problem(shape: Shape, direction: str) -> Problem:
    """Scores of projected keys, masked softmax with weights, and context, by either score.

    Args:
        shape: (B, T, S, n); values are of size n. Sources are S to S/2 positions long.
        direction: One of DIRECTIONS.
    """
    batch, steps, source, size = shape
    torch.manual_seed(1)
    query = torch.randn(batch, steps, size) / math.sqrt(size) ** 0.5
    key = torch.randn(batch, source, size) / math.sqrt(size) ** 0.5
    value = torch.randn(batch, source, size)
    weight = torch.randn(size) / math.sqrt(size)
    mask = masks.from_lengths(torch.linspace(source, source // 2, batch).long(), source)
    mask = mask.unsqueeze(1)
    incoming = torch.randn(batch, steps, size) if direction == BACKWARD else None

    def attend(
        scores: Callable[..., Tensor], query: Tensor, key: Tensor, value: Tensor, *rest: Tensor
    ) -> Tensor:
        weights = masked_softmax(scores(query, key, *rest), mask)
        return kernels.global_context(weights, value)

    inputs = {ADDITIVE: (query, key, value, weight), DOT: (query, key, value)}
    for tensor in inputs[ADDITIVE]:
        tensor.requires_grad_(incoming is not None)

    def call(name: str) -> Results:
        scores = kernels.additive_scores if name == ADDITIVE else kernels.dot_scores
        return results_of(partial(attend, scores), inputs[name], incoming)

    def error(name: str, results: Results) -> float:
        scores = reference.additive_scores if name == ADDITIVE else reference.dot_scores
        expected = _expected(scores, inputs[name], mask, incoming)
        errors = [relative_error(*pair) for pair in zip(results, expected, strict=True)]
        return float(torch.tensor(errors).max())

    return Problem({name: partial(call, name) for name in inputs}, error)


def _expected(
    scores: Callable[..., Tensor], inputs: Results, mask: Tensor, incoming: Tensor | None
) -> list[Tensor]:
    """The same whole in float64, a batch entry at a time, for the pairs take much memory."""
    parts: list[Results] = []
    for entry in range(mask.shape[0]):
        leaves = [tensor.detach()[entry].double().requires_grad_() for tensor in inputs[:3]]
        leaves += [tensor.detach().double().requires_grad_() for tensor in inputs[3:]]
        query, key, value, *rest = leaves
        found = scores(query, key, *rest).masked_fill(~mask[entry], -torch.inf)
        context = torch.softmax(found, -1) @ value
        gradients: Results = ()
        if incoming is not None:
            gradients = torch.autograd.grad(context, leaves, incoming[entry].double())
        parts.append((context.detach(), *gradients))
    columns = [torch.stack(column) for column in zip(*parts, strict=True)]
    # The weight vector is one for all entries.
    return columns[:4] + [column.sum(0) for column in columns[4:]]
