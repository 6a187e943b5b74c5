"""Loops of softmax and cross-entropy on the CPU, over rows of logits in float32 or bfloat16.

Plain torch makes some ten passes over the logits of a training step, in float32, however they
came. Here it is one for the sums and one that puts the gradient in place of the logits; bfloat16
is widened a row at a time.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import (
    exponential,
    floats,
    halves,
    inlined,
    integers,
    largest,
    narrow,
    number,
    numbers,
    wide,
    widen,
)
from luong.kernels.team import Loop

Floats = NDArray[np.float32]
Halves = NDArray[np.uint16]

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
# Below it our exponential stays where it is, and what is left is less than 1e-37.
_NOTHING = np.float32(-86.0)


@inlined
def _total(values: Floats, top: np.float32) -> np.float32:
    """The sum of e^(value - top)."""
    powers = _ZERO
    for c in range(values.shape[0]):
        powers += exponential((values[c] - top) * _HALF)
    return powers


@inlined
def _gradient(values: Floats, log_sum: np.float32, factor: np.float32, uniform: np.float32) -> None:
    for c in range(values.shape[0]):
        difference = values[c] - log_sum
        power = exponential(difference * _HALF)
        values[c] = factor * (_ZERO if difference < _NOTHING else power) - uniform


@inlined
def _sums(row: Floats, target: int, out: Floats) -> None:
    top = largest(row)
    out[0] = top + np.float32(math.log(_total(row, top)))
    out[1] = row[target]


@Loop
def sums(first: int, last: int, call: int) -> None:
    """Rows [first, last): log of the sum of exponentials, and the target's logit.

    `logits` is the address of (rows, V), of bfloat16 if `is_narrow`; so is `targets` of (rows), and
    `out` of (rows, 2).
    """
    logits, is_narrow, targets, size, out = numbers(call, 5)
    aims, results = integers(targets, last, 1), floats(out, last, 2)
    if is_narrow:
        given, row = halves(logits, last, size), np.empty(size, np.float32)
        for r in range(first, last):
            widen(given[r], row)
            _sums(row, aims[r, 0], results[r])
    else:
        rows = floats(logits, last, size)
        for r in range(first, last):
            _sums(rows[r], aims[r, 0], results[r])


@Loop
def gradients(first: int, last: int, call: int) -> None:
    """Rows [first, last): factor * softmax - uniform, and `towards` at the target, in place.

    Addresses as in `sums`; log-sums, factors and `towards` are (rows).
    """
    logits, is_narrow, targets, log_sums, factors, towards, uniform, size = numbers(call, 8)
    aims, rests = integers(targets, last, 1), number(uniform)
    sums_, scales = floats(log_sums, last, 1), floats(factors, last, 1)
    steps = floats(towards, last, 1)
    if is_narrow:
        given, row = halves(logits, last, size), np.empty(size, np.float32)
        for r in range(first, last):
            widen(given[r], row)
            _gradient(row, sums_[r, 0], scales[r, 0], rests)
            row[aims[r, 0]] += steps[r, 0]
            narrow(row, given[r])
    else:
        rows = floats(logits, last, size)
        for r in range(first, last):
            _gradient(rows[r], sums_[r, 0], scales[r, 0], rests)
            rows[r, aims[r, 0]] += steps[r, 0]


@inlined
def _add(values: Halves, out: Floats) -> None:
    for c in range(values.shape[0]):
        out[c] += wide(values[c])


@Loop
def accumulate(first: int, last: int, call: int) -> None:
    """Values (rows, size) in bfloat16 added to float32 ones, rows [first, last)."""
    values, size, out = numbers(call, 3)
    given, totals = halves(values, last, size), floats(out, last, size)
    for r in range(first, last):
        _add(given[r], totals[r])
