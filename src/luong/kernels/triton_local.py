"""Scores and contexts under bands of keys as Triton kernels, forward and backward.

Query t sees the `width` rows of the source that start at starts[t]; slots outside the source are
0. Nothing is gathered: each program reads the rows under its own band. Gradients that belong to a
source row are summed by a program of that row, which finds the queries that saw it in their sorted
order: no atomics, the same bits each time.

A band over the whole source is also the fast form of global scores for one query or a few.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from luong.kernels.prepared import PreparedKeys
from luong.kernels.triton_additive import BOUND, OPTIONS, parts, reciprocal, stable_r

# A band of D = 10 has 21 slots, so 32 would idle a third of them and 16 takes two turns; channels
# fill the rest of a tile that gives each thread of 4 warps 16 terms.
BLOCK_SLOTS = 16
BLOCK_CHANNELS = 128


@triton.jit
def _hidden_r(
    query, row, query_power, row_power, query_live, row_live, channel_live, fits,
    query_step, row_step, query_power_step, row_power_step, channels,
):  # fmt: skip
    """The r of pairs (slot, channel); `query` and `row` point to the first channels."""
    live = (query_live & row_live)[:, None] & channel_live[None, :]
    at = channels[None, :]
    power = tl.load(query_power[:, None] + at * query_power_step, mask=live, other=0.0)
    other = tl.load(row_power[:, None] + at * row_power_step, mask=live, other=0.0)
    r = reciprocal(1.0 + power * other)
    if tl.min(fits.to(tl.int32), 0) == 0:
        plain = tl.load(query[:, None] + at * query_step, mask=live, other=0.0)
        other = tl.load(row[:, None] + at * row_step, mask=live, other=0.0)
        r = tl.where(fits[:, None], r, stable_r(plain + other))
    return r


@triton.jit
def _band_scores_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, starts, scores,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    starts_batch, starts_row, scores_batch, scores_row, scores_step,
    query_count, key_count, size, width, slot_blocks,
    additive: tl.constexpr, block_slots: tl.constexpr, block_channels: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    batch = program // (query_count * slot_blocks)
    row = (program // slot_blocks) % query_count
    slots = (program % slot_blocks) * block_slots + tl.arange(0, block_slots)
    keys = tl.load(starts + batch * starts_batch + row * starts_row) + slots
    inside = (slots < width) & (keys >= 0) & (keys < key_count)
    query_at = query + batch * query_batch + row * query_row
    key_at = key + batch * key_batch + keys * key_row
    total = tl.zeros([block_slots, block_channels], tl.float32)
    if additive:
        top = tl.load(query_maximum + batch * query_maximum_batch + row * query_maximum_row)
        key_top_at = key_maximum + batch * key_maximum_batch + keys * key_maximum_row
        fits = (top + tl.load(key_top_at, mask=inside, other=0.0) <= BOUND) | (inside == 0)
        query_power += batch * query_power_batch + row * query_power_row
        key_power_at = key_power + batch * key_power_batch + keys * key_power_row
    for start in range(0, size, block_channels):
        channels = tl.cast(start, tl.int64) + tl.arange(0, block_channels)
        channel_live = channels < size
        if additive:
            same = slots * 0
            r = _hidden_r(
                query_at + same, key_at, query_power + same, key_power_at,
                slots < width, inside, channel_live, fits,
                query_step, key_step, query_power_step, key_power_step, channels,
            )  # fmt: skip
            values = tl.load(weight + channels * weight_step, mask=channel_live, other=0.0)
            total += values[None, :] * (1.0 - 2.0 * r)
        else:
            live = inside[:, None] & channel_live[None, :]
            other = tl.load(key_at[:, None] + channels[None, :] * key_step, mask=live, other=0.0)
            plain = tl.load(query_at + channels * query_step, mask=channel_live, other=0.0)
            # Selected, not multiplied: a slot outside stays 0 beside a NaN in the query.
            total += tl.where(live, plain[None, :] * other, 0.0)
    band = tl.where(inside, tl.sum(total, 1), 0.0)
    at = scores + batch * scores_batch + row * scores_row + slots * scores_step
    tl.store(at, band, mask=slots < width)


@triton.jit
def _band_sums_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, starts, error,
    result, weight_part,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    starts_batch, starts_row, error_batch, error_row, error_step,
    result_batch, result_row, result_step, weight_part_batch, weight_part_row, weight_part_step,
    query_count, key_count, size, width, channel_blocks,
    additive: tl.constexpr, block_slots: tl.constexpr, block_channels: tl.constexpr,
):  # fmt: skip
    # For each query, a sum over its band: of error-weighted rows, or of the additive gradient.
    program = tl.program_id(0).to(tl.int64)
    batch = program // (query_count * channel_blocks)
    row = (program // channel_blocks) % query_count
    channels = (program % channel_blocks) * block_channels + tl.arange(0, block_channels)
    channel_live = channels < size
    begin = tl.load(starts + batch * starts_batch + row * starts_row)
    error_at = error + batch * error_batch + row * error_row
    if additive:
        top = tl.load(query_maximum + batch * query_maximum_batch + row * query_maximum_row)
        query_at = query + batch * query_batch + row * query_row
        power_at = query_power + batch * query_power_batch + row * query_power_row
    total = tl.zeros([block_slots, block_channels], tl.float32)
    weight_total = tl.zeros([block_slots, block_channels], tl.float32)
    for start in range(0, width, block_slots):
        slots = tl.cast(start, tl.int64) + tl.arange(0, block_slots)
        keys = begin + slots
        inside = (slots < width) & (keys >= 0) & (keys < key_count)
        incoming = tl.load(error_at + slots * error_step, mask=inside, other=0.0)
        # A row that nothing goes to or comes from takes no part, whatever it holds.
        used = incoming != 0.0
        key_at = key + batch * key_batch + keys * key_row
        if additive:
            key_top_at = key_maximum + batch * key_maximum_batch + keys * key_maximum_row
            fits = (top + tl.load(key_top_at, mask=inside, other=0.0) <= BOUND) | (used == 0)
            same = slots * 0
            r = _hidden_r(
                query_at + same, key_at, power_at + same,
                key_power + batch * key_power_batch + keys * key_power_row,
                slots < width, inside, channel_live, fits,
                query_step, key_step, query_power_step, key_power_step, channels,
            )  # fmt: skip
            r = tl.where(used[:, None], r, 0.5)
            total += incoming[:, None] * (r - r * r)
            weight_total += incoming[:, None] * (1.0 - 2.0 * r)
        else:
            live = used[:, None] & channel_live[None, :]
            other = tl.load(key_at[:, None] + channels[None, :] * key_step, mask=live, other=0.0)
            total += incoming[:, None] * other
    sums = tl.sum(total, 0)
    if additive:
        sums *= 4.0 * tl.load(weight + channels * weight_step, mask=channel_live, other=0.0)
        part_at = weight_part + batch * weight_part_batch + row * weight_part_row
        tl.store(part_at + channels * weight_part_step, tl.sum(weight_total, 0), mask=channel_live)
    at = result + batch * result_batch + row * result_row + channels * result_step
    tl.store(at, sums, mask=channel_live)


@triton.jit
def _band_spread_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, starts, error,
    order, first, last, result,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    starts_batch, starts_row, error_batch, error_row, error_step,
    order_batch, order_row, first_batch, first_row, last_batch, last_row,
    result_batch, result_row, result_step,
    key_count, size, channel_blocks,
    additive: tl.constexpr, block_slots: tl.constexpr, block_channels: tl.constexpr,
):  # fmt: skip
    # For each source row, a sum over the queries that saw it: first to last in `order`.
    program = tl.program_id(0).to(tl.int64)
    batch = program // (key_count * channel_blocks)
    row = (program // channel_blocks) % key_count
    channels = (program % channel_blocks) * block_channels + tl.arange(0, block_channels)
    channel_live = channels < size
    begin = tl.load(first + batch * first_batch + row * first_row)
    end = tl.load(last + batch * last_batch + row * last_row)
    if additive:
        top = tl.load(key_maximum + batch * key_maximum_batch + row * key_maximum_row)
        key_at = key + batch * key_batch + row * key_row
        power_at = key_power + batch * key_power_batch + row * key_power_row
    total = tl.zeros([block_slots, block_channels], tl.float32)
    for start in range(begin, end, block_slots):
        seen = tl.cast(start, tl.int64) + tl.arange(0, block_slots)
        live = seen < end
        queries = tl.load(order + batch * order_batch + seen * order_row, mask=live, other=0)
        starts_at = starts + batch * starts_batch + queries * starts_row
        slots = row - tl.load(starts_at, mask=live, other=0)
        error_at = error + batch * error_batch + queries * error_row + slots * error_step
        incoming = tl.load(error_at, mask=live, other=0.0)
        used = incoming != 0.0
        query_at = query + batch * query_batch + queries * query_row
        if additive:
            top_at = query_maximum + batch * query_maximum_batch + queries * query_maximum_row
            fits = (top + tl.load(top_at, mask=live, other=0.0) <= BOUND) | (used == 0)
            same = queries * 0
            r = _hidden_r(
                query_at, key_at + same,
                query_power + batch * query_power_batch + queries * query_power_row,
                power_at + same, live, live, channel_live, fits,
                query_step, key_step, query_power_step, key_power_step, channels,
            )  # fmt: skip
            r = tl.where(used[:, None], r, 0.5)
            total += incoming[:, None] * (r - r * r)
        else:
            both = used[:, None] & channel_live[None, :]
            other = tl.load(
                query_at[:, None] + channels[None, :] * query_step, mask=both, other=0.0
            )
            total += incoming[:, None] * other
    sums = tl.sum(total, 0)
    if additive:
        sums *= 4.0 * tl.load(weight + channels * weight_step, mask=channel_live, other=0.0)
    at = result + batch * result_batch + row * result_row + channels * result_step
    tl.store(at, sums, mask=channel_live)


class Band(NamedTuple):
    """Where each query looks: `width` rows from starts (B, T) on, int64."""

    starts: Tensor
    width: int


def plain_rows(rows: Tensor) -> PreparedKeys:
    """Rows for a dot product, which reads nothing beside them."""
    return PreparedKeys(rows, rows, rows.new_empty(0, 0))


def _sides(query: PreparedKeys, key: PreparedKeys, weight: Tensor | None) -> _Sides:
    query_power, query_maxima = parts(query)
    key_power, key_maxima = parts(key)
    weight = key.key.new_empty(0) if weight is None else weight
    tensors = (query.key, key.key, query_power, key_power, query_maxima, key_maxima, weight)
    return _Sides(tensors, tuple(stride for tensor in tensors for stride in tensor.stride()))


class _Sides(NamedTuple):
    """What every kernel of this file begins with."""

    tensors: tuple[Tensor, ...]
    strides: tuple[int, ...]


def band_scores(
    query: PreparedKeys, key: PreparedKeys, weight: Tensor | None, band: Band
) -> Tensor:
    """Scores (B, T, width) of queries (B, T, n) and keys (B, S, n); a dot product if no weight."""
    batch, query_count, size = query.key.shape
    scores = query.key.new_empty(batch, query_count, band.width)
    slot_blocks = triton.cdiv(band.width, BLOCK_SLOTS)
    sides = _sides(query, key, weight)
    if scores.numel():
        with torch.cuda.device_of(scores):
            _band_scores_kernel[(batch * query_count * slot_blocks,)](
                *sides.tensors, band.starts, scores,
                *sides.strides, *band.starts.stride(), *scores.stride(),
                query_count, key.key.shape[1], size, band.width, slot_blocks,
                weight is not None, BLOCK_SLOTS, BLOCK_CHANNELS, **OPTIONS,
            )  # fmt: skip
    return scores


def band_sums(
    query: PreparedKeys, key: PreparedKeys, weight: Tensor | None, band: Band, error: Tensor
) -> tuple[Tensor, Tensor]:
    """For each query, a sum over its band: (B, T, n), and the gradient of the weight (n).

    With a weight the sum is the gradient of the query; without, it is that of the rows under the
    band, each times its error (B, T, width).
    """
    batch, query_count, _ = query.key.shape
    size = key.key.shape[2]
    result = key.key.new_empty(batch, query_count, size)
    additive = weight is not None
    part = result.new_empty(batch, query_count if additive else 0, size)
    channel_blocks = triton.cdiv(size, BLOCK_CHANNELS)
    sides = _sides(query, key, weight)
    if result.numel():
        with torch.cuda.device_of(result):
            _band_sums_kernel[(batch * query_count * channel_blocks,)](
                *sides.tensors, band.starts, error, result, part,
                *sides.strides, *band.starts.stride(), *error.stride(), *result.stride(),
                *part.stride(),
                query_count, key.key.shape[1], size, band.width, channel_blocks,
                additive, BLOCK_SLOTS, BLOCK_CHANNELS, **OPTIONS,
            )  # fmt: skip
    return result, part.sum((0, 1), dtype=torch.float64)


def band_spread(
    query: PreparedKeys, key: PreparedKeys, weight: Tensor | None, band: Band, error: Tensor
) -> Tensor:
    """For each source row, a sum over the queries whose band held it: (B, S, n).

    With a weight that is the gradient of the keys; without, it is the queries' rows, each times
    its error (B, T, width).
    """
    batch, key_count = key.key.shape[:2]
    size = query.key.shape[2]
    result = query.key.new_empty(batch, key_count, size)
    channel_blocks = triton.cdiv(size, BLOCK_CHANNELS)
    sides = _sides(query, key, weight)
    if result.numel() == 0:
        return result
    ordered, order = band.starts.sort(dim=1, stable=True)
    rows = torch.arange(key_count, device=result.device).expand(batch, -1).contiguous()
    first = torch.searchsorted(ordered, rows - (band.width - 1))
    last = torch.searchsorted(ordered, rows, right=True)
    with torch.cuda.device_of(result):
        _band_spread_kernel[(batch * key_count * channel_blocks,)](
            *sides.tensors, band.starts, error, order, first, last, result,
            *sides.strides, *band.starts.stride(), *error.stride(), *order.stride(),
            *first.stride(), *last.stride(), *result.stride(),
            key_count, size, channel_blocks,
            weight is not None, BLOCK_SLOTS, BLOCK_CHANNELS, **OPTIONS,
        )  # fmt: skip
    return result
