"""Additive attention that never stores its T x S scores, as Triton kernels.

The forward walks the source in tiles with a running maximum and sum (online softmax: Milakov and
Gimelshein 2018; Dao 2022) and keeps, beside its inputs, the context and the log-sum-exp of each
row. The backward scores again, in chunks of at most CHUNK pairs, whatever T and S; what comes
after the scores there is the gradient kernel of `triton_additive` and matrix products.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import torch
import triton
import triton.language as tl
from torch import Tensor

from luong.kernels import reference
from luong.kernels.prepared import PreparedKeys
from luong.kernels.triton_additive import (
    BLOCK_KEYS,
    BLOCK_QUERIES,
    MERGED,
    OPTIONS,
    parts,
    prepare,
    row_gradient,
    tile_scores,
    unlaid,
)

# 64 MiB of float32: far more pairs than fill a card, far less than a long source squared.
CHUNK = 2**24
# Context columns that one program sums in registers; wider values take several programs, each of
# which scores again. 256 take 72 KiB of shared memory.
MOST_VALUES = 256


@triton.jit
def _scored_tile(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, mask, bias,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    bias_batch, bias_row, bias_step,
    batch, queries, keys, query_live, key_live, allowed, size,
    with_bias: tl.constexpr, merged: tl.constexpr,
):  # fmt: skip
    """Scores of a tile with their bias, -inf where nothing may be attended."""
    scores = tile_scores(
        query + batch * query_batch, key + batch * key_batch,
        query_power + batch * query_power_batch, key_power + batch * key_power_batch,
        query_maximum + batch * query_maximum_batch, key_maximum + batch * key_maximum_batch,
        weight, query_row, query_step, key_row, key_step,
        query_power_row, query_power_step, key_power_row, key_power_step,
        query_maximum_row, key_maximum_row, weight_step,
        queries, keys, query_live, key_live, allowed, size, merged,
    )  # fmt: skip
    if with_bias:
        at = bias + batch * bias_batch + queries[:, None] * bias_row + keys[None, :] * bias_step
        scores += tl.load(at, mask=allowed, other=0.0)
    return tl.where(allowed, scores, float("-inf"))


@triton.jit
def _attention_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, mask, bias,
    value, lengths, context, log_sum,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    mask_batch, mask_row, mask_step, bias_batch, bias_row, bias_step,
    value_batch, value_row, value_step, lengths_step, context_batch, context_row, context_step,
    log_sum_batch, log_sum_row,
    query_count, size, value_size, query_blocks, value_blocks,
    with_bias: tl.constexpr, merged: tl.constexpr,
    block_queries: tl.constexpr, block_keys: tl.constexpr, block_values: tl.constexpr,
):  # fmt: skip
    program = tl.program_id(0).to(tl.int64)
    batch = program // (query_blocks * value_blocks)
    value_block = program % value_blocks
    query_block = (program // value_blocks) % query_blocks
    queries = query_block * block_queries + tl.arange(0, block_queries)
    columns = value_block * block_values + tl.arange(0, block_values)
    query_live = queries < query_count
    column_live = columns < value_size
    length = tl.load(lengths + batch * lengths_step)
    top = tl.full([block_queries], float("-inf"), tl.float32)
    total = tl.zeros([block_queries], tl.float32)
    sums = tl.zeros([block_queries, block_values], tl.float32)
    for start in range(0, length, block_keys):
        keys = tl.cast(start, tl.int64) + tl.arange(0, block_keys)
        key_live = keys < length
        allowed = query_live[:, None] & key_live[None, :]
        mask_at = mask + batch * mask_batch + queries[:, None] * mask_row
        mask_at += keys[None, :] * mask_step
        allowed = allowed & (tl.load(mask_at, mask=allowed, other=0) != 0)
        seen = tl.max(allowed.to(tl.int32), 0) != 0
        if tl.max(seen.to(tl.int32), 0) == 1:
            scores = _scored_tile(
                query, key, query_power, key_power, query_maximum, key_maximum, weight, mask, bias,
                query_batch, query_row, query_step, key_batch, key_row, key_step,
                query_power_batch, query_power_row, query_power_step,
                key_power_batch, key_power_row, key_power_step,
                query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row,
                weight_step, bias_batch, bias_row, bias_step,
                batch, queries, keys, query_live, key_live, allowed, size, with_bias, merged,
            )  # fmt: skip
            higher = tl.maximum(top, tl.max(scores, 1))
            # A row that has seen nothing yet has no maximum to subtract.
            shift = tl.where(higher == float("-inf"), 0.0, higher)
            shares = tl.where(allowed, tl.exp(scores - shift[:, None]), 0.0)
            fade = tl.exp(top - shift)
            total = total * fade + tl.sum(shares, 1)
            sums *= fade[:, None]
            top = higher
            value_at = value + batch * value_batch + keys[:, None] * value_row
            value_at += columns[None, :] * value_step
            wanted = seen[:, None] & column_live[None, :]
            values = tl.load(value_at, mask=wanted, other=0.0)
            unbounded = (tl.abs(values) < float("inf")) == 0
            if tl.max(tl.max(unbounded.to(tl.int32), 1), 0) == 0:
                sums += tl.dot(shares, values, input_precision="ieee")
            else:
                # 0 times NaN is NaN: here each row must be kept from the queries it is masked for.
                for slot in range(0, block_keys):
                    chosen = (tl.arange(0, block_keys) == slot)[None, :] & allowed
                    share = tl.sum(tl.where(chosen, shares, 0.0), 1)
                    sees = tl.max(chosen.to(tl.int32), 1) != 0
                    # Slots beyond the end are seen by no query; they read the last row.
                    position = tl.minimum(tl.cast(start, tl.int64) + slot, length - 1)
                    row_at = value + batch * value_batch + position * value_row
                    row = tl.load(row_at + columns * value_step, mask=column_live, other=0.0)
                    part = share[:, None] * row[None, :]
                    sums += tl.where(sees[:, None], part, 0.0)
    empty = total == 0.0
    sums = tl.where(empty[:, None], 0.0, sums / total[:, None])
    context_at = context + batch * context_batch + queries[:, None] * context_row
    context_at += columns[None, :] * context_step
    tl.store(context_at, sums, mask=query_live[:, None] & column_live[None, :])
    if value_block == 0:
        norm_at = log_sum + batch * log_sum_batch + queries * log_sum_row
        tl.store(norm_at, tl.where(empty, float("-inf"), top + tl.log(total)), mask=query_live)


@triton.jit
def _softmax_gradient_kernel(
    query, key, query_power, key_power, query_maximum, key_maximum, weight, mask, bias,
    log_sum, inner, shares, error,
    query_batch, query_row, query_step, key_batch, key_row, key_step,
    query_power_batch, query_power_row, query_power_step,
    key_power_batch, key_power_row, key_power_step,
    query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row, weight_step,
    mask_batch, mask_row, mask_step, bias_batch, bias_row, bias_step,
    log_sum_batch, log_sum_row, inner_batch, inner_row,
    shares_batch, shares_row, shares_step, error_batch, error_row, error_step,
    query_count, key_count, size, query_blocks, key_blocks,
    with_bias: tl.constexpr, merged: tl.constexpr,
    block_queries: tl.constexpr, block_keys: tl.constexpr,
):  # fmt: skip
    # `error` comes in as the gradient of the weights and goes out as that of the scores.
    program = tl.program_id(0).to(tl.int64)
    batch = program // (query_blocks * key_blocks)
    block = program % (query_blocks * key_blocks)
    queries = (block // key_blocks) * block_queries + tl.arange(0, block_queries)
    keys = (block % key_blocks) * block_keys + tl.arange(0, block_keys)
    query_live = queries < query_count
    key_live = keys < key_count
    live = query_live[:, None] & key_live[None, :]
    at = mask + batch * mask_batch + queries[:, None] * mask_row + keys[None, :] * mask_step
    allowed = tl.load(at, mask=live, other=0) != 0
    norm_at = log_sum + batch * log_sum_batch + queries * log_sum_row
    norm = tl.load(norm_at, mask=query_live, other=float("-inf"))
    allowed = allowed & (norm != float("-inf"))[:, None]
    share = tl.zeros(live.shape, tl.float32)
    gradient = tl.zeros(live.shape, tl.float32)
    error_at = error + batch * error_batch + queries[:, None] * error_row
    error_at += keys[None, :] * error_step
    if tl.max(tl.max(allowed.to(tl.int32), 1), 0) == 1:
        scores = _scored_tile(
            query, key, query_power, key_power, query_maximum, key_maximum, weight, mask, bias,
            query_batch, query_row, query_step, key_batch, key_row, key_step,
            query_power_batch, query_power_row, query_power_step,
            key_power_batch, key_power_row, key_power_step,
            query_maximum_batch, query_maximum_row, key_maximum_batch, key_maximum_row,
            weight_step, bias_batch, bias_row, bias_step,
            batch, queries, keys, query_live, key_live, allowed, size, with_bias, merged,
        )  # fmt: skip
        share = tl.where(allowed, tl.exp(scores - norm[:, None]), 0.0)
        mean_at = inner + batch * inner_batch + queries * inner_row
        mean = tl.load(mean_at, mask=query_live, other=0.0)
        incoming = tl.load(error_at, mask=allowed, other=0.0)
        gradient = tl.where(allowed, share * (incoming - mean[:, None]), 0.0)
    shares_at = shares + batch * shares_batch + queries[:, None] * shares_row
    tl.store(shares_at + keys[None, :] * shares_step, share, mask=live)
    tl.store(error_at, gradient, mask=live)


class Attended(NamedTuple):
    """What one call attends to, batch first; the bias may be absent.

    Attributes:
        query: Prepared in BLOCK_QUERIES: (B, T, n).
        key: Prepared (B, S, n).
        weight: The vector v (n).
        mask: Bytes (B, T, S), 0 = masked.
        bias: Float32 (B, T, S).
    """

    query: PreparedKeys
    key: PreparedKeys
    weight: Tensor
    mask: Tensor
    bias: Tensor | None

    def launch(self) -> tuple[list[Tensor], list[int]]:
        """The tensors that both kernels begin with, and their strides."""
        query, key = self.query, self.key
        query_power, query_maxima = parts(query)
        key_power, key_maxima = parts(key)
        tensors = [
            query.key, key.key, query_power, key_power, query_maxima, key_maxima, self.weight,
            self.mask, self.weight.expand(1, 1, -1) if self.bias is None else self.bias,
        ]  # fmt: skip
        return tensors, [stride for tensor in tensors for stride in tensor.stride()]

    def piece(self, batch: slice, queries: slice, keys: slice) -> Attended:
        """A part of it, for the backward: views, except for the queries' exponentials."""
        query = self.query.key[batch, queries]
        power, maxima = parts(self.key)
        return Attended(
            prepare(query, BLOCK_QUERIES),
            PreparedKeys(self.key.key[batch, keys], power[batch, keys], maxima[batch, keys]),
            self.weight,
            self.mask[batch, queries, keys],
            None if self.bias is None else self.bias[batch, queries, keys],
        )


def attention_forward(attended: Attended, value: Tensor, lengths: Tensor) -> tuple[Tensor, Tensor]:
    """Context (B, T, v) and log-sum-exp of the scores (B, T), float32.

    Args:
        attended: What is attended to.
        value: (B, S, v).
        lengths: int64 (B,): keys from there on are masked for all queries.
    """
    batch, query_count, size = attended.query.key.shape
    value_size = value.shape[-1]
    context = attended.weight.new_empty(batch, query_count, value_size)
    log_sum = attended.weight.new_empty(batch, query_count)
    query_blocks = triton.cdiv(query_count, BLOCK_QUERIES)
    block_values = min(max(triton.next_power_of_2(value_size), 16), MOST_VALUES)
    value_blocks = max(triton.cdiv(value_size, block_values), 1)
    tensors, strides = attended.launch()
    # Scores and the sums of a wide value together would fill the registers of 4 warps.
    options = OPTIONS | {"num_warps": 8}
    if log_sum.numel():
        with torch.cuda.device_of(context):
            _attention_kernel[(batch * query_blocks * value_blocks,)](
                *tensors, value, lengths, context, log_sum,
                *strides, *value.stride(), *lengths.stride(), *context.stride(), *log_sum.stride(),
                query_count, size, value_size, query_blocks, value_blocks,
                attended.bias is not None, MERGED,
                BLOCK_QUERIES, BLOCK_KEYS, block_values, **options,
            )  # fmt: skip
    return context, log_sum


def softmax_gradient(attended: Attended, log_sum: Tensor, inner: Tensor, error: Tensor) -> Tensor:
    """Turn `error` (B, T, S) from the gradient of the weights into that of the scores, in place.

    Returns:
        The weights (B, T, S).
    """
    batch, query_count, key_count = error.shape
    shares = torch.empty_like(error)
    query_blocks = triton.cdiv(query_count, BLOCK_QUERIES)
    key_blocks = triton.cdiv(key_count, BLOCK_KEYS)
    tensors, strides = attended.launch()
    with torch.cuda.device_of(error):
        _softmax_gradient_kernel[(batch * query_blocks * key_blocks,)](
            *tensors, log_sum, inner, shares, error,
            *strides, *log_sum.stride(), *inner.stride(), *shares.stride(), *error.stride(),
            query_count, key_count, attended.weight.shape[0], query_blocks, key_blocks,
            attended.bias is not None, MERGED,
            BLOCK_QUERIES, BLOCK_KEYS, **OPTIONS,
        )  # fmt: skip
    return shares


def pieces(batch: int, queries: int, keys: int) -> Iterator[tuple[slice, slice, slice]]:
    """Cut B x T x S pairs into boxes of at most about CHUNK, in a fixed order."""
    key_size = max(1, min(keys, CHUNK // BLOCK_QUERIES))
    query_size = max(1, min(queries, CHUNK // key_size))
    batch_size = max(1, CHUNK // (key_size * query_size))
    for row in range(0, batch, batch_size):
        for query in range(0, queries, query_size):
            for key in range(0, keys, key_size):
                yield (
                    slice(row, row + batch_size),
                    slice(query, query + query_size),
                    slice(key, key + key_size),
                )


class AdditiveAttention(torch.autograd.Function):
    """Context (B, T, v) of additive attention; see `Attended`."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, key: Tensor, weight: Tensor, value: Tensor,
        bias: Tensor | None, power: Tensor, maxima: Tensor, mask: Tensor, lengths: Tensor,
    ) -> Tensor:  # fmt: skip
        """Attend, and keep the inputs, the context and the log-sum-exp."""
        attended = Attended(
            prepare(query, BLOCK_QUERIES),
            PreparedKeys(key, power, maxima),
            weight, mask, bias,
        )  # fmt: skip
        context, log_sum = attention_forward(attended, value, lengths)
        ctx.save_for_backward(
            query, key, weight, value, bias, power, maxima, mask, context, log_sum
        )
        return context

    @staticmethod
    def backward(ctx: Any, context_error: Tensor) -> tuple[Tensor | None, ...]:
        """Score again, piece by piece, and sum each piece's gradients."""
        query, key, weight, value, bias, power, maxima, mask, context, log_sum = ctx.saved_tensors
        if torch.is_grad_enabled():
            allowed = mask.view(torch.bool)
            again = reference.additive_attention(query, key, weight, value, allowed, bias)
            inputs = (query, key, weight, value, bias)
            return *reference.differentiable(again, inputs, context_error), *(None,) * 4
        whole = Attended(PreparedKeys(query), PreparedKeys(key, power, maxima), weight, mask, bias)
        inner = (context_error * context).sum(-1)
        sums = [torch.zeros_like(tensor) for tensor in (query, key, value)]
        weight_sum = torch.zeros_like(weight, dtype=torch.float64)
        bias_sum = None
        if bias is not None and ctx.needs_input_grad[4]:
            bias_sum = bias.new_zeros(bias.shape)
        # The caller may still be inside autocast, which would narrow the two products.
        with torch.autocast(query.device.type, enabled=False):
            for rows, queries, keys in pieces(query.shape[0], query.shape[1], key.shape[1]):
                part = whole.piece(rows, queries, keys)
                incoming = context_error[rows, queries]
                error = incoming @ value[rows, keys].transpose(1, 2)
                shares = softmax_gradient(part, log_sum[rows, queries], inner[rows, queries], error)
                sums[2][rows, keys] += shares.transpose(1, 2) @ incoming
                if bias_sum is not None:
                    bias_sum[rows, queries, keys] = error
                query_side, key_side = unlaid(part.query), unlaid(part.key)
                gradient, total = row_gradient(
                    query_side, key_side, weight, error, with_weight=True
                )
                sums[0][rows, queries] += gradient
                weight_sum += total
                swapped = error.transpose(1, 2)
                gradient, _ = row_gradient(key_side, query_side, weight, swapped, with_weight=False)
                sums[1][rows, keys] += gradient
        return (
            sums[0], sums[1], weight_sum.to(weight.dtype), sums[2], bias_sum,
            None, None, None, None,
        )  # fmt: skip
