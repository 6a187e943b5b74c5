"""Additive scores as Triton kernels: score[t, s] = sum_c v_c tanh(query[t, c] + key[s, c]).

With r = 1 / (1 + e^2q e^2k), tanh(q + k) = 1 - 2r and its derivative is 4 r (1 - r): the
exponentials of the T + S rows are taken once, each of the T S n terms then costs a multiply-add
and a share of a reciprocal, and the backward recomputes r instead of keeping anything.

The identity serves the pairs of rows with max|query| + max|key| <= 43, where both exponentials,
their product and r are finite and normal. Each tile looks at its own pairs; one that holds others
takes r = sigmoid(-2 (q + k)) for those alone, so that a large row changes no bit of another.
"""

from __future__ import annotations

import os
from typing import Any

import torch
import triton
import triton.language as tl
from torch import Tensor

from luong.kernels.prepared import PreparedKeys

BOUND = tl.constexpr(43.0)
# Clamped at 2^60 the product of two denominators is finite; a term there is below 2^-60 anyway.
CLAMP = tl.constexpr(2.0**60)
# Terms of one tile are summed in short runs and the runs then: the error of a float32 sum grows
# with the length of its chain.
RUN = tl.constexpr(32)

# A tile of 32 x 64 on 4 warps gives each thread 16 sums, for 8 loads a term: enough to hide the
# loads behind the reciprocals, and few enough registers for several programs a multiprocessor.
MERGED = True
BLOCK_QUERIES = 32
BLOCK_KEYS = 64
# The gradient holds rows x channels in registers and walks the other side one row at a time.
BLOCK_ROWS = 32
BLOCK_CHANNELS = 64
# Without fused multiply-adds (the default of coming Triton releases) the inner loops are half
# again as long.
OPTIONS = {"num_warps": 4, "enable_fp_fusion": True}


INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
# AMD's cards know no PTX.
HARDWARE_RECIPROCAL = tl.constexpr(torch.version.hip is None)


def device_function(function: Any) -> Any:
    """A function that kernels call in their inner loops.

    The interpreter would patch its language anew at each such call; there the function itself does.
    """
    return function if INTERPRETED else triton.jit(function)


@device_function
def _instruction(x):
    if HARDWARE_RECIPROCAL:
        return tl.inline_asm_elementwise(
            "rcp.approx.ftz.f32 $0, $1;", "=f,f", [x], dtype=tl.float32, is_pure=True, pack=1
        )
    else:  # noqa: RET505 - the branches are chosen while compiling
        return 1.0 / x


def _divided(x):
    return 1.0 / x


# 1 / x for 1 <= x <= 2^124, where the one instruction for it is right to an ulp. A division would
# become several, to serve the x beyond. The interpreter knows no assembly.
reciprocal = _divided if INTERPRETED else _instruction


@device_function
def stable_r(x):
    """1 / (1 + e^2x) for any x, NaN for NaN: the exponential taken is never above 1."""
    decay = tl.exp(-2.0 * tl.abs(x))
    r = reciprocal(1.0 + decay)
    return tl.where(x < 0, r, decay * r)


@triton.jit
def _sum_terms(
    query, key, query_power, key_power, weight,
    query_offset, key_offset, query_power_offset, key_power_offset,
    query_step, key_step, query_power_step, key_power_step, weight_step,
    query_live, key_live, fits, size, mixed: tl.constexpr, merged: tl.constexpr,
):  # fmt: skip
    """2 sum_c v_c (1/2 - r_c) for a tile, from pointers to the batch entry and rows' offsets."""
    total = tl.zeros(fits.shape, tl.float32)
    for start in range(0, size, RUN):
        run = tl.zeros(fits.shape, tl.float32)
        for channel in range(start, tl.minimum(start + RUN, size), 2):
            first = tl.cast(channel, tl.int64)
            # An odd last channel stands in for its own partner, with weight 0.
            second = tl.minimum(first + 1, tl.cast(size, tl.int64) - 1)
            weight_1 = tl.load(weight + first * weight_step)
            weight_2 = tl.load(weight + second * weight_step, mask=second > first, other=0.0)
            # Scalars are added to the pointers first, so that the rows of one thread are read
            # from one address with constant offsets; the padding of `prepare` spares the masks.
            query_1 = tl.load(query_power + first * query_power_step + query_power_offset)
            query_2 = tl.load(query_power + second * query_power_step + query_power_offset)
            key_1 = tl.load(
                key_power + first * key_power_step + key_power_offset, mask=key_live, other=0.0
            )
            key_2 = tl.load(
                key_power + second * key_power_step + key_power_offset, mask=key_live, other=0.0
            )
            below_1 = 1.0 + query_1[:, None] * key_1[None, :]
            below_2 = 1.0 + query_2[:, None] * key_2[None, :]
            if merged:
                below_1 = tl.minimum(below_1, CLAMP)
                below_2 = tl.minimum(below_2, CLAMP)
                term = weight_1 * below_2 + weight_2 * below_1
                term *= reciprocal(below_1 * below_2)
            else:
                term = weight_1 * reciprocal(below_1) + weight_2 * reciprocal(below_2)
            if mixed:
                plain_1 = tl.load(query + first * query_step + query_offset, query_live, 0.0)
                plain_2 = tl.load(query + second * query_step + query_offset, query_live, 0.0)
                other_1 = tl.load(key + first * key_step + key_offset, key_live, 0.0)
                other_2 = tl.load(key + second * key_step + key_offset, key_live, 0.0)
                direct = weight_1 * stable_r(plain_1[:, None] + other_1[None, :])
                direct += weight_2 * stable_r(plain_2[:, None] + other_2[None, :])
                term = tl.where(fits, term, direct)
            run += 0.5 * (weight_1 + weight_2) - term
        total += run
    return 2.0 * total


@triton.jit
def tile_scores(
    query, key, query_power, key_power, query_maximum, key_maximum, weight,
    query_row, query_step, key_row, key_step,
    query_power_row, query_power_step, key_power_row, key_power_step,
    query_maximum_row, key_maximum_row, weight_step,
    queries, keys, query_live, key_live, matters, size, merged: tl.constexpr,
):  # fmt: skip
    """Scores of a tile of query and key rows; pointers lead to the batch entry.

    Pairs that do not matter (masked, or beyond the end) have no say in which path is taken.
    """
    top = tl.load(query_maximum + queries * query_maximum_row, mask=query_live, other=0.0)
    other_top = tl.load(key_maximum + keys * key_maximum_row, mask=key_live, other=0.0)
    # NaN fails this comparison and so takes the direct path, which carries it on.
    fits = (top[:, None] + other_top[None, :]) <= BOUND
    if tl.min(tl.min((fits | (matters == 0)).to(tl.int32), 1), 0) == 1:
        scores = _sum_terms(
            query, key, query_power, key_power, weight,
            queries * query_row, keys * key_row,
            queries * query_power_row, keys * key_power_row,
            query_step, key_step, query_power_step, key_power_step, weight_step,
            query_live, key_live, fits, size, False, merged,
        )  # fmt: skip
    else:
        scores = _sum_terms(
            query, key, query_power, key_power, weight,
            queries * query_row, keys * key_row,
            queries * query_power_row, keys * key_power_row,
            query_step, key_step, query_power_step, key_power_step, weight_step,
            query_live, key_live, fits, size, True, merged,
        )  # fmt: skip
    return scores


@triton.jit
def _scores_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, scores,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    scores_batch, scores_row, scores_step,
    query_count, key_count, size, query_blocks, key_blocks,
    merged: tl.constexpr, block_queries: tl.constexpr, block_keys: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    batch = program // (query_blocks * key_blocks)
    block = program % (query_blocks * key_blocks)
    queries = (block // key_blocks) * block_queries + tl.arange(0, block_queries)
    keys = (block % key_blocks) * block_keys + tl.arange(0, block_keys)
    query_live = queries < query_count
    key_live = keys < key_count
    live = query_live[:, None] & key_live[None, :]
    tile = tile_scores(
        query + batch * query_batch, key + batch * key_batch,
        query_power + batch * query_power_batch, key_power + batch * key_power_batch,
        query_maximum + batch * query_maximum_batch, key_maximum + batch * key_maximum_batch,
        weight, query_row, query_step, key_row, key_step,
        query_power_row, query_power_step, key_power_row, key_power_step,
        query_maximum_row, key_maximum_row, weight_step,
        queries, keys, query_live, key_live, live, size, merged,
    )  # fmt: skip
    at = scores + batch * scores_batch + queries[:, None] * scores_row + keys[None, :] * scores_step
    tl.store(at, tile, mask=live)


@triton.jit
def _gradient_kernel(
    row, column, row_power, column_power, row_maximum, column_maximum, weight, error,
    gradient, weight_part,
    row_batch, row_row, row_step, column_batch, column_row, column_step,
    row_power_batch, row_power_row, row_power_step,
    column_power_batch, column_power_row, column_power_step,
    row_maximum_batch, row_maximum_row, column_maximum_batch, column_maximum_row, weight_step,
    error_batch, error_row, error_column, gradient_batch, gradient_row, gradient_step,
    weight_part_batch, weight_part_row, weight_part_step,
    row_count, column_count, size, row_blocks, channel_blocks,
    with_weight: tl.constexpr, block_rows: tl.constexpr, block_channels: tl.constexpr,
):  # fmt: skip
    # Rows are queries and columns keys, or the other way round for the gradient of the keys.
    program = tl.program_id(0).to(tl.int64)
    batch = program // (row_blocks * channel_blocks)
    block = program % (row_blocks * channel_blocks)
    row_block = block // channel_blocks
    rows = row_block * block_rows + tl.arange(0, block_rows)
    channels = (block % channel_blocks) * block_channels + tl.arange(0, block_channels)
    row_live = rows < row_count
    channel_live = channels < size
    live = row_live[:, None] & channel_live[None, :]
    row_at = row + batch * row_batch + rows[:, None] * row_row + channels[None, :] * row_step
    power_at = row_power + batch * row_power_batch + rows[:, None] * row_power_row
    power = tl.load(power_at + channels[None, :] * row_power_step, mask=live, other=0.0)
    top_at = row_maximum + batch * row_maximum_batch + rows * row_maximum_row
    top = tl.load(top_at, mask=row_live, other=0.0)
    column_maximum += batch * column_maximum_batch
    column_at = column + batch * column_batch + channels * column_step
    column_power_at = column_power + batch * column_power_batch + channels * column_power_step
    error_at = error + batch * error_batch + rows * error_row
    total = tl.zeros(live.shape, tl.float32)
    weight_total = tl.zeros(live.shape, tl.float32)
    for start in range(0, column_count, RUN):
        run = tl.zeros(live.shape, tl.float32)
        columns = tl.cast(start, tl.int64) + tl.arange(0, RUN)
        other_top = tl.load(
            column_maximum + columns * column_maximum_row, mask=columns < column_count, other=0.0
        )
        fits = (top[:, None] + other_top[None, :]) <= BOUND
        if tl.min(tl.min(fits.to(tl.int32), 1), 0) == 1:
            for index in range(start, tl.minimum(start + RUN, column_count)):
                at = tl.cast(index, tl.int64)
                incoming = tl.load(error_at + at * error_column, mask=row_live, other=0.0)
                other = tl.load(
                    column_power_at + at * column_power_row, mask=channel_live, other=0.0
                )
                r = reciprocal(1.0 + power * other[None, :])
                run += incoming[:, None] * (r - r * r)
                if with_weight:
                    weight_total += incoming[:, None] * (1.0 - 2.0 * r)
        else:
            plain = tl.load(row_at, mask=live, other=0.0)
            for index in range(start, tl.minimum(start + RUN, column_count)):
                at = tl.cast(index, tl.int64)
                incoming = tl.load(error_at + at * error_column, mask=row_live, other=0.0)
                other = tl.load(
                    column_power_at + at * column_power_row, mask=channel_live, other=0.0
                )
                other_plain = tl.load(column_at + at * column_row, mask=channel_live, other=0.0)
                pair_fits = (top + tl.load(column_maximum + at * column_maximum_row)) <= BOUND
                r = reciprocal(1.0 + power * other[None, :])
                r = tl.where(pair_fits[:, None], r, stable_r(plain + other_plain[None, :]))
                # A pair that nothing came back through takes no part, whatever its rows hold.
                r = tl.where((incoming == 0.0)[:, None], 0.5, r)
                run += incoming[:, None] * (r - r * r)
                if with_weight:
                    weight_total += incoming[:, None] * (1.0 - 2.0 * r)
        total += run
    values = tl.load(weight + channels * weight_step, mask=channel_live, other=0.0)
    gradient_at = gradient + batch * gradient_batch + rows[:, None] * gradient_row
    gradient_at += channels[None, :] * gradient_step
    tl.store(gradient_at, 4.0 * values[None, :] * total, mask=live)
    if with_weight:
        part_at = weight_part + batch * weight_part_batch + row_block * weight_part_row
        part = tl.sum(tl.where(live, weight_total, 0.0), 0)
        tl.store(part_at + channels * weight_part_step, part, mask=channel_live)


def prepare(rows: Tensor, multiple: int = 1) -> PreparedKeys:
    """Float32 rows, their exponentials e^2x and their largest magnitudes.

    The exponentials are laid out with the rows next to each other: a tile of scores reads one
    channel of all its rows at a time.

    Args:
        rows: (..., R, n), float32.
        multiple: The exponentials' memory goes on to a multiple of so many rows, which kernels
            may read and must not use.
    """
    with torch.no_grad():
        rows_read = triton.cdiv(rows.shape[-2], multiple) * multiple
        memory = rows.new_empty(*rows.shape[:-2], rows.shape[-1], rows_read)
        power = memory[..., : rows.shape[-2]]
        power.copy_(rows.detach().transpose(-1, -2)).mul_(2.0).exp_()
        maxima = rows.new_zeros(rows.shape[:-1])
        if rows.shape[-1]:
            maxima = rows.detach().abs().amax(-1)
    return PreparedKeys(rows, power.transpose(-1, -2), maxima)


def score_tiles(query: PreparedKeys, key: PreparedKeys, weight: Tensor) -> Tensor:
    """Scores (B, T, S) of queries prepared in BLOCK_QUERIES and keys, all float32."""
    query_power, query_maxima = parts(query)
    key_power, key_maxima = parts(key)
    batch, query_count, size = query.key.shape
    key_count = key.key.shape[1]
    scores = weight.new_empty(batch, query_count, key_count)
    if scores.numel() == 0:
        return scores
    query_blocks = triton.cdiv(query_count, BLOCK_QUERIES)
    key_blocks = triton.cdiv(key_count, BLOCK_KEYS)
    with torch.cuda.device_of(scores):
        _scores_kernel[(batch * query_blocks * key_blocks,)](
            query.key, key.key, query_power, key_power, query_maxima, key_maxima, weight, scores,
            *query.key.stride(), *key.key.stride(), *query_power.stride(), *key_power.stride(),
            *query_maxima.stride(), *key_maxima.stride(), *weight.stride(), *scores.stride(),
            query_count, key_count, size, query_blocks, key_blocks,
            MERGED, BLOCK_QUERIES, BLOCK_KEYS, **OPTIONS,
        )  # fmt: skip
    return scores


def row_gradient(
    row: PreparedKeys, column: PreparedKeys, weight: Tensor, error: Tensor, *, with_weight: bool
) -> tuple[Tensor, Tensor]:
    """Gradient of the rows (B, R, n), given that of the scores (B, R, C), and of the weight (n).

    For the gradient of the keys they are the rows and the queries the columns. Exponentials are
    best laid out like the rows here. Without with_weight the second result is zero.
    """
    row_power, row_maxima = parts(row)
    column_power, column_maxima = parts(column)
    batch, row_count, size = row.key.shape
    gradient = weight.new_empty(row.key.shape)
    row_blocks = triton.cdiv(row_count, BLOCK_ROWS)
    channel_blocks = triton.cdiv(size, BLOCK_CHANNELS)
    part = weight.new_zeros(batch, row_blocks if with_weight else 0, size)
    if gradient.numel():
        with torch.cuda.device_of(gradient):
            _gradient_kernel[(batch * row_blocks * channel_blocks,)](
                row.key, column.key, row_power, column_power, row_maxima, column_maxima,
                weight, error, gradient, part,
                *row.key.stride(), *column.key.stride(), *row_power.stride(),
                *column_power.stride(), *row_maxima.stride(), *column_maxima.stride(),
                *weight.stride(), *error.stride(), *gradient.stride(), *part.stride(),
                row_count, column.key.shape[1], size, row_blocks, channel_blocks,
                with_weight, BLOCK_ROWS, BLOCK_CHANNELS, **OPTIONS,
            )  # fmt: skip
    return gradient, part.sum((0, 1), dtype=torch.float64)


def parts(rows: PreparedKeys) -> tuple[Tensor, Tensor]:
    """Exponentials and row maxima of prepared rows.

    Raises:
        ValueError: They are not there.
    """
    if rows.exponentials is None or rows.row_maxima is None:
        raise ValueError("these keys have no exponentials; prepare_keys(key) makes them.")
    return rows.exponentials, rows.row_maxima


def unlaid(rows: PreparedKeys) -> PreparedKeys:
    """The same rows with exponentials laid out like rows, which the gradient reads along."""
    return rows._replace(exponentials=rows.key.mul(2.0).exp_())
