"""Loops of the additive score on the CPU, over flat arrays of rows.

tanh(a + b) = 1 - 2 r with r = 1 / (1 + e^2a e^2b): the exponentials are taken once for each row,
and a term of a score costs two multiply-adds and a share of a division. It holds for pairs of
rows with max|a| + max|b| <= LIMIT, where all factors and their product are finite and normal; NaN
fails that test. All other pairs take e^(2(a + b)) term by term, and no pair knows of its
neighbours, so that a row at 1e4 leaves every other row as it was to the last bit.

With r, tanh' = 4 r (1 - r) = 1 - (1 - 2r)^2: the backward recomputes r and nothing large is kept.

Rows of exponentials are padded with zeros to a multiple of PAD columns: a zero adds nothing to a
score, and no loop has a remainder, which would run one column at a time.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import compiled, exponential, inlined, largest_magnitude
from luong.kernels.cpu_rows import add

Floats = NDArray[np.float32]

LIMIT = np.float32(43.0)
PAD = 64

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_FOUR = np.float32(4.0)
_ZERO = np.float32(0.0)
# Two divisions share one reciprocal of the product of their divisors, which must not overflow.
_CLAMP = np.float32(2.0**60)
# Columns times rows of a tile of keys that stays in the second-level cache.
_TILE = 32768
# Sums of gradients run over blocks of rows, then over blocks: long float32 sums would drift.
_BLOCK = 64


def padded(size: int) -> int:
    """Columns of a row of exponentials that stands for `size` columns."""
    return -(-size // PAD) * PAD


@inlined
def _raise(values: Floats, powers: Floats) -> None:
    for c in range(values.shape[0]):
        powers[c] = exponential(values[c])


@compiled
def exponentiate(rows: Floats, first: int, last: int, powers: Floats, maxima: Floats) -> None:
    """Rows [first, last): e^(2 row), padded, and max|row|, which is NaN where the row has NaN."""
    size = rows.shape[1]
    for row in range(first, last):
        _raise(rows[row], powers[row, :size])
        powers[row, size:] = _ZERO
        maxima[row] = largest_magnitude(rows[row])


@compiled
def score(
    query: Floats,
    query_powers: Floats,
    query_maxima: Floats,
    key: Floats,
    key_powers: Floats,
    key_maxima: Floats,
    weight: Floats,
    steps: int,
    first: int,
    last: int,
    scores: Floats,
) -> None:
    """Scores of the query rows [first, last) against all keys of their own batch entry.

    `weight` is padded; `steps` is T.
    """
    size = query.shape[1]
    columns = weight.shape[0]
    source = scores.shape[1]
    total = 0.0
    for c in range(columns):
        total += weight[c]
    half = columns // 2
    weight_low = weight[:half]
    weight_high = weight[half:]
    tile = max(8, _TILE // columns)
    for batch in range(first // steps, (last - 1) // steps + 1):
        top = max(first, batch * steps)
        bottom = min(last, batch * steps + steps)
        for left in range(0, source, tile):
            for row in range(top, bottom):
                low = query_powers[row, :half]
                high = query_powers[row, half:]
                for position in range(left, min(left + tile, source)):
                    other = batch * source + position
                    sum_ = _ZERO
                    if query_maxima[row] + key_maxima[other] <= LIMIT:
                        key_low = key_powers[other, :half]
                        key_high = key_powers[other, half:]
                        for c in range(half):
                            d0 = _ONE + low[c] * key_low[c]
                            d1 = _ONE + high[c] * key_high[c]
                            d0 = _CLAMP if d0 > _CLAMP else d0
                            d1 = _CLAMP if d1 > _CLAMP else d1
                            sum_ += (weight_low[c] * d1 + weight_high[c] * d0) / (d0 * d1)
                    else:
                        a = query[row]
                        b = key[other]
                        for c in range(size):
                            sum_ += weight[c] / (_ONE + exponential(a[c] + b[c]))
                    scores[row, position] = total - 2.0 * sum_


@compiled
def add_gradients(
    query_powers: Floats,
    key_powers: Floats,
    e: np.float32,
    query_part: Floats,
    key_part: Floats,
    weight_part: Floats,
) -> None:
    """Add what one pair gives to the gradients, from its exponentials; 4v is left to `scale`."""
    for c in range(query_powers.shape[0]):
        r = _ONE / (_ONE + query_powers[c] * key_powers[c])
        g = e * (r - r * r)
        query_part[c] += g
        key_part[c] += g
        weight_part[c] += e * (_ONE - _TWO * r)


@compiled
def add_direct_gradients(
    query: Floats,
    key: Floats,
    e: np.float32,
    query_part: Floats,
    key_part: Floats,
    weight_part: Floats,
) -> None:
    """The same from the rows themselves, where the exponentials do not serve."""
    for c in range(query.shape[0]):
        z = exponential(query[c] + key[c])
        r = _ONE / (_ONE + z)
        # r - r r, without the loss of digits where r is nearly 1.
        g = e * (z * r * r)
        query_part[c] += g
        key_part[c] += g
        weight_part[c] += e * (_ONE - _TWO * r)


@compiled
def scale(gradient: Floats, weight: Floats) -> None:
    """Multiply a sum of e r (1 - r) by 4v, which makes it a gradient."""
    for c in range(gradient.shape[0]):
        gradient[c] *= _FOUR * weight[c]


@compiled
def score_gradients(
    incoming: Floats,
    query: Floats,
    query_powers: Floats,
    query_maxima: Floats,
    key: Floats,
    key_powers: Floats,
    key_maxima: Floats,
    weight: Floats,
    steps: int,
    first: int,
    last: int,
    start: int,
    stop: int,
    query_gradient: Floats,
    key_gradient: Floats,
    weight_gradient: NDArray[np.float64],
) -> None:
    """All gradients in the columns [start, stop) of the batch entries [first, last).

    Gradients have the padded columns; that of the weight has a row for each batch entry. Pairs
    whose incoming gradient is 0 are skipped: what is masked takes no part, NaN included.
    """
    size = query.shape[1]
    source = incoming.shape[1]
    width = stop - start
    real = min(stop, size) - start
    even_part = np.empty(width, np.float32)
    odd_part = np.empty(width, np.float32)
    weight_part = np.empty(width, np.float32)
    blocked = steps > _BLOCK
    key_part = np.empty((min(_BLOCK, source) if blocked else 0, width), np.float32)
    factor = weight[start:stop]
    for batch in range(first, last):
        query_gradient[batch * steps : (batch + 1) * steps, start:stop] = _ZERO
        key_gradient[batch * source : (batch + 1) * source, start:stop] = _ZERO
        weight_gradient[batch, start:stop] = 0.0
        weight_sum = weight_gradient[batch, start:stop]
        for left in range(0, source, _BLOCK):
            right = min(left + _BLOCK, source)
            for top in range(0, steps, _BLOCK):
                bottom = min(top + _BLOCK, steps)
                key_part[:] = _ZERO
                # Two queries at a time: a key and its gradient are read once for both.
                for step in range(top, bottom, 2):
                    row = batch * steps + step
                    both = step + 1 < bottom
                    even_part[:] = _ZERO
                    odd_part[:] = _ZERO
                    weight_part[:] = _ZERO
                    even = query_powers[row, start:stop]
                    odd = query_powers[row + both, start:stop]
                    for position in range(left, right):
                        other = batch * source + position
                        into = key_gradient[other, start:stop]
                        if blocked:
                            into = key_part[position - left]
                        e = incoming[row, position]
                        f = incoming[row + 1, position] if both else _ZERO
                        even_fits = query_maxima[row] + key_maxima[other] <= LIMIT
                        odd_fits = query_maxima[row + both] + key_maxima[other] <= LIMIT
                        if e != _ZERO and f != _ZERO and even_fits and odd_fits:
                            powers = key_powers[other, start:stop]
                            for c in range(width):
                                r = _ONE / (_ONE + even[c] * powers[c])
                                q = _ONE / (_ONE + odd[c] * powers[c])
                                g = e * (r - r * r)
                                h = f * (q - q * q)
                                even_part[c] += g
                                odd_part[c] += h
                                into[c] += g + h
                                weight_part[c] += e * (_ONE - _TWO * r) + f * (_ONE - _TWO * q)
                            continue
                        if e != _ZERO and even_fits:
                            powers = key_powers[other, start:stop]
                            add_gradients(even, powers, e, even_part, into, weight_part)
                        elif e != _ZERO:
                            a = query[row, start : start + real]
                            b = key[other, start : start + real]
                            add_direct_gradients(a, b, e, even_part, into, weight_part)
                        if f != _ZERO and odd_fits:
                            powers = key_powers[other, start:stop]
                            add_gradients(odd, powers, f, odd_part, into, weight_part)
                        elif f != _ZERO:
                            a = query[row + 1, start : start + real]
                            b = key[other, start : start + real]
                            add_direct_gradients(a, b, f, odd_part, into, weight_part)
                    add(even_part, query_gradient[row, start:stop])
                    if both:
                        add(odd_part, query_gradient[row + 1, start:stop])
                    for c in range(width):
                        weight_sum[c] += weight_part[c]
                if blocked:
                    for position in range(left, right):
                        into = key_gradient[batch * source + position, start:stop]
                        add(key_part[position - left], into)
        for row in range(batch * steps, (batch + 1) * steps):
            scale(query_gradient[row, start:stop], factor)
        for other in range(batch * source, (batch + 1) * source):
            scale(key_gradient[other, start:stop], factor)
