"""Loops of the LSTM's element-wise part on the CPU, over rows of gates.

A step of the LSTM is one matrix product and then, in plain torch, some ten passes over its
result, each with its own call, and twenty backward. Here it is one pass each way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import compiled, exponential, floats, halves, narrow, widen
from luong.kernels.cpu_rows import multiply

Floats = NDArray[np.float32]

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_MINUS_HALF = np.float32(-0.5)


@compiled
def _sigmoid(values: Floats, out: Floats) -> None:
    for c in range(values.shape[0]):
        out[c] = _ONE / (_ONE + exponential(values[c] * _MINUS_HALF))


@compiled
def _tanh(values: Floats, out: Floats) -> None:
    for c in range(values.shape[0]):
        out[c] = _ONE - _TWO / (_ONE + exponential(values[c]))


@compiled
def _combine(entry: Floats, forget: Floats, candidate: Floats, cell: Floats, out: Floats) -> None:
    for c in range(cell.shape[0]):
        out[c] = forget[c] * cell[c] + entry[c] * candidate[c]


@compiled
def _multiply(left: Floats, right: Floats, out: Floats) -> None:
    for c in range(left.shape[0]):
        out[c] = left[c] * right[c]


@compiled
def _update_row(
    gates: Floats,
    cell: Floats,
    activated: Floats,
    squashed: Floats,
    new_hidden: Floats,
    new_cell: Floats,
) -> None:
    size = cell.shape[0]
    a = activated
    _sigmoid(gates[: 2 * size], a[: 2 * size])
    _tanh(gates[2 * size : 3 * size], a[2 * size : 3 * size])
    _sigmoid(gates[3 * size :], a[3 * size :])
    _combine(a[:size], a[size : 2 * size], a[2 * size : 3 * size], cell, new_cell)
    _tanh(new_cell, squashed)
    _multiply(a[3 * size :], squashed, new_hidden)


@compiled
def update(
    gates: int,
    is_narrow: bool,
    cell: Floats,
    first: int,
    last: int,
    activated: Floats,
    squashed: Floats,
    new_hidden: Floats,
    new_cell: Floats,
) -> None:
    """Rows [first, last): the new hidden state and cell.

    `gates` is the address of (rows, 4H), of bfloat16 if `is_narrow`. What the backward wants is
    kept: the gates after their functions in `activated`, and tanh(new cell) in `squashed`.
    """
    size = activated.shape[1]
    wide_rows, narrow_rows = floats(gates, last, size), halves(gates, last, size)
    row_gates = np.empty(size, np.float32)
    for row in range(first, last):
        if is_narrow:
            widen(narrow_rows[row], row_gates)
        given = row_gates if is_narrow else wide_rows[row]
        _update_row(given, cell[row], activated[row], squashed[row], new_hidden[row], new_cell[row])


@compiled
def update_only(
    gates: int, cell: int, size: int, first: int, last: int, new_hidden: int, new_cell: int
) -> None:
    """The same where nothing need be kept.

    `gates` is the address of (rows, 4H); so are the others, of (rows, H).
    """
    activated, squashed = np.empty(4 * size, np.float32), np.empty(size, np.float32)
    given, before = floats(gates, last, 4 * size), floats(cell, last, size)
    hidden, after = floats(new_hidden, last, size), floats(new_cell, last, size)
    for row in range(first, last):
        _update_row(given[row], before[row], activated, squashed, hidden[row], after[row])


@compiled
def sequence(projected: int, weight: int, steps: int, rows: int, size: int, out: int) -> None:
    """The hidden states of all steps, from a state of zeros.

    `projected` is the address of (steps, rows, 4H), what the inputs give the gates; so are `weight`
    (4H, H) and the result `out` (steps, rows, H).
    """
    width = 4 * size
    given, hidden = floats(projected, steps * rows, width), floats(out, steps * rows, size)
    activated, squashed = np.empty(width, np.float32), np.empty(size, np.float32)
    gates = np.empty((rows, width), np.float32)
    before, after = np.zeros((rows, size), np.float32), np.empty((rows, size), np.float32)
    for step in range(steps):
        if step:
            last, start = out + 4 * (step - 1) * rows * size, projected + 4 * step * rows * width
            address = gates.ctypes.data
            multiply(last, weight, start, rows, size, width, rows, 0, width, address)
        for row in range(rows):
            place = step * rows + row
            own = gates[row] if step else given[place]
            _update_row(own, before[row], activated, squashed, hidden[place], after[row])
        before, after = after, before


@compiled
def _row_gradients(  # noqa: PLR0913 - a loop vectorises over plain rows only
    entry: Floats,
    forget: Floats,
    candidate: Floats,
    exit_: Floats,
    squashed: Floats,
    cell: Floats,
    to_hidden: Floats,
    to_cell: Floats,
    entry_gradient: Floats,
    forget_gradient: Floats,
    candidate_gradient: Floats,
    exit_gradient: Floats,
    cell_gradient: Floats,
) -> None:
    for c in range(cell.shape[0]):
        i = entry[c]
        f = forget[c]
        g = candidate[c]
        o = exit_[c]
        s = squashed[c]
        d = to_cell[c] + to_hidden[c] * o * (_ONE - s * s)
        entry_gradient[c] = d * g * i * (_ONE - i)
        forget_gradient[c] = d * cell[c] * f * (_ONE - f)
        candidate_gradient[c] = d * i * (_ONE - g * g)
        exit_gradient[c] = to_hidden[c] * s * o * (_ONE - o)
        cell_gradient[c] = d * f


@compiled
def gradients(
    activated: Floats,
    squashed: Floats,
    cell: Floats,
    to_hidden: Floats,
    to_cell: Floats,
    is_narrow: bool,
    first: int,
    last: int,
    gates_gradient: int,
    cell_gradient: Floats,
) -> None:
    """Rows [first, last): gradients for the gates and for the cell before the update.

    `gates_gradient` is an address as in `update`.
    """
    size, width = cell.shape[1], activated.shape[1]
    wide_rows, narrow_rows = (
        floats(gates_gradient, last, width),
        halves(gates_gradient, last, width),
    )
    row_gradient = np.empty(width, np.float32)
    for row in range(first, last):
        a = activated[row]
        out = row_gradient if is_narrow else wide_rows[row]
        _row_gradients(
            a[:size],
            a[size : 2 * size],
            a[2 * size : 3 * size],
            a[3 * size :],
            squashed[row],
            cell[row],
            to_hidden[row],
            to_cell[row],
            out[:size],
            out[size : 2 * size],
            out[2 * size : 3 * size],
            out[3 * size :],
            cell_gradient[row],
        )
        if is_narrow:
            narrow(row_gradient, narrow_rows[row])
