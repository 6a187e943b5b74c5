"""Local windows: the time of a query, however long the source."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from luong import kernels
from luong.benchmark.problem import BACKWARD, Problem, Results, relative_error, results_of
from luong.kernels import reference
from luong.kernels.reference import masked_softmax

LENGTHS = (1024, 8192, 65536, 262144)
QUICK_LENGTHS = (64, 256)
SCORES = ("dot", "additive")
MONOTONIC = "local-m"
RANDOM = "random"
SIZE = 256
HALF_WIDTH = 10

# Positions whose gradients are checked: all of a source that is not longer.
_CHECKED = 1024


def call_name(length: int, centres: str) -> str:
    """The name of a call: the length and where the bands lie."""
    return f"{length} {centres}"


def problem(
    score: str, direction: str, lengths: tuple[int, ...], centres: tuple[str, ...]
) -> Problem:
    """Local attention of S queries to S positions, for each S and each kind of centres.

    Keys are prepared beforehand, as the layer does once a source.

    Args:
        score: "dot" or "additive".
        direction: One of DIRECTIONS.
        lengths: Of the source, and of the target.
        centres: "local-m" (0, 1, 2, ...) or "random" (p_t uniform over the source).
    """
    problems = {
        call_name(length, kind): _Band(score, direction, length, kind)
        for length in lengths
        for kind in centres
    }
    calls = {name: band.results for name, band in problems.items()}
    return Problem(calls, lambda name, results: problems[name].error(results))


class _Band:
    """One source: its tensors, the call and its check."""

    def __init__(self, score: str, direction: str, length: int, kind: str) -> None:
        torch.manual_seed(1)
        self.query, self.key, self.value = (torch.randn(1, length, SIZE) / 4 for _ in range(3))
        self.weight = torch.randn(SIZE) / math.sqrt(SIZE) if score == "additive" else None
        self.centres = torch.arange(length).unsqueeze(0)
        if kind == RANDOM:
            self.centres = torch.rand(1, length).mul(length).long().clamp(max=length - 1)
        slots = self.centres.unsqueeze(-1) + torch.arange(-HALF_WIDTH, HALF_WIDTH + 1)
        self.inside = (slots >= 0) & (slots < length)
        self.incoming = torch.randn(1, length, SIZE) if direction == BACKWARD else None
        self.inputs: Results = (self.query, self.key, self.value)
        if self.weight is not None:
            self.inputs += (self.weight,)
        for tensor in self.inputs:
            tensor.requires_grad_(self.incoming is not None)
        self.prepared = kernels.prepare_keys(self.key) if score == "additive" else self.key

    def results(self) -> Results:
        """Context, and the gradients of query, key, value and weight vector."""
        return results_of(self._attend, self.inputs, self.incoming)

    def _attend(self, query: Tensor, key: Tensor, value: Tensor, *rest: Tensor) -> Tensor:
        scores = kernels.local_scores(query, self.prepared, self.centres, HALF_WIDTH, *rest)
        weights = masked_softmax(scores, self.inside)
        return kernels.local_context(weights, value, self.centres)

    def error(self, results: Results) -> float:
        """Against float64, for a stretch of the source and all queries whose bands touch it."""
        length = self.key.shape[1]
        first = max(0, (length - _CHECKED) // 2)
        last = min(length, first + _CHECKED)
        reach = (self.centres[0] >= first - HALF_WIDTH) & (self.centres[0] < last + HALF_WIDTH)
        rows = reach.nonzero().squeeze(-1)
        start, stop = max(0, first - 2 * HALF_WIDTH), min(length, last + 2 * HALF_WIDTH)
        tensors = (self.query[:, rows], self.key[:, start:stop], self.value[:, start:stop])
        leaves = [tensor.detach().double().requires_grad_() for tensor in tensors]
        rest = [] if self.weight is None else [self.weight.detach().double().requires_grad_()]
        centres = self.centres[:, rows] - start
        scores = reference.local_scores(leaves[0], leaves[1], centres, HALF_WIDTH, *rest)
        weights = masked_softmax(scores, self.inside[:, rows])
        context = reference.local_context(weights, leaves[2], centres)
        errors = [relative_error(results[0][:, rows], context.detach())]
        if self.incoming is not None:
            incoming = self.incoming[:, rows].double()
            dq, dk, dv, *dw = torch.autograd.grad(context, leaves + rest, incoming)
            inner = slice(first - start, last - start)
            errors += [
                relative_error(results[1][:, rows], dq),
                relative_error(results[2][:, first:last], dk[:, inner]),
                relative_error(results[3][:, first:last], dv[:, inner]),
            ]
            # All queries lie in the stretch, so their sum is known too.
            if dw and last - first == length:
                errors.append(relative_error(results[4], dw[0]))
        return float(torch.tensor(errors).max())
