"""Who computes an operation: named backends, and the order in which they are asked.

The setting is the argument `backend=`, else the context manager `use_backend`, else the
environment variable LUONG_BACKEND, else `auto`. A backend that was named runs or raises with the
reason; `auto` takes the first that can, and logs its choice once.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd import forward_ad

from luong.errors import UserError, nearest
from luong.kernels import triton_refusal

logger = logging.getLogger("luong.kernels")

OPERATIONS = (
    "prepare_keys",
    "additive_scores",
    "dot_scores",
    "dot_attention",
    "additive_attention",
    "global_context",
    "softmax_context",
    "local_scores",
    "local_context",
    "lstm_update",
    "lstm_sequences",
    "few_rows_product",
    "int8_product",
    "log_softmax",
    "softmax_sums",
    "logit_gradients",
    "accumulate",
    "best_continuations",
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


def _cpu_refusal(operation: str, device_type: str, dtype: torch.dtype) -> str | None:
    if device_type != "cpu":
        return f"it computes on cpu, not on {device_type}"
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"it computes in float32, which is not enough for {dtype}"
    if importlib.util.find_spec("numba") is None:
        return "numba is not installed"
    return None


BACKENDS = (
    Backend("cpu", "luong.kernels.cpu", _cpu_refusal),
    Backend("triton", "luong.kernels.triton", triton_refusal.refusal),
    Backend("reference", "luong.kernels.reference", lambda *_: None),
)

_chosen: ContextVar[str | None] = ContextVar("luong_backend", default=None)
# The same, as torch.compile sees it: it cannot read a ContextVar.
_chosen_last: str | None = None
_served: dict[tuple[str, str, torch.dtype, str, str | None], str] = {}


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
    global _chosen_last
    _checked(name)
    token = _chosen.set(name)
    _chosen_last = name
    try:
        yield
    finally:
        _chosen.reset(token)
        _chosen_last = _chosen.get()


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
    return _chosen_among(operation, device_type, dtype, _named(backend), plain_torch())


def explain(
    operation: str, device_type: str, dtype: torch.dtype, *, backend: str | None = None
) -> str:
    """Tell which backend serves a call here and now, and why the others do not.

    Args:
        operation: One of OPERATIONS.
        device_type: As in `tensor.device.type`.
        dtype: Of the tensors.
        backend: As for `choose`.

    Returns:
        A line for the call, and one for each backend.

    Raises:
        UserError: The operation or the named backend does not exist.

    Example:
        >>> print(explain("additive_scores", "cpu", torch.float64))
        additive_scores on cpu in torch.float64 (backend: auto)
          cpu: no, it computes in float32, which is not enough for torch.float64
          triton: no, it runs on CUDA devices, and the tensors are on cpu
          reference: serves
    """
    if operation not in OPERATIONS:
        raise UserError(f"'{operation}' is not an operation.{nearest(operation, OPERATIONS)}")
    name, transform = _named(backend), plain_torch()
    lines = [f"{operation} on {device_type} in {dtype} (backend: {name})"]
    served = False
    for candidate in BACKENDS:
        reason = _reason(candidate, operation, device_type, dtype, transform)
        if name not in ("auto", candidate.name):
            verdict = f"not asked, as {name} was named"
        elif reason is not None:
            verdict = f"no, {reason}"
        else:
            verdict = "could, but one before it serves" if served else "serves"
            served = True
        lines.append(f"  {candidate.name}: {verdict}")
    return "\n".join(lines)


def _chosen_among(
    operation: str, device_type: str, dtype: torch.dtype, name: str, transform: str | None
) -> Choice:
    refusals: dict[str, str] = {}
    for candidate in BACKENDS:
        if name not in ("auto", candidate.name):
            continue
        reason = _reason(candidate, operation, device_type, dtype, transform)
        if reason is None:
            return Choice(candidate.name, refusals)
        refusals[candidate.name] = reason
    reasons = "; ".join(f"{engine}: {reason}" for engine, reason in refusals.items())
    raise UserError(f"No backend can serve {operation} on {device_type} in {dtype}: {reasons}.")


def _reason(
    candidate: Backend,
    operation: str,
    device_type: str,
    dtype: torch.dtype,
    transform: str | None,
) -> str | None:
    """Why a backend cannot serve; None if it can."""
    if transform is not None and candidate.name != "reference":
        return transform
    return candidate.refusal(operation, device_type, dtype)


def plain_torch() -> str | None:
    """The reason why only plain torch will do here and now; None if kernels may run."""
    if torch.compiler.is_compiling():
        return "export takes the operations apart" if torch.compiler.is_exporting() else None
    if torch._C._are_functorch_transforms_active():
        return "a transform of torch.func is active"
    if forward_ad._current_level >= 0:
        return "forward-mode derivatives are active"
    if torch._C._get_tracing_state() is not None:
        return "torch.jit is tracing"
    return None


def _named(backend: str | None) -> str:
    chosen = _chosen_last if torch.compiler.is_compiling() else _chosen.get()
    return _checked(backend or chosen or os.environ.get("LUONG_BACKEND") or "auto")


def _checked(name: str) -> str:
    if name == "auto":
        return name
    known = ["auto", *(backend.name for backend in BACKENDS)]
    if name not in known:
        raise UserError(f"'{name}' is not a kernel backend.{nearest(name, known)}")
    return name


def compute(operation: str, tensor: Tensor, backend: str | None, *arguments: Any) -> Any:
    """Run an operation on the chosen backend.

    Args:
        operation: One of OPERATIONS.
        tensor: The argument whose device and type decide.
        backend: As for `choose`.
        arguments: What the operation takes.

    Raises:
        UserError: As for `choose`.
    """
    device_type = tensor.device.type
    call = (operation, device_type, tensor.dtype, _named(backend), plain_torch())
    # A tracer would guard what it sees of the table, which the call itself fills.
    module = None if torch.compiler.is_compiling() else _served.get(call)
    if module is None:
        module = _serve(call)
    function = getattr(sys.modules[module], operation)
    if torch.is_autocast_enabled(device_type):
        # Sums over scores and weights are float32 at least, also where autocast would narrow them.
        with torch.autocast(device_type, enabled=False):
            return function(*arguments)
    return function(*arguments)


def _serve(call: tuple[str, str, torch.dtype, str, str | None]) -> str:
    """Choose who serves a kind of call, import that module, log the choice, and remember."""
    choice = _chosen_among(*call)
    why = "".join(f"; not {name}: {reason}" for name, reason in choice.refusals.items())
    logger.debug("%s on %s in %s: %s%s", *call[:3], choice.backend, why)
    module = next(engine.module for engine in BACKENDS if engine.name == choice.backend)
    importlib.import_module(module)
    _served[call] = module
    return module


# torch.compile calls it and keeps the answer: tracing could follow neither imports nor logging.
# By hand, as `torch.compiler.assume_constant_result` would import the whole compiler.
_serve._dynamo_marked_constant = True  # type: ignore[attr-defined]
