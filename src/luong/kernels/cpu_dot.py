"""Loops of dot-product attention for a few queries of each source on the CPU, and backward.

A decoder's step asks once of each source. As batched products that is six thin ones forward and
backward, with five passes of softmax between them; here keys and values are read once each way.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import flags, floats, inlined, numbers
from luong.kernels.cpu_rows import dot
from luong.kernels.cpu_softmax import add_multiple, attend_row
from luong.kernels.team import Loop

Floats = NDArray[np.float32]
Bools = NDArray[np.bool_]

_ZERO = np.float32(0.0)


@Loop
def attend(first: int, last: int, call: int) -> None:
    """Weights and context of the sources [first, last), each with `steps` queries.

    `query` is the address of (B, T, n); so are `key` (B, S, n), `value` (B, S, v), the mask (B, T
    or 1, S), and of the results `weights` (B, T, S) and `context` (B, T, v).
    """
    (
        query, key, value, mask, steps, source, size, value_size, mask_steps, weights, context,
    ) = numbers(call, 11)  # fmt: skip
    queries, keys = floats(query, last * steps, size), floats(key, last * source, size)
    values = floats(value, last * source, value_size)
    contexts = floats(context, last * steps, value_size)
    allowed, made = flags(mask, last * mask_steps, source), floats(weights, last * steps, source)
    scores = np.empty(source, np.float32)
    for sentence in range(first, last):
        start, stop = sentence * source, (sentence + 1) * source
        for step in range(steps):
            row = sentence * steps + step
            seen = allowed[sentence * mask_steps + min(step, mask_steps - 1)]
            for s in range(source):
                scores[s] = dot(keys[start + s], queries[row])
            attend_row(scores, seen, values[start:stop], made[row], contexts[row])


@inlined
def _row_gradients(
    incoming: Floats,
    query: Floats,
    keys: Floats,
    values: Floats,
    allowed: Bools,
    weights: Floats,
    to_weights: Floats,
    to_query: Floats,
    to_keys: Floats,
    to_values: Floats,
) -> None:
    mean = _ZERO
    for s in range(weights.shape[0]):
        if allowed[s]:
            to_weights[s] = dot(values[s], incoming)
            mean += weights[s] * to_weights[s]
    for s in range(weights.shape[0]):
        if allowed[s]:
            to_score = weights[s] * (to_weights[s] - mean)
            add_multiple(to_score, keys[s], to_query)
            add_multiple(to_score, query, to_keys[s])
            add_multiple(weights[s], incoming, to_values[s])


@Loop
def gradients(first: int, last: int, call: int) -> None:
    """Gradients of `attend` for queries, keys and values of the sources [first, last).

    `incoming` is the address of the context's gradient (B, T, v); the others are as there.
    """
    (
        incoming, query, key, value, mask, weights, steps, source, size, value_size, mask_steps,
        query_gradient, key_gradient, value_gradient,
    ) = numbers(call, 14)  # fmt: skip
    given, queries = floats(incoming, last * steps, value_size), floats(query, last * steps, size)
    keys, values = floats(key, last * source, size), floats(value, last * source, value_size)
    allowed, made = flags(mask, last * mask_steps, source), floats(weights, last * steps, source)
    to_queries = floats(query_gradient, last * steps, size)
    to_keys = floats(key_gradient, last * source, size)
    to_values = floats(value_gradient, last * source, value_size)
    to_weights = np.empty(source, np.float32)
    for sentence in range(first, last):
        start, stop = sentence * source, (sentence + 1) * source
        to_keys[start:stop] = _ZERO
        to_values[start:stop] = _ZERO
        for step in range(steps):
            row = sentence * steps + step
            to_queries[row] = _ZERO
            _row_gradients(
                given[row],
                queries[row],
                keys[start:stop],
                values[start:stop],
                allowed[sentence * mask_steps + min(step, mask_steps - 1)],
                made[row],
                to_weights,
                to_queries[row],
                to_keys[start:stop],
                to_values[start:stop],
            )
