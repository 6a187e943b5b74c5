"""Products with int8 matrices on CPUs with VNNI, whose instruction adds four products at once.

It multiplies whole numbers from 0 to 255 with such from -128 to 127. The matrix is kept with 128
added to each number, and what that adds to a product, 128 times the sum of the row's numbers, is
taken off again. Sums are exact in 32 bits.

The matrix lies in panels of so many of its rows, each of which stays in the cache while the inputs
pass over it, six at a time: as many sums as there are registers.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from llvmlite import binding, ir
from numba import config as _config
from numba.core import cgutils as _cgutils
from numba.core import types
from numba.extending import intrinsic
from numpy.typing import NDArray
from torch import Tensor

from luong.kernels.compiled import floats, inlined, numbers, octets, words
from luong.kernels.cpu_int8 import make_row_whole
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

# They have no types.
config: Any = _config
cgutils: Any = _cgutils

GROUP = 4
"""Products that the instruction adds."""

_LANES = 16
_VECTORS = 4
PANEL = _VECTORS * _LANES
"""Rows of a matrix that lie together."""

_VECTOR_BYTES = GROUP * _LANES
_TILE = 6  # rows of inputs
_OFFSET = np.int32(128)
_INSTRUCTION, _PREFETCH = "llvm.x86.avx512.vpdpbusd.512", "llvm.prefetch.p0i8"


def serves() -> bool:
    """Whether this CPU has the instruction, and the loops are compiled for this CPU."""
    # Who names a CPU to numba may want machine code for another one.
    named = config.CPU_NAME or config.CPU_FEATURES
    return not named and bool(binding.get_host_cpu_features().get("avx512vnni"))


def lay_out(values: Tensor) -> Tensor:
    """A matrix as `multiply` reads it.

    Args:
        values: int8 (outputs, inputs).

    Returns:
        (panels, groups, PANEL) int32, each the four bytes of a group; what fills up the last panel
        and the last group counts as 0.
    """
    outputs, size = values.shape
    panels, groups = -(-outputs // PANEL), -(-size // GROUP)
    filled = values.new_zeros(panels * PANEL, groups * GROUP)
    filled[:outputs, :size] = values
    lifted = filled.view(torch.uint8) ^ int(_OFFSET)
    return lifted.view(torch.int32).view(panels, PANEL, groups).transpose(1, 2).contiguous()


def _tile(rows: int) -> Any:
    """The sums of so many rows of inputs with a panel: addresses of bytes in, of int32 out.

    What is then made of the sums goes to rows that begin at `target`, so many bytes apart.
    """

    def typed(
        _: Any, inputs: Any, panel: Any, groups: Any, out: Any, target: Any, stride: Any
    ) -> Any:
        return types.void(inputs, panel, groups, out, target, stride), build

    def build(context: Any, builder: Any, _: Any, arguments: Any) -> Any:
        inputs, panel, groups, out, target, stride = arguments
        word, index = ir.IntType(32), inputs.type
        vector = ir.VectorType(word, _LANES)
        add = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(vector, [vector] * 3), _INSTRUCTION
        )
        undefined, everywhere = ir.Constant(vector, ir.Undefined), ir.Constant(vector, None)

        def at(address: Any, offset: Any, kind: Any) -> Any:
            return builder.inttoptr(builder.add(address, offset), kind.as_pointer())

        def number(value: int) -> Any:
            return ir.Constant(index, value)

        # Rows of the result lie far apart, and each would be waited for at its first number.
        pointer = ir.IntType(8).as_pointer()
        fetch = cgutils.get_or_insert_function(
            builder.module, ir.FunctionType(ir.VoidType(), [pointer, word, word, word]), _PREFETCH
        )
        for_writing, everywhere_near, data = (ir.Constant(word, value) for value in (1, 3, 1))
        for row in range(rows):
            begin = builder.add(target, builder.mul(stride, number(row)))
            for part in range(_VECTORS):
                line = at(begin, number(part * _VECTOR_BYTES), ir.IntType(8))
                builder.call(fetch, [line, for_writing, everywhere_near, data])
        places = [(row, part) for row in range(rows) for part in range(_VECTORS)]
        sums = {place: cgutils.alloca_once_value(builder, everywhere) for place in places}
        with cgutils.for_range(builder, groups) as loop:
            begin = builder.mul(loop.index, number(_VECTORS * _VECTOR_BYTES))
            weights = [
                builder.load(
                    at(panel, builder.add(begin, number(part * _VECTOR_BYTES)), vector), align=1
                )
                for part in range(_VECTORS)
            ]
            for row in range(rows):
                before = builder.mul(groups, number(row))
                place = builder.mul(builder.add(before, loop.index), number(GROUP))
                group = builder.load(at(inputs, place, word), align=1)
                first = builder.insert_element(undefined, group, ir.Constant(word, 0))
                repeated = builder.shuffle_vector(first, undefined, everywhere)
                for part, weight in enumerate(weights):
                    total = sums[row, part]
                    builder.store(builder.call(add, [builder.load(total), weight, repeated]), total)
        for place, total in sums.items():
            offset = number((place[0] * _VECTORS + place[1]) * _VECTOR_BYTES)
            builder.store(builder.load(total), at(out, offset, vector), align=1)
        return context.get_dummy_value()

    return intrinsic(typed)


_one, _two, _three, _four, _five, _six = (_tile(rows) for rows in range(1, _TILE + 1))


@inlined
def _add_products(
    rows: int, inputs: int, panel: int, groups: int, out: int, target: int, stride: int
) -> None:
    if rows == 1:
        _one(inputs, panel, groups, out, target, stride)
    elif rows == 2:
        _two(inputs, panel, groups, out, target, stride)
    elif rows == 3:
        _three(inputs, panel, groups, out, target, stride)
    elif rows == 4:
        _four(inputs, panel, groups, out, target, stride)
    elif rows == 5:
        _five(inputs, panel, groups, out, target, stride)
    else:
        _six(inputs, panel, groups, out, target, stride)


@inlined
def _scale(
    sums: NDArray[np.int32],
    excess: np.int32,
    scales: Floats,
    factor: np.float32,
    start: Floats,
    out: Floats,
) -> None:
    for c in range(out.shape[0]):
        out[c] = start[c] + np.float32(sums[c] - excess) * scales[c] * factor


@inlined
def _make_whole(row: Floats, out: NDArray[np.int8]) -> tuple[np.float32, np.int32]:
    """A row in 7 bits, filled up with 0: what to multiply it by, and what the offset adds to it."""
    size = row.shape[0]
    factor = make_row_whole(row, out[:size])
    out[size:] = 0
    total = np.int32(0)
    for c in range(size):
        total += np.int32(out[c])
    return factor, total * _OFFSET


@inlined
def _multiply(
    whole: NDArray[np.int8],
    factors: Floats,
    excesses: NDArray[np.int32],
    matrix: int,
    scales: int,
    start: int,
    outputs: int,
    start_rows: int,
    first: int,
    last: int,
    target: int,
) -> None:
    rows, groups = whole.shape[0], whole.shape[1] // GROUP
    share, begins = rows // start_rows, floats(start, start_rows, outputs)
    all_scales, out = floats(scales, 1, outputs)[0], floats(target, rows, outputs)
    sums = np.empty((_TILE, PANEL), np.int32)
    inputs, made = whole.ctypes.data, sums.ctypes.data
    for number in range(first, last):
        begin, end = number * PANEL, min((number + 1) * PANEL, outputs)
        panel = matrix + begin * groups * GROUP
        own_scales = all_scales[begin:end]
        for row in range(0, rows, _TILE):
            count = min(_TILE, rows - row)
            own_inputs = inputs + row * groups * GROUP
            place = target + 4 * (row * outputs + begin)
            _add_products(count, own_inputs, panel, groups, made, place, 4 * outputs)
            for k in range(row, row + count):
                added, own = begins[k // share, begin:end], out[k, begin:end]
                _scale(sums[k - row], excesses[k], own_scales, factors[k], added, own)


@Loop
def make_whole(first: int, last: int, call: int) -> None:
    """Rows [first, last) as whole numbers of 7 bits, in groups filled up with 0.

    `inputs` is the address of (rows, size); so are, of the results, `out` (rows, groups * GROUP),
    int8, `factors` (rows), what to multiply them by, and `excesses` (rows), int32, what the offset
    of the matrix adds to their products.
    """
    inputs, rows, size, out, factors, excesses = numbers(call, 6)
    given, whole = floats(inputs, rows, size), octets(out, rows, -(-size // GROUP) * GROUP)
    scales, added = floats(factors, 1, rows)[0], words(excesses, 1, rows)[0]
    for row in range(first, last):
        scales[row], added[row] = _make_whole(given[row], whole[row])


@Loop
def multiply(first: int, last: int, call: int) -> None:
    """The outputs of the panels [first, last), scaled, with a start.

    `whole`, `factors` and `excesses` are as `make_whole` leaves them, `matrix` as `lay_out` does;
    `scales` is the address of (outputs), `out` of (rows, outputs), and `start` of (start_rows,
    outputs): a row for as many of the rows in turn.
    """
    (
        whole, factors, excesses, matrix, scales, start, rows, size, outputs, start_rows, out,
    ) = numbers(call, 11)  # fmt: skip
    made = octets(whole, rows, -(-size // GROUP) * GROUP)
    own, added = floats(factors, 1, rows)[0], words(excesses, 1, rows)[0]
    _multiply(made, own, added, matrix, scales, start, outputs, start_rows, first, last, out)


@Loop
def product(first: int, last: int, call: int) -> None:
    """`make_whole` and `multiply` in one, for so few rows that each thread may do the first."""
    inputs, matrix, scales, start, rows, size, outputs, start_rows, out = numbers(call, 9)
    given = floats(inputs, rows, size)
    whole = np.empty((rows, -(-size // GROUP) * GROUP), np.int8)
    own, added = np.empty(rows, np.float32), np.empty(rows, np.int32)
    for row in range(rows):
        own[row], added[row] = _make_whole(given[row], whole[row])
    _multiply(whole, own, added, matrix, scales, start, outputs, start_rows, first, last, out)
