"""Loops of local windows on the CPU: each query reads the 2D+1 rows around its centre.

`centres` holds the centre c of each query row; slot j of its band is source row c - D + j. Slots
outside the source are 0 and add nothing. Sums over queries, which end in the rows of the source,
are split by columns: a thread owns its columns of all rows, so no sum depends on how many threads
there are.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import compiled, exponential
from luong.kernels.cpu_additive import LIMIT, add_direct_gradients, add_gradients, scale

Floats = NDArray[np.float32]
Integers = NDArray[np.int64]

_ONE = np.float32(1.0)
_ZERO = np.float32(0.0)


@compiled
def band_dot(
    query: Floats,
    key: Floats,
    centres: Integers,
    steps: int,
    source: int,
    first: int,
    last: int,
    scores: Floats,
) -> None:
    """scores[t, j] = query[t] . key[c_t - D + j] for the rows [first, last)."""
    size = query.shape[1]
    width = scores.shape[1]
    for row in range(first, last):
        a = query[row]
        offset = row // steps * source
        left = centres[row] - width // 2
        for slot in range(width):
            position = left + slot
            sum_ = _ZERO
            if 0 <= position < source:
                b = key[offset + position]
                for c in range(size):
                    sum_ += a[c] * b[c]
            scores[row, slot] = sum_


@compiled
def band_sum(
    weights: Floats,
    value: Floats,
    centres: Integers,
    steps: int,
    source: int,
    first: int,
    last: int,
    context: Floats,
) -> None:
    """context[t] = sum_j weights[t, j] value[c_t - D + j] for the rows [first, last).

    A weight of exactly 0 takes no part, whatever stands in its value.
    """
    size = value.shape[1]
    width = weights.shape[1]
    for row in range(first, last):
        into = context[row]
        into[:] = _ZERO
        offset = row // steps * source
        left = centres[row] - width // 2
        for slot in range(max(0, -left), min(width, source - left)):
            w = weights[row, slot]
            if w == _ZERO:
                continue
            b = value[offset + left + slot]
            for c in range(size):
                into[c] += w * b[c]


@compiled
def band_spread(
    weights: Floats,
    rows: Floats,
    centres: Integers,
    steps: int,
    source: int,
    first: int,
    last: int,
    start: int,
    stop: int,
    spread: Floats,
) -> None:
    """spread[s] = sum of weights[t, j] rows[t] over all bands that hold s: `band_sum` transposed.

    For the batch entries [first, last) and the columns [start, stop).
    """
    width = weights.shape[1]
    for batch in range(first, last):
        offset = batch * source
        spread[offset : offset + source, start:stop] = _ZERO
        for row in range(batch * steps, (batch + 1) * steps):
            a = rows[row, start:stop]
            left = centres[row] - width // 2
            for slot in range(max(0, -left), min(width, source - left)):
                w = weights[row, slot]
                if w == _ZERO:
                    continue
                into = spread[offset + left + slot, start:stop]
                for c in range(stop - start):
                    into[c] += w * a[c]


@compiled
def band_score(
    query: Floats,
    query_powers: Floats,
    query_maxima: Floats,
    key: Floats,
    key_powers: Floats,
    key_maxima: Floats,
    weight: Floats,
    centres: Integers,
    steps: int,
    source: int,
    first: int,
    last: int,
    scores: Floats,
) -> None:
    """Additive scores of the rows [first, last); see `cpu_additive.score`."""
    size = query.shape[1]
    columns = weight.shape[0]
    width = scores.shape[1]
    total = 0.0
    for c in range(columns):
        total += weight[c]
    for row in range(first, last):
        powers = query_powers[row]
        left = centres[row] - width // 2
        for slot in range(width):
            position = left + slot
            if position < 0 or position >= source:
                scores[row, slot] = _ZERO
                continue
            other = row // steps * source + position
            sum_ = _ZERO
            if query_maxima[row] + key_maxima[other] <= LIMIT:
                others = key_powers[other]
                for c in range(columns):
                    sum_ += weight[c] / (_ONE + powers[c] * others[c])
            else:
                a = query[row]
                b = key[other]
                for c in range(size):
                    sum_ += weight[c] / (_ONE + exponential(a[c] + b[c]))
            scores[row, slot] = total - 2.0 * sum_


@compiled
def band_score_gradients(
    incoming: Floats,
    query: Floats,
    query_powers: Floats,
    query_maxima: Floats,
    key: Floats,
    key_powers: Floats,
    key_maxima: Floats,
    weight: Floats,
    centres: Integers,
    steps: int,
    source: int,
    first: int,
    last: int,
    start: int,
    stop: int,
    query_gradient: Floats,
    key_gradient: Floats,
    weight_gradient: NDArray[np.float64],
) -> None:
    """All gradients in the columns [start, stop) of the batch entries [first, last).

    See `cpu_additive.score_gradients`.
    """
    size = query.shape[1]
    slots = incoming.shape[1]
    width = stop - start
    real = min(stop, size) - start
    weight_part = np.empty(width, np.float32)
    factor = weight[start:stop]
    for batch in range(first, last):
        offset = batch * source
        key_gradient[offset : offset + source, start:stop] = _ZERO
        weight_gradient[batch, start:stop] = 0.0
        weight_sum = weight_gradient[batch, start:stop]
        for row in range(batch * steps, (batch + 1) * steps):
            part = query_gradient[row, start:stop]
            part[:] = _ZERO
            weight_part[:] = _ZERO
            mine = query_powers[row, start:stop]
            left = centres[row] - slots // 2
            for slot in range(max(0, -left), min(slots, source - left)):
                e = incoming[row, slot]
                if e == _ZERO:
                    continue
                other = offset + left + slot
                into = key_gradient[other, start:stop]
                if query_maxima[row] + key_maxima[other] <= LIMIT:
                    others = key_powers[other, start:stop]
                    add_gradients(mine, others, e, part, into, weight_part)
                else:
                    a = query[row, start : start + real]
                    b = key[other, start : start + real]
                    add_direct_gradients(a, b, e, part, into, weight_part)
            scale(part, factor)
            for c in range(width):
                weight_sum[c] += weight_part[c]
        for other in range(offset, offset + source):
            scale(key_gradient[other, start:stop], factor)
