"""The only door to the arithmetic of attention: an operation is apart from who computes it.

`kernels.reference` is the specification: eager, any dtype, any device. It also serves what only
plain torch can do: vmap and the other transforms of torch.func, forward-mode derivatives, and
export. `explain` tells which backend serves a call, and why the others do not; `kernels.dispatch`
says how that is decided.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from luong.kernels.continuations import Continuations
from luong.kernels.dispatch import (
    BACKENDS,
    OPERATIONS,
    Backend,
    choose,
    compute,
    explain,
    use_backend,
)
from luong.kernels.output import (
    accumulate,
    best_continuations,
    log_softmax,
    logit_gradients,
    softmax_sums,
)
from luong.kernels.prepared import PreparedKeys

__all__ = [
    "BACKENDS",
    "OPERATIONS",
    "Backend",
    "Continuations",
    "PreparedKeys",
    "accumulate",
    "additive_attention",
    "additive_scores",
    "best_continuations",
    "choose",
    "dot_attention",
    "dot_scores",
    "explain",
    "few_rows_product",
    "global_context",
    "int8_product",
    "local_context",
    "local_scores",
    "log_softmax",
    "logit_gradients",
    "lstm_sequences",
    "lstm_update",
    "prepare_keys",
    "softmax_context",
    "softmax_sums",
    "use_backend",
]


def _check_mask(mask: Tensor) -> None:
    # Engines would take a float mask for a bias, or for bytes.
    if mask.dtype != torch.bool:
        raise TypeError(f"mask has dtype {mask.dtype}; expected bool, True = may attend.")


def prepare_keys(key: Tensor, *, backend: str | None = None) -> PreparedKeys:
    """Do once what every query would do again with the same projected keys.

    Args:
        key: Projected keys (..., S, n).
        backend: An engine's name; None for the default.

    Returns:
        The keys, in float32 at least, with what the engine wants beside them.

    Example:
        >>> prepared = prepare_keys(keys)
        >>> scores = [additive_scores(query, prepared, weight) for query in steps]
    """
    result: PreparedKeys = compute("prepare_keys", key, backend, key)
    return result


def additive_scores(
    query: Tensor, key: Tensor | PreparedKeys, weight: Tensor, *, backend: str | None = None
) -> Tensor:
    """score[t, s] = sum_c weight_c tanh(query[t, c] + key[s, c]) (Bahdanau 2015, appendix A.1.2).

    Args:
        query: Projected queries (..., T, n).
        key: Projected keys (..., S, n), plain or prepared; leading dimensions broadcast.
        weight: The vector v (n).
        backend: An engine's name; None for the default.

    Returns:
        Scores (..., T, S), in float32 at least.

    Example:
        >>> query, key = torch.tensor([[1.0, 0.0]]), torch.tensor([[0.0, 1.0]])
        >>> additive_scores(query, key, torch.tensor([2.0, -1.0]))
        tensor([[0.7616]])
    """
    result: Tensor = compute("additive_scores", query, backend, query, key, weight)
    return result


def dot_scores(query: Tensor, key: Tensor, *, backend: str | None = None) -> Tensor:
    """score[t, s] = query[t] . key[s] (Luong 2015, equation 8).

    Args:
        query: (..., T, n).
        key: (..., S, n).
        backend: An engine's name; None for the default.

    Returns:
        Scores (..., T, S), in float32 at least.
    """
    result: Tensor = compute("dot_scores", query, backend, query, key)
    return result


def dot_attention(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor, *, backend: str | None = None
) -> Tensor:
    """The context of a dot-product attention whose weights nobody asks for.

    Args:
        query: (..., T, n), scaled already.
        key: (..., S, n).
        value: (..., S, v); finite also where masked.
        mask: Bool, broadcastable to (..., T, S), True = may attend.
        backend: An engine's name; None for the default.

    Returns:
        softmax(query key^T) value (..., T, v), in float32 at least; 0 for a row that may attend
        to nothing.

    Raises:
        TypeError: The mask is not bool.
    """
    _check_mask(mask)
    result: Tensor = compute("dot_attention", query, backend, query, key, value, mask)
    return result


def additive_attention(
    query: Tensor,
    key: Tensor | PreparedKeys,
    weight: Tensor,
    value: Tensor,
    mask: Tensor,
    bias: Tensor | None = None,
    *,
    backend: str | None = None,
) -> Tensor:
    """The context of an additive attention whose weights nobody asks for (Bahdanau 2015).

    Where it pays the T x S weights are never made.

    Args:
        query: Projected queries (..., T, n).
        key: Projected keys (..., S, n), plain or prepared; leading dimensions broadcast.
        weight: The vector v (n).
        value: (..., S, v); finite also where masked.
        mask: Bool, broadcastable to (..., T, S), True = may attend.
        bias: Float, added to the scores, broadcastable to (..., T, S).
        backend: An engine's name; None for the default.

    Returns:
        softmax(additive_scores + bias) value (..., T, v), in float32 at least; 0 for a row that
        may attend to nothing.

    Raises:
        TypeError: The mask is not bool.

    Example:
        >>> allowed = torch.arange(10) < lengths[:, None, None]
        >>> context = additive_attention(query, prepare_keys(key), weight, value, allowed)
    """
    _check_mask(mask)
    arguments = (query, key, weight, value, mask, bias)
    result: Tensor = compute("additive_attention", query, backend, *arguments)
    return result


def global_context(weights: Tensor, value: Tensor, *, backend: str | None = None) -> Tensor:
    """context[t] = sum_s weights[t, s] value[s].

    Args:
        weights: (..., T, S).
        value: (..., S, v).
        backend: An engine's name; None for the default.

    Returns:
        Context (..., T, v), in float32 at least.
    """
    result: Tensor = compute("global_context", weights, backend, weights, value)
    return result


def softmax_context(
    scores: Tensor, value: Tensor, mask: Tensor, *, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """What scores give where the weights are asked for, too.

    Args:
        scores: (B, T, S).
        value: (B, S, v); finite also where masked.
        mask: Bool, (B, T, S) or (B, 1, S), True = may attend.
        backend: An engine's name; None for the default.

    Returns:
        softmax(scores) value (B, T, v) and the softmax (B, T, S), in float32 at least; 0 for a
        row that may attend to nothing.

    Raises:
        TypeError: The mask is not bool.
    """
    _check_mask(mask)
    result: tuple[Tensor, Tensor] = compute("softmax_context", scores, backend, scores, value, mask)
    return result


def local_scores(
    query: Tensor,
    key: Tensor | PreparedKeys,
    centres: Tensor,
    half_width: int,
    weight: Tensor | None = None,
    *,
    backend: str | None = None,
) -> Tensor:
    """Scores of each query against the 2D+1 keys around its centre (Luong 2015, section 3.2).

    Args:
        query: Queries (..., T, n).
        key: Keys (..., S, n), plain or prepared.
        centres: Integer positions c (..., T); slot j of the band is source position c - D + j.
        half_width: D.
        weight: The vector v (n) of an additive score; None for a dot product.
        backend: An engine's name; None for the default.

    Returns:
        Scores (..., T, 2D+1), in float32 at least; exactly 0 in slots outside the source.

    Example:
        >>> rows = torch.ones(3, 2)
        >>> local_scores(rows[:1], rows, torch.tensor([0]), 1)
        tensor([[0., 2., 2.]])
    """
    arguments = (query, key, centres, half_width, weight)
    result: Tensor = compute("local_scores", query, backend, *arguments)
    return result


def local_context(
    weights: Tensor, value: Tensor, centres: Tensor, *, backend: str | None = None
) -> Tensor:
    """Sum the values under a band: context[t] = sum_j weights[t, j] value[c_t - D + j].

    Args:
        weights: Band weights (..., T, 2D+1).
        value: Values (..., S, v).
        centres: Integer positions (..., T).
        backend: An engine's name; None for the default.

    Returns:
        Context (..., T, v), in float32 at least; slots outside the source add nothing.
    """
    result: Tensor = compute("local_context", weights, backend, weights, value, centres)
    return result


def lstm_update(
    gates: Tensor, cell: Tensor, *, backend: str | None = None
) -> tuple[Tensor, Tensor]:
    """The element-wise part of a step of the LSTM (Hochreiter and Schmidhuber 1997).

    new cell = sigmoid(f) cell + sigmoid(i) tanh(g); new hidden = sigmoid(o) tanh(new cell).

    Args:
        gates: What the matrix products gave, the blocks i, f, g, o side by side (rows, 4H).
        cell: The cell before (rows, H).
        backend: An engine's name; None for the default.

    Returns:
        The new hidden state and the new cell (rows, H), in float32 at least.

    Example:
        >>> hidden, cell = lstm_update(torch.cat([inputs, hidden], -1) @ weight.t(), cell)
    """
    result: tuple[Tensor, Tensor] = compute("lstm_update", gates, backend, gates, cell)
    return result


def lstm_sequences(
    projected: Sequence[Tensor], weights: Sequence[Tensor], *, backend: str | None = None
) -> list[Tensor]:
    """All steps of LSTM layers that do not depend on one another, from states of zeros.

    Without derivatives, and for few sentences: each step reads the whole weight.

    Args:
        projected: Of each layer what its inputs give the gates, W_x x + b (T, B, 4H).
        weights: Of each the recurrent weight W_h (4H, H).
        backend: An engine's name; None for the default.

    Returns:
        The hidden states (T, B, H) of each.

    Example:
        >>> [forward, backward] = lstm_sequences([inputs, reversed_inputs], [first, second])
    """
    states: list[Tensor] = compute("lstm_sequences", projected[0], backend, projected, weights)
    return states


def few_rows_product(
    inputs: Tensor, weight: Tensor, start: Tensor | None = None, *, backend: str | None = None
) -> Tensor:
    """The product inputs W^T plus a start, without derivatives; for inputs of a few rows.

    Args:
        inputs: (rows, inputs), float32.
        weight: (outputs, inputs), float32.
        start: Added to the product: a bias (outputs), or (parts, outputs), each for as many of
            the rows in turn.
        backend: An engine's name; None for the default.

    Returns:
        (rows, outputs). `products.linear` takes it where it pays.
    """
    result: Tensor = compute("few_rows_product", inputs, backend, inputs, weight, start)
    return result


def int8_product(
    inputs: Tensor,
    weight: Tensor,
    scales: Tensor,
    packed: Any = None,
    start: Tensor | None = None,
    *,
    backend: str | None = None,
) -> Tensor:
    """The product of rows in 7 bits with a matrix in 8, plus a start, without derivatives.

    With a row x and p the whole numbers nearest to 63 x / max|x|, the product is
    max|x| / 63 diag(scales) (Q p). The sums Q p are exact, and nothing depends on other rows.

    Args:
        inputs: (rows, inputs), float32.
        weight: Q, int8 (outputs, inputs).
        scales: Of the rows of Q (outputs), float32.
        packed: The matrix as `int8_layout.packed` lays it out, for engines that read it so.
        start: Added to the product: a bias (outputs), or (parts, outputs), each for as many of
            the rows in turn.
        backend: An engine's name; None for the default.

    Returns:
        (rows, outputs), float32; NaN for a row in which a number is not finite.

    Example:
        >>> int8_product(
        ...     torch.tensor([[63.0, 1.0]]), torch.tensor([[2, 3]]).char(), torch.ones(1)
        ... )
        tensor([[129.]])
    """
    arguments = (inputs, weight, scales, packed, start)
    result: Tensor = compute("int8_product", inputs, backend, *arguments)
    return result
