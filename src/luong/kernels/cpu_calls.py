"""Calls of the compiled loops: float32 tensors in and out, the work shared between threads.

Shapes here are (B, T, n) for queries, (B, S, n) for keys, (n) for the weight vector, (B, T) for
centres. How the work is cut never changes a sum, so results are the same to the last bit for any
number of threads.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy
import torch
from torch import Tensor

from luong.kernels import cpu_additive, cpu_local, cpu_lstm
from luong.kernels.cpu_additive import PAD, padded
from luong.kernels.threads import share

# Terms of a sum below which waking a thread costs more than it saves.
SMALL = 2**21

# What a unit of an LSTM takes, in terms of a sum.
LSTM_WORK = 20

# Elements from which memory is taken in huge pages.
LARGE = 2**22
_ALIGNMENT = 16


def empty(*shape: int) -> Tensor:
    """`torch.empty` in float32; what is large lies in huge pages.

    numpy asks the system for them and torch does not, and touching tens of MiB for the first time
    in small pages takes longer than all the arithmetic.
    """
    count = math.prod(shape)
    if count < LARGE:
        return torch.empty(shape)
    block = numpy.empty(count + _ALIGNMENT, numpy.float32)
    start = -block.ctypes.data // 4 % _ALIGNMENT
    return torch.from_numpy(block[start : start + count]).view(shape)


def exponentiate(rows: Tensor) -> tuple[Tensor, Tensor]:
    """e^(2 rows) with padded columns (..., P), and max |row| (...)."""
    *lead, size = rows.shape
    powers, maxima = empty(*lead, padded(size)), empty(*lead)
    _exponentiate(_rows(rows), _rows(powers), _flat(maxima))
    return powers, maxima


def additive_scores(
    query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> Tensor:
    """Scores (B, T, S)."""
    batch, steps, size = query.shape
    source = key.shape[1]
    scores = empty(batch, steps, source)
    arrays = (*_sides(query, key, powers, maxima), _padded_weight(weight))
    out = (_rows(scores),)
    by_rows(batch * steps, source * size, cpu_additive.score, (*arrays, steps), out)
    return scores


def additive_gradients(
    incoming: Tensor, query: Tensor, key: Tensor, weight: Tensor, powers: Tensor, maxima: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the scores for query, key and weight."""
    arrays = (
        _rows(incoming),
        *_sides(query, key, powers, maxima),
        _padded_weight(weight),
        query.shape[1],
    )
    terms = incoming.numel() * query.shape[2]
    return _gradients(cpu_additive.score_gradients, arrays, query, key, terms)


def band_scores(
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
    width: int,
) -> Tensor:
    """Additive scores of bands (B, T, width)."""
    batch, steps, size = query.shape
    scores = empty(batch, steps, width)
    arrays = (*_sides(query, key, powers, maxima), _padded_weight(weight), _flat(centres))
    out = (_rows(scores),)
    rest = (steps, key.shape[1])
    by_rows(batch * steps, width * size, cpu_local.band_score, (*arrays, *rest), out)
    return scores


def band_score_gradients(
    incoming: Tensor,
    query: Tensor,
    key: Tensor,
    weight: Tensor,
    powers: Tensor,
    maxima: Tensor,
    centres: Tensor,
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of `band_scores` for query, key and weight."""
    arrays = (
        _rows(incoming),
        *_sides(query, key, powers, maxima),
        _padded_weight(weight),
        _flat(centres),
        query.shape[1],
        key.shape[1],
    )
    terms = incoming.numel() * query.shape[2]
    return _gradients(cpu_local.band_score_gradients, arrays, query, key, terms)


def band_dot(query: Tensor, key: Tensor, centres: Tensor, width: int) -> Tensor:
    """Dot products of bands (B, T, width)."""
    batch, steps, size = query.shape
    scores = empty(batch, steps, width)
    arrays = (_rows(query), _rows(key), _flat(centres), steps, key.shape[1])
    out = (_rows(scores),)
    by_rows(batch * steps, width * size, cpu_local.band_dot, arrays, out)
    return scores


def band_sum(weights: Tensor, value: Tensor, centres: Tensor) -> Tensor:
    """Sums of the values under bands (B, T, v)."""
    batch, steps, width = weights.shape
    size = value.shape[2]
    context = empty(batch, steps, size)
    arrays = (_rows(weights), _rows(value), _flat(centres), steps, value.shape[1])
    out = (_rows(context),)
    by_rows(batch * steps, width * size, cpu_local.band_sum, arrays, out)
    return context


def band_spread(weights: Tensor, rows: Tensor, centres: Tensor, source: int) -> Tensor:
    """`band_sum` transposed: rows (B, T, v) spread over the source (B, S, v)."""
    batch, steps, width = weights.shape
    size = rows.shape[2]
    spread = empty(batch, source, size)
    arrays = (_rows(weights), _rows(rows), _flat(centres), steps, source)
    out = (_rows(spread),)
    work = batch * (steps * width + source) * size
    _by_columns(batch, size, work, cpu_local.band_spread, arrays, out)
    return spread


def lstm_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, ...]:
    """New hidden state and cell (rows, H), and what the backward wants: see `cpu_lstm.update`.

    The gates may be in bfloat16.
    """
    rows, size = cell.shape
    gates = checked(gates, rows, 4 * size, dtype=gates.dtype)
    cell = cell.contiguous()
    kept = empty(rows, 4 * size), empty(rows, size)
    new = empty(rows, size), empty(rows, size)
    given = (gates.data_ptr(), gates.dtype == torch.bfloat16, cell.data_ptr(), size)
    out = [tensor.data_ptr() for tensor in (*kept, *new)]
    cpu_lstm.update(rows, LSTM_WORK * size, *given, *out)
    return *new, *kept


def lstm_gradients(
    activated: Tensor,
    squashed: Tensor,
    cell: Tensor,
    to_hidden: Tensor,
    to_cell: Tensor,
    dtype: torch.dtype,
) -> tuple[Tensor, Tensor]:
    """Gradients of `lstm_update` for gates, in their type, and cell."""
    rows, size = cell.shape
    cell = cell.contiguous()
    to_hidden, to_cell = checked(to_hidden, rows, size), checked(to_cell, rows, size)
    gates_gradient, cell_gradient = torch.empty_like(activated, dtype=dtype), empty(rows, size)
    given = [x.data_ptr() for x in (activated, squashed, cell, to_hidden, to_cell)]
    out = (gates_gradient.data_ptr(), cell_gradient.data_ptr())
    is_narrow = dtype == torch.bfloat16
    cpu_lstm.gradients(rows, LSTM_WORK * size, *given, is_narrow, size, *out)
    return gates_gradient, cell_gradient


def _gradients(
    function: Callable[..., None], arrays: tuple[Any, ...], query: Tensor, key: Tensor, terms: int
) -> tuple[Tensor, Tensor, Tensor]:
    batch, _, size = query.shape
    columns = padded(size)
    query_gradient = empty(*query.shape[:2], columns)
    key_gradient = empty(*key.shape[:2], columns)
    weight_gradient = torch.empty(batch, columns, dtype=torch.float64)
    out = _rows(query_gradient), _rows(key_gradient), _array(weight_gradient)
    _by_columns(batch, columns, terms, function, arrays, out)
    # Not torch's sum, which would wake its own threads for it.
    weight_sum = torch.from_numpy(_array(weight_gradient).sum(0, dtype="float64")).float()
    if columns == size:
        return query_gradient, key_gradient, weight_sum
    return (
        query_gradient[..., :size].contiguous(),
        key_gradient[..., :size].contiguous(),
        weight_sum[:size].contiguous(),
    )


def by_rows(
    rows: int,
    work: int,
    function: Callable[..., None],
    arrays: tuple[Any, ...],
    out: tuple[Any, ...],
) -> None:
    """Run function(*arrays, first, last, *out) over ranges of rows; `work` is that of one row."""
    if not rows:
        return
    if rows * work <= SMALL:
        function(*arrays, 0, rows, *out)
        return
    count = min(rows, 4 * torch.get_num_threads())

    def task(number: int) -> None:
        function(*arrays, rows * number // count, rows * (number + 1) // count, *out)

    share(task, count)


def _by_columns(
    batch: int,
    columns: int,
    work: int,
    function: Callable[..., None],
    arrays: tuple[Any, ...],
    out: tuple[Any, ...],
) -> None:
    """Run function(*arrays, first, last, start, stop, *out) over batch entries and columns."""
    if not (batch and columns):
        return
    if work <= SMALL:
        function(*arrays, 0, batch, 0, columns, *out)
        return
    threads = torch.get_num_threads()
    groups = min(batch, 4 * threads)
    width = columns
    # Wide slices run faster; narrow ones are better than an idle thread.
    while groups * -(-columns // width) < (3 * threads if width > 4 * PAD else threads):
        if width <= PAD:
            break
        width = padded(-(-width // 2))
    slices = -(-columns // width)

    def task(number: int) -> None:
        group, part = divmod(number, slices)
        first, last = batch * group // groups, batch * (group + 1) // groups
        start = part * width
        function(*arrays, first, last, start, min(start + width, columns), *out)

    share(task, groups * slices)


def checked(tensor: Tensor, *shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor as a loop reads it at its address: contiguous, and of the type and shape it says.

    Raises:
        ValueError: It is of another type or shape.
    """
    if tensor.shape != shape or tensor.dtype != dtype:
        raise ValueError(
            f"a tensor {tuple(tensor.shape)} of {tensor.dtype} was given; expected {shape} of "
            f"{dtype}."
        )
    return tensor.contiguous()


def _array(tensor: Tensor) -> Any:
    return (tensor.detach() if tensor.requires_grad else tensor).numpy()


def _rows(tensor: Tensor) -> Any:
    """The array of a tensor's rows, C-contiguous."""
    *lead, size = tensor.shape
    return _array(tensor.contiguous()).reshape(math.prod(lead), size)


def _flat(tensor: Tensor) -> Any:
    return _array(tensor.contiguous()).reshape(-1)


def _sides(query: Tensor, key: Tensor, powers: Tensor, maxima: Tensor) -> tuple[Any, ...]:
    """What the additive loops read of queries and keys."""
    rows = _rows(query)
    count, size = rows.shape
    query_powers, query_maxima = _array(empty(count, padded(size))), _array(empty(count))
    _exponentiate(rows, query_powers, query_maxima)
    return rows, query_powers, query_maxima, _rows(key), _rows(powers), _flat(maxima)


def _exponentiate(rows: Any, powers: Any, maxima: Any) -> None:
    # An exponential takes as long as some eight terms of a score.
    work = 8 * rows.shape[1]
    by_rows(rows.shape[0], work, cpu_additive.exponentiate, (rows,), (powers, maxima))


def _padded_weight(weight: Tensor) -> Any:
    size = weight.shape[0]
    if padded(size) == size:
        return _flat(weight)
    row = weight.new_zeros(padded(size))
    row[:size] = weight
    return _array(row)
