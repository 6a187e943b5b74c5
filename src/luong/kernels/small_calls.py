"""Calls of the compiled loops that a decoding step makes, of float32 tensors, without derivatives.

They are small and many: the loops take addresses, since a numpy array of a tensor costs as much as
an operation of torch. The tensors stay alive in the names of the call that hands their addresses
in. A wrong size would be read past the end, so all are checked.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luong.kernels import cpu_continuations, cpu_int8, cpu_lstm, cpu_rows, cpu_softmax, cpu_vnni
from luong.kernels.cpu_calls import LSTM_WORK, checked
from luong.kernels.cpu_vnni import GROUP, PANEL

# What an exponential takes, in terms of a sum.
EXPONENTIAL = 8

# Up to so many rows each thread makes them whole numbers for itself.
_FEW_ROWS = 12

# Absent from builds of torch without fbgemm. The overload itself, as choosing it takes time.
_MULTIPLY: Any = getattr(
    getattr(torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32", None),
    "default",
    None,
)


def softmax_context(scores: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Context (B, T, v) and weights of scores (B, T, S), values (B, S, v), mask (B, T or 1, S)."""
    batch, steps, source = scores.shape
    size = value.shape[2]
    mask_steps = 1 if mask.shape[1] == 1 else steps
    scores = scores.contiguous()
    value = checked(value, batch, source, size)
    mask = checked(mask, batch, mask_steps, source, dtype=torch.bool)
    weights, context = torch.empty(batch, steps, source), torch.empty(batch, steps, size)
    given = (scores.data_ptr(), value.data_ptr(), mask.data_ptr())
    sizes = (steps, source, size, mask_steps)
    out = (weights.data_ptr(), context.data_ptr())
    cpu_softmax.attend(batch * steps, source * size, *given, *sizes, *out)
    return context, weights


def few_rows_product(inputs: Tensor, weight: Tensor, start: Tensor | None) -> Tensor:
    """The product (rows, outputs) of rows (rows, inputs) with a matrix (outputs, inputs)."""
    rows, size = inputs.shape
    outputs = weight.shape[0]
    inputs, weight = inputs.contiguous(), checked(weight, outputs, size)
    start = _start(start, rows, outputs)
    product = torch.empty(rows, outputs)
    given = (inputs.data_ptr(), weight.data_ptr(), start.data_ptr(), rows, size)
    sizes = (outputs, start.shape[0])
    cpu_rows.multiply(outputs, rows * size, *given, *sizes, product.data_ptr())
    return product


def int8_product(inputs: Tensor, packed: Any, scales: Tensor, start: Tensor | None) -> Tensor:
    """The product (rows, outputs) of rows (rows, inputs) with a matrix from `int8_layout`."""
    rows, size = inputs.shape
    outputs = scales.shape[0]
    inputs = checked(inputs, rows, size)
    if not isinstance(packed, Tensor):
        return _by_fbgemm(inputs, packed, outputs, _start(start, rows, outputs))
    start = torch.zeros(1, outputs) if start is None else _start(start, rows, outputs)
    panels, groups, _ = packed.shape
    packed = checked(packed, -(-outputs // PANEL), -(-size // GROUP), PANEL, dtype=torch.int32)
    scales = checked(scales, outputs)
    product = torch.empty(rows, outputs)
    matrix = (packed.data_ptr(), scales.data_ptr(), start.data_ptr())
    # An int8 product takes a quarter of the time of one in float32.
    work = rows * size * PANEL // 4
    if rows <= _FEW_ROWS:
        given = (inputs.data_ptr(), *matrix, rows, size, outputs, start.shape[0])
        cpu_vnni.product(panels, work, *given, product.data_ptr())
        return product
    whole = torch.empty(rows, groups * GROUP, dtype=torch.int8)
    factors, excesses = torch.empty(rows), torch.empty(rows, dtype=torch.int32)
    made = (whole.data_ptr(), factors.data_ptr(), excesses.data_ptr())
    cpu_vnni.make_whole(rows, size, inputs.data_ptr(), rows, size, *made)
    sizes = (rows, size, outputs, start.shape[0])
    cpu_vnni.multiply(panels, work, *made, *matrix, *sizes, product.data_ptr())
    return product


def _by_fbgemm(inputs: Tensor, packed: object, outputs: int, start: Tensor) -> Tensor:
    rows, size = inputs.shape
    whole, scales = torch.empty_like(inputs), torch.empty(rows)
    given, made = (inputs.data_ptr(), rows, size), (whole.data_ptr(), scales.data_ptr())
    cpu_int8.make_whole(rows, size, *given, *made)
    # Whole numbers stay what they are with the scale 1 and any zero.
    product: Tensor = _MULTIPLY(whole, 1.0, 64, packed)
    read = (product.data_ptr(), scales.data_ptr(), start.data_ptr(), rows, outputs, start.shape[0])
    cpu_int8.scale_back(rows, outputs, *read)
    return product


def lstm_update(gates: Tensor, cell: Tensor) -> tuple[Tensor, Tensor]:
    """New hidden state and cell (rows, H)."""
    rows, size = cell.shape
    gates, cell = checked(gates, rows, 4 * size), cell.contiguous()
    hidden, new_cell = torch.empty(rows, size), torch.empty(rows, size)
    given = (gates.data_ptr(), cell.data_ptr(), size)
    out = (hidden.data_ptr(), new_cell.data_ptr())
    cpu_lstm.update_only(rows, LSTM_WORK * size, *given, *out)
    return hidden, new_cell


def lstm_sequences(projected: Sequence[Tensor], weights: Sequence[Tensor]) -> list[Tensor]:
    """The hidden states (T, B, H) of sequences (T, B, 4H), each with its weight (4H, H)."""
    steps, rows, width = projected[0].shape
    size = width // 4
    projected = [checked(part, steps, rows, width) for part in projected]
    weights = [checked(weight, width, size) for weight in weights]
    states = [torch.empty(steps, rows, size) for _ in projected]
    tensors = zip(projected, weights, states, strict=True)
    places = torch.tensor([[tensor.data_ptr() for tensor in each] for each in tensors])
    work = steps * rows * width * size
    cpu_lstm.sequences(len(states), work, places.data_ptr(), steps, rows, size)
    return states


def log_softmax(logits: Tensor) -> Tensor:
    """Log-probabilities of logits (rows, V)."""
    rows, size = logits.shape
    logits = logits.contiguous()
    logs = torch.empty(rows, size)
    work = EXPONENTIAL * size
    cpu_continuations.log_softmax(rows, work, logits.data_ptr(), size, logs.data_ptr())
    return logs


def best_continuations(
    scores: Tensor,
    log_probabilities: Tensor,
    only_end: Tensor,
    count: int,
    end: int,
    never: tuple[int, ...],
    normalized: bool,
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Scores, beams and tokens (n, count), and what ended (n, width), see `cpu_continuations`."""
    sentences, width = scores.shape
    size = log_probabilities.shape[1]
    scores = checked(scores, sentences, width)
    logs = checked(log_probabilities, sentences * width, size)
    only_end = checked(only_end, sentences, dtype=torch.bool)
    excluded = _listed(never)
    going, ended = torch.empty(sentences, count), torch.empty(sentences, width)
    beams, tokens = torch.empty(2, sentences, count, dtype=torch.int64).unbind()
    given = (scores.data_ptr(), logs.data_ptr(), only_end.data_ptr(), excluded.data_ptr())
    sizes = (width, size, len(never), count, end, normalized)
    out = (going.data_ptr(), beams.data_ptr(), tokens.data_ptr(), ended.data_ptr())
    work = width * size * (1 if normalized else EXPONENTIAL)
    cpu_continuations.best(sentences, work, *given, *sizes, *out)
    return going, beams, tokens, ended


@functools.cache
def _listed(numbers: tuple[int, ...]) -> Tensor:
    return torch.tensor(numbers, dtype=torch.int64)


def _start(start: Tensor | None, rows: int, outputs: int) -> Tensor:
    """What is added to a product: a row for as many of its rows in turn, or no row."""
    if start is None:
        return torch.empty(0, outputs)
    if start.dim() == 1:
        return checked(start, outputs).view(1, outputs)
    parts = start.shape[0]
    if not parts or rows % parts:
        raise ValueError(f"{parts} rows are to be added to a product; expected a part of {rows}.")
    return checked(start, parts, outputs)
