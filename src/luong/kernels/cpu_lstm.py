"""Loops of the LSTM's element-wise part on the CPU, over rows of gates.

A step of the LSTM is one matrix product and then, in plain torch, some ten passes over its
result, each with its own call, and twenty backward. Here it is one pass each way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import (
    exponential,
    floats,
    halves,
    inlined,
    integers,
    narrow,
    numbers,
    widen,
)
from luong.kernels.cpu_rows import multiply_rows
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

_ONE = np.float32(1.0)
_TWO = np.float32(2.0)
_MINUS_HALF = np.float32(-0.5)


@inlined
def _sigmoid(values: Floats, out: Floats) -> None:
    for c in range(values.shape[0]):
        out[c] = _ONE / (_ONE + exponential(values[c] * _MINUS_HALF))


@inlined
def _tanh(values: Floats, out: Floats) -> None:
    for c in range(values.shape[0]):
        out[c] = _ONE - _TWO / (_ONE + exponential(values[c]))


@inlined
def _combine(entry: Floats, forget: Floats, candidate: Floats, cell: Floats, out: Floats) -> None:
    for c in range(cell.shape[0]):
        out[c] = forget[c] * cell[c] + entry[c] * candidate[c]


@inlined
def _multiply(left: Floats, right: Floats, out: Floats) -> None:
    for c in range(left.shape[0]):
        out[c] = left[c] * right[c]


@inlined
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


@Loop
def update(first: int, last: int, call: int) -> None:
    """Rows [first, last): the new hidden state and cell.

    `gates` is the address of (rows, 4H), of bfloat16 if `is_narrow`; so are the others, of
    (rows, H). What the backward wants is kept: the gates after their functions in `activated`
    (rows, 4H), and tanh(new cell) in `squashed`.
    """
    gates, is_narrow, cell, size, activated, squashed, new_hidden, new_cell = numbers(call, 8)
    wide_rows, narrow_rows = floats(gates, last, 4 * size), halves(gates, last, 4 * size)
    before, after = floats(cell, last, size), floats(new_cell, last, size)
    acts, squashes = floats(activated, last, 4 * size), floats(squashed, last, size)
    hidden, row_gates = floats(new_hidden, last, size), np.empty(4 * size, np.float32)
    for row in range(first, last):
        if is_narrow:
            widen(narrow_rows[row], row_gates)
        given = row_gates if is_narrow else wide_rows[row]
        _update_row(given, before[row], acts[row], squashes[row], hidden[row], after[row])


@Loop
def update_only(first: int, last: int, call: int) -> None:
    """The same where nothing need be kept.

    `gates` is the address of (rows, 4H); so are the others, of (rows, H).
    """
    gates, cell, size, new_hidden, new_cell = numbers(call, 5)
    activated, squashed = np.empty(4 * size, np.float32), np.empty(size, np.float32)
    given, before = floats(gates, last, 4 * size), floats(cell, last, size)
    hidden, after = floats(new_hidden, last, size), floats(new_cell, last, size)
    for row in range(first, last):
        _update_row(given[row], before[row], activated, squashed, hidden[row], after[row])


@inlined
def _sequence(projected: int, weight: int, steps: int, rows: int, size: int, out: int) -> None:
    width = 4 * size
    given, hidden = floats(projected, steps * rows, width), floats(out, steps * rows, size)
    activated, squashed = np.empty(width, np.float32), np.empty(size, np.float32)
    gates = np.empty((rows, width), np.float32)
    before, after = np.zeros((rows, size), np.float32), np.empty((rows, size), np.float32)
    for step in range(steps):
        if step:
            last, start = out + 4 * (step - 1) * rows * size, projected + 4 * step * rows * width
            address = gates.ctypes.data
            multiply_rows(last, weight, start, rows, size, width, rows, 0, width, address)
        for row in range(rows):
            place = step * rows + row
            own = gates[row] if step else given[place]
            _update_row(own, before[row], activated, squashed, hidden[place], after[row])
        before, after = after, before


@Loop
def sequences(first: int, last: int, call: int) -> None:
    """The hidden states of all steps of the sequences [first, last), from states of zeros.

    `places` is the address of three addresses of each: of `projected` (steps, rows, 4H), what the
    inputs give the gates, of the weight (4H, H), and of the result (steps, rows, H).
    """
    places, steps, rows, size = numbers(call, 4)
    addresses = integers(places, last, 3)
    for number in range(first, last):
        projected, weight, out = addresses[number]
        _sequence(projected, weight, steps, rows, size, out)


@inlined
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


@Loop
def gradients(first: int, last: int, call: int) -> None:
    """Rows [first, last): gradients for the gates and for the cell before the update.

    Addresses as in `update`, whose gates are of the type of `gates_gradient`.
    """
    (
        activated, squashed, cell, to_hidden, to_cell, is_narrow, size,
        gates_gradient, cell_gradient,
    ) = numbers(call, 9)  # fmt: skip
    wide_rows = floats(gates_gradient, last, 4 * size)
    narrow_rows = halves(gates_gradient, last, 4 * size)
    acts, squashes = floats(activated, last, 4 * size), floats(squashed, last, size)
    before, to_before = floats(cell, last, size), floats(cell_gradient, last, size)
    to_hiddens, to_cells = floats(to_hidden, last, size), floats(to_cell, last, size)
    row_gradient = np.empty(4 * size, np.float32)
    for row in range(first, last):
        a = acts[row]
        out = row_gradient if is_narrow else wide_rows[row]
        _row_gradients(
            a[:size],
            a[size : 2 * size],
            a[2 * size : 3 * size],
            a[3 * size :],
            squashes[row],
            before[row],
            to_hiddens[row],
            to_cells[row],
            out[:size],
            out[size : 2 * size],
            out[2 * size : 3 * size],
            out[3 * size :],
            to_before[row],
        )
        if is_narrow:
            narrow(row_gradient, narrow_rows[row])
