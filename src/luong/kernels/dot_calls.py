"""Calls of the compiled loops of dot-product attention for a few queries of each source."""

from __future__ import annotations

import torch
from torch import Tensor

from luong.kernels import cpu_dot
from luong.kernels.cpu_calls import checked, empty


def serve(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> bool:
    """Whether the loops read these tensors where they lie: one source for each batch entry."""
    tensors = (query, key, value)
    return (
        all(x.dim() == 3 and x.dtype == torch.float32 and x.is_contiguous() for x in tensors)
        and len(query) == len(key) == len(value)
        and mask.dim() == 3
        and mask.shape[0] == len(query)
        and mask.shape[1] in (1, query.shape[1])
    )


def attend(query: Tensor, key: Tensor, value: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Context (B, T, v) of values (B, S, v), and weights (B, T, S)."""
    given, sizes = _given(query, key, value, mask)
    batch, steps = query.shape[:2]
    source, value_size = value.shape[1:]
    weights, context = empty(batch, steps, source), empty(batch, steps, value_size)
    addresses = [tensor.data_ptr() for tensor in given]
    cpu_dot.attend(batch, _work(sizes), *addresses, *sizes, weights.data_ptr(), context.data_ptr())
    return context, weights


def gradients(
    incoming: Tensor, query: Tensor, key: Tensor, value: Tensor, mask: Tensor, weights: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gradients of the context for query, key and value."""
    given, sizes = _given(query, key, value, mask)
    incoming = checked(incoming, *query.shape[:2], value.shape[2])
    made = empty(*query.shape), empty(*key.shape), empty(*value.shape)
    addresses = [tensor.data_ptr() for tensor in (incoming, *given, weights)]
    out = [tensor.data_ptr() for tensor in made]
    cpu_dot.gradients(len(query), 3 * _work(sizes), *addresses, *sizes, *out)
    return made


def _given(
    query: Tensor, key: Tensor, value: Tensor, mask: Tensor
) -> tuple[tuple[Tensor, ...], tuple[int, ...]]:
    """The tensors as the loops read them, and their sizes."""
    batch, steps, size = query.shape
    source, value_size = value.shape[1:]
    key, value = checked(key, batch, source, size), checked(value, batch, source, value_size)
    mask = checked(mask, batch, mask.shape[1], source, dtype=torch.bool)
    return (query, key, value, mask), (steps, source, size, value_size, mask.shape[1])


def _work(sizes: tuple[int, ...]) -> int:
    """Terms of the sums of one source."""
    steps, source, size, value_size, _ = sizes
    return steps * source * (size + value_size)
