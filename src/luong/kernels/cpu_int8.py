"""Loops around products with int8 matrices on the CPU: rows made whole numbers, and back.

Each is one pass over the rows; of torch's operations it takes six.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import floats, inlined, largest_magnitude, nearest, numbers
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

_FINITE = np.float32(3.4e38)
_LEVELS = np.float32(63.0)
_LEAST = np.float32(1e-30)  # the largest of a row of zeros
_ZERO = np.float32(0.0)


@inlined
def _divide(row: Floats, factor: np.float32, out: Floats | NDArray[np.int8]) -> None:
    for c in range(row.shape[0]):
        out[c] = nearest(row[c] * factor)


@inlined
def make_row_whole(row: Floats, out: Floats | NDArray[np.int8]) -> np.float32:
    """Write a row as whole numbers from -63 to 63, and give what to multiply them by."""
    largest = largest_magnitude(row)
    if largest <= _FINITE:
        largest = max(largest, _LEAST)
        _divide(row, _LEVELS / largest, out)
    else:
        out[:] = 0  # and 0 times a scale that is not finite is NaN
    return largest / _LEVELS


@Loop
def make_whole(first: int, last: int, call: int) -> None:
    """Rows [first, last) as whole numbers, and what to multiply them by.

    `inputs` is the address of (rows, size); so are, of the results, `out` (rows, size), in
    float32, and `scales` (rows).
    """
    inputs, rows, size, out, scales = numbers(call, 5)
    given, whole = floats(inputs, rows, size), floats(out, rows, size)
    factors = floats(scales, 1, rows)[0]
    for row in range(first, last):
        factors[row] = make_row_whole(given[row], whole[row])


@inlined
def _scale(row: Floats, scale: np.float32, start: Floats) -> None:
    for c in range(row.shape[0]):
        row[c] = start[c] + row[c] * scale


@Loop
def scale_back(first: int, last: int, call: int) -> None:
    """Multiply rows [first, last) by their scales, and add a start, in place.

    `products` is the address of (rows, outputs); so are `scales` (rows) and `start` (start_rows,
    outputs), a row for as many of the rows in turn, or none.
    """
    products, scales, start, rows, outputs, start_rows = numbers(call, 6)
    made, factors = floats(products, rows, outputs), floats(scales, 1, rows)[0]
    share = rows // max(1, start_rows)
    added = floats(start, start_rows, outputs)
    none = np.zeros(0 if start_rows else outputs, np.float32)
    for row in range(first, last):
        own = added[row // share] if start_rows else none
        _scale(made[row], factors[row], own)
