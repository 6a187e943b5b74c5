"""The only door to the arithmetic of attention: an operation is apart from who computes it.

Which backend serves a call is decided in this order: the argument `backend=`, the context manager
`use_backend`, the environment variable LUONG_BACKEND, and else `auto`. A backend that was named
runs or raises with the reason; `auto` takes the first that can, and logs its choice once.

`kernels.reference` is the specification: eager, any dtype, any device.
"""

from __future__ import annotations

import contextlib
import importlib
import logging
import os
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor

from luong.errors import UserError, nearest
from luong.kernels.prepared import PreparedKeys

__all__ = [
    "OPERATIONS",
    "PreparedKeys",
    "additive_scores",
    "choose",
    "dot_scores",
    "global_context",
    "local_context",
    "local_scores",
    "prepare_keys",
    "use_backend",
]

logger = logging.getLogger("luong.kernels")

OPERATIONS = (
    "prepare_keys",
    "additive_scores",
    "dot_scores",
    "global_context",
    "local_scores",
    "local_context",
)


class Backend(NamedTuple):
    """An engine: the module that holds a function for each operation, and what it can serve.

    `refusal(operation, device_type, dtype)` is None where the engine can serve, else the reason.
    """

    name: str
    module: str
    refusal: Callable[[str, str, torch.dtype], str | None]


class Choice(NamedTuple):
    """Which backend serves a call, and why those before it do not."""

    backend: str
    refusals: dict[str, str]


BACKENDS = (Backend("reference", "luong.kernels.reference", lambda *_: None),)

_chosen: ContextVar[str | None] = ContextVar("luong_backend", default=None)
_logged: set[tuple[str, str, torch.dtype]] = set()


@contextlib.contextmanager
def use_backend(name: str) -> Iterator[None]:
    """Compute with one backend inside a `with` block.

    Args:
        name: A backend, or "auto".

    Raises:
        UserError: No backend has that name.

    Example:
        >>> with use_backend("reference"):
        ...     result = attention(query, memory)
    """
    _checked(name)
    token = _chosen.set(name)
    try:
        yield
    finally:
        _chosen.reset(token)


def choose(
    operation: str, device_type: str, dtype: torch.dtype, backend: str | None = None
) -> Choice:
    """Decide which backend serves an operation; a pure function of its arguments and the settings.

    Args:
        operation: One of OPERATIONS.
        device_type: As in `tensor.device.type`.
        dtype: Of the tensors.
        backend: A name, or None to follow the context manager, the environment, and `auto`.

    Returns:
        The backend's name, and for each that came before it the reason why it cannot serve.

    Raises:
        UserError: The named backend does not exist or cannot serve this call.
    """
    name = _checked(backend or _chosen.get() or os.environ.get("LUONG_BACKEND") or "auto")
    refusals: dict[str, str] = {}
    for candidate in BACKENDS:
        if name not in ("auto", candidate.name):
            continue
        reason = candidate.refusal(operation, device_type, dtype)
        if reason is None:
            return Choice(candidate.name, refusals)
        refusals[candidate.name] = reason
    reasons = "; ".join(f"{engine}: {reason}" for engine, reason in refusals.items())
    raise UserError(f"No backend can serve {operation} on {device_type} in {dtype}: {reasons}.")


def _checked(name: str) -> str:
    known = ["auto", *(backend.name for backend in BACKENDS)]
    if name not in known:
        raise UserError(f"'{name}' is not a kernel backend.{nearest(name, known)}")
    return name


def _compute(operation: str, tensor: Tensor, backend: str | None, *arguments: Any) -> Any:
    """Run an operation on the chosen backend; the choice is logged once a kind of call."""
    choice = choose(operation, tensor.device.type, tensor.dtype, backend)
    kind = (operation, tensor.device.type, tensor.dtype)
    if kind not in _logged:
        _logged.add(kind)
        why = "".join(f"; not {name}: {reason}" for name, reason in choice.refusals.items())
        logger.debug("%s on %s in %s: %s%s", *kind, choice.backend, why)
    module = next(engine.module for engine in BACKENDS if engine.name == choice.backend)
    function = getattr(importlib.import_module(module), operation)
    # Sums over scores and weights are float32 at least, also where autocast would narrow them.
    with torch.autocast(tensor.device.type, enabled=False):
        return function(*arguments)


def prepare_keys(key: Tensor, *, backend: str | None = None) -> PreparedKeys:
    """Do once what every query would do again with the same projected keys.

    Args:
        key: Projected keys (..., S, n).
        backend: An engine's name; None for the default.

    Returns:
        The keys, in float32 at least, with what the engine wants beside them.
    """
    result: PreparedKeys = _compute("prepare_keys", key, backend, key)
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
    """
    result: Tensor = _compute("additive_scores", query, backend, query, key, weight)
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
    result: Tensor = _compute("dot_scores", query, backend, query, key)
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
    result: Tensor = _compute("global_context", weights, backend, weights, value)
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
    """
    arguments = (query, key, centres, half_width, weight)
    result: Tensor = _compute("local_scores", query, backend, *arguments)
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
    result: Tensor = _compute("local_context", weights, backend, weights, value, centres)
    return result
