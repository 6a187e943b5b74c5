"""The loop that makes weights and context of the scores of a few queries on the CPU."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import exponential, flags, floats, inlined, numbers
from luong.kernels.team import Loop

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)
_LEAST = np.float32(-np.inf)
# Below it our exponential stays where it is, and what is left is less than 1e-37.
_NOTHING = np.float32(-86.0)


@inlined
def _exponentiate(scores: Floats, allowed: Bools, top: np.float32, out: Floats) -> np.float32:
    total = _ZERO
    for s in range(scores.shape[0]):
        difference = scores[s] - top
        power = exponential(difference * _HALF)
        out[s] = _ZERO if not allowed[s] or difference < _NOTHING else power
        total += out[s]
    return total


@inlined
def add_multiple(weight: np.float32, value: Floats, out: Floats) -> None:
    """Add weight * value to a row."""
    for c in range(value.shape[0]):
        out[c] += weight * value[c]


@inlined
def attend_row(
    scores: Floats, allowed: Bools, value: Floats, weights: Floats, context: Floats
) -> None:
    """Weights (S) and context (v) of the scores (S) of one query."""
    top = _LEAST
    for s in range(scores.shape[0]):
        # A NaN is never greater; it comes out by its own exponential.
        if allowed[s] and scores[s] > top:
            top = scores[s]
    total = _exponentiate(scores, allowed, top, weights)
    context[:] = _ZERO
    for s in range(scores.shape[0]):
        if allowed[s]:
            weights[s] /= total
            add_multiple(weights[s], value[s], context)


@Loop
def attend(first: int, last: int, call: int) -> None:
    """Weights and context of the query rows [first, last), `steps` of them for each source.

    `scores` is the address of (B, T, S); so are `value` (B, S, v), the mask (B, T or 1, S), and of
    the results `weights` (B, T, S) and `context` (B, T, v).
    """
    scores, value, mask, steps, source, size, mask_steps, weights, context = numbers(call, 9)
    batch = -(-last // steps)
    given, made = floats(scores, last, source), floats(weights, last, source)
    values, contexts = floats(value, batch * source, size), floats(context, last, size)
    allowed = flags(mask, batch * mask_steps, source)
    for row in range(first, last):
        sentence, step = divmod(row, steps)
        seen = allowed[sentence * mask_steps + min(step, mask_steps - 1)]
        own = values[sentence * source : (sentence + 1) * source]
        attend_row(given[row], seen, own, made[row], contexts[row])
