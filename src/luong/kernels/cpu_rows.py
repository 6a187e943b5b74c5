"""Products of a few rows with a matrix on the CPU, in loops that read the matrix once.

What takes the time of such a product is bringing the matrix from memory; the libraries are made
for many rows, and of few they are held up by other things.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import floats, inlined, numbers
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

_ZERO = np.float32(0.0)


@inlined
def dot(weight: Floats, a: Floats) -> np.float32:
    """The dot product of two rows."""
    total = _ZERO
    for c in range(weight.shape[0]):
        total += weight[c] * a[c]
    return total


@inlined
def _four(
    weight: Floats, a: Floats, b: Floats, c: Floats, d: Floats
) -> tuple[np.float32, np.float32, np.float32, np.float32]:
    first, second, third, fourth = _ZERO, _ZERO, _ZERO, _ZERO
    for i in range(weight.shape[0]):
        w = weight[i]
        first += w * a[i]
        second += w * b[i]
        third += w * c[i]
        fourth += w * d[i]
    return first, second, third, fourth


@inlined
def add(values: Floats, out: Floats) -> None:
    """Add values to a row."""
    for c in range(out.shape[0]):
        out[c] += values[c]


@inlined
def multiply_rows(
    inputs: int,
    weight: int,
    start: int,
    rows: int,
    size: int,
    outputs: int,
    start_rows: int,
    first: int,
    last: int,
    out: int,
) -> None:
    """Outputs [first, last) of inputs W^T plus a start.

    `inputs` is the address of (rows, size); so are `weight` (outputs, size), `out` (rows, outputs),
    and `start` (start_rows, outputs), a row for as many of the rows in turn, or none.
    """
    x, w = floats(inputs, rows, size), floats(weight, outputs, size)
    added, y = floats(start, start_rows, outputs), floats(out, rows, outputs)
    fours = rows - rows % 4
    for output in range(first, last):
        for row in range(0, fours, 4):
            (y[row, output], y[row + 1, output], y[row + 2, output], y[row + 3, output]) = _four(
                w[output], x[row], x[row + 1], x[row + 2], x[row + 3]
            )
        for row in range(fours, rows):
            y[row, output] = dot(w[output], x[row])
    for row in range(rows if start_rows else 0):
        add(added[row // (rows // start_rows), first:last], y[row, first:last])


@Loop
def multiply(first: int, last: int, call: int) -> None:
    """`multiply_rows` of the outputs [first, last)."""
    inputs, weight, start, rows, size, outputs, start_rows, out = numbers(call, 8)
    multiply_rows(inputs, weight, start, rows, size, outputs, start_rows, first, last, out)
