"""How a run multiplies: in which type and by which library, chosen by measuring both.

On one CPU float32 by oneDNN takes half the time of torch's default library, on another none of it
pays, and on a third oneDNN silently computes in bfloat16. So nothing is assumed: products of the
shapes of a training step are timed, and checked against float64, once for each machine.
"""

from __future__ import annotations

import json
import math
import os
import platform
import time
from contextlib import AbstractContextManager, suppress
from pathlib import Path
from typing import NamedTuple

import torch
from torch import Tensor

from luong.errors import UserError
from luong.files import write_whole
from luong.kernels.products import Library, multiply, use_library

STEP = (64, 1024, 2048)
"""Rows, inputs and outputs of a recurrent step's product."""
OUTPUT = (1000, 512, 8000)
"""The same of the output layer."""

_ERRORS = {torch.float32: 1e-5, torch.bfloat16: 1e-2}
"""Largest error borne, over the largest element of the product."""

_GAINS = {torch.float32: 0.9, torch.bfloat16: 0.7}
"""What of the time a way may take at most to be worth leaving plain float32 for it. In bfloat16
weights must be converted, too, and not all of a step is products."""

_SECONDS = 0.8


class Precision(NamedTuple):
    """A way of multiplying.

    Attributes:
        dtype: float32, or bfloat16 with weights and sums in float32.
        library: "onednn", or "default" for what torch takes; see `kernels.products`.
        reason: Why this one, in words.
    """

    dtype: torch.dtype
    library: Library = "default"
    reason: str = "as set"

    @property
    def name(self) -> str:
        """The way in words."""
        name = str(self.dtype).removeprefix("torch.")
        return f"{name} by oneDNN" if self.library == "onednn" else name

    @property
    def saved(self) -> dict[str, str]:
        """What a model folder keeps."""
        return {
            "dtype": str(self.dtype).removeprefix("torch."),
            "library": self.library,
            "reason": self.reason,
        }

    def applied(self) -> AbstractContextManager[None]:
        """A block in which products are computed in this way."""
        return use_library(self.library)


class Measured(NamedTuple):
    """What a way of multiplying showed.

    Attributes:
        seconds: Of the products of a training step; infinity where the error cannot be borne.
        error: Largest error over the largest element.
    """

    seconds: float
    error: float


def choose_precision(
    name: str,
    device: torch.device,
    *,
    saved: dict[str, str] | None = None,
) -> Precision:
    """Choose how products are computed.

    Args:
        name: "float32", "bfloat16" or "auto".
        device: Where training runs.
        saved: What the run that is resumed keeps of its choice.

    Returns:
        The way, and the reason in words.

    Raises:
        UserError: The CPU is to multiply in bfloat16 and cannot.

    Example:
        >>> choose_precision("float32", torch.device("cpu")).name
        'float32'
    """
    if device.type != "cpu":
        return _on_gpu(name, device)
    narrow = _cpu_has_bfloat16()
    if name == "bfloat16" and not narrow:
        raise UserError(
            "training.precision = 'bfloat16' needs a CPU with AVX512-BF16 or AMX; this one has "
            "neither. Use 'auto' or 'float32'."
        )
    if name == "bfloat16":
        return Precision(torch.bfloat16)
    ways = [Precision(torch.float32), Precision(torch.float32, "onednn")]
    if name == "auto" and narrow:
        ways.append(Precision(torch.bfloat16))
    again = _saved_way(ways, saved)
    if again is not None:
        return again
    return _fastest(ways, _measurements(ways))


def autocast(device: torch.device, dtype: torch.dtype) -> AbstractContextManager[None]:
    """Products in a type, weights and sums in float32."""
    narrow = dtype != torch.float32
    return torch.autocast(device.type, dtype if narrow else None, enabled=narrow)


def cache_file() -> Path:
    """Where measurements are kept for the next run; delete it to measure again."""
    folder = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(folder) / "luong" / "precision.json"


def measure(ways: list[Precision]) -> dict[str, Measured]:
    """Time and check ways of multiplying, in turns; in about a second at most.

    Returns:
        For each way, by its name, its error and, where that can be borne, its best time.
    """
    start = time.perf_counter()
    errors = {way.name: _error(way) for way in ways}
    exact = [way for way in ways if errors[way.name] <= _ERRORS[way.dtype]]
    steps, outputs = ({way.name: math.inf for way in exact} for _ in range(2))
    step, output = _factors(STEP), _factors(OUTPUT)
    for number in range(8):
        began = time.perf_counter()
        for way in exact:
            steps[way.name] = min(steps[way.name], *(_seconds(way, step) for _ in range(4)))
        if number == 0:
            likely = sum(steps.values()) * math.prod(OUTPUT) / math.prod(STEP)
            if time.perf_counter() - start + likely > _SECONDS:
                outputs = dict.fromkeys(outputs, 0.0)  # A slow machine: the steps must do.
        for way in exact:
            if outputs[way.name]:
                outputs[way.name] = min(outputs[way.name], _seconds(way, output))
        now = time.perf_counter()
        if now - start + (now - began) > _SECONDS:
            break
    # A training step has two recurrent products for each of some sixteen tokens, and three with
    # the weights of the output layer.
    seconds = {name: 32 * steps[name] + 3 * outputs[name] for name in steps}
    return {name: Measured(seconds.get(name, math.inf), error) for name, error in errors.items()}


def _on_gpu(name: str, device: torch.device) -> Precision:
    if name != "auto":
        return Precision(getattr(torch, name))
    if device.type == "cuda" and torch.cuda.is_bf16_supported(including_emulation=False):
        return Precision(torch.bfloat16, reason="this GPU multiplies in bfloat16")
    return Precision(torch.float32, reason="this GPU does not multiply in bfloat16")


def _cpu_has_bfloat16() -> bool:
    """Whether torch's LSTM, too, works in bfloat16."""
    return torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def _saved_way(ways: list[Precision], saved: dict[str, str] | None) -> Precision | None:
    """The way of a run that is resumed, if it is to be had here."""
    if saved is None:
        return None
    for way in ways:
        same = way.saved["dtype"] == saved.get("dtype") and way.library == saved.get("library")
        # On another machine the same switch may mean another arithmetic.
        if same and _error(way) <= _ERRORS[way.dtype]:
            before = "as this run began: "
            return way._replace(reason=before + saved["reason"].removeprefix(before))
    return None


def _fastest(ways: list[Precision], measured: dict[str, Measured]) -> Precision:
    plain = measured[ways[0].name]
    chosen, told = ways[0], []
    for way in ways:
        seconds, error = measured[way.name]
        exact = error <= _ERRORS[way.dtype]
        told.append(
            f"{way.name} {1000 * seconds:.0f} ms" if exact else f"{way.name} errs by {error:.1e}"
        )
        worth = seconds <= _GAINS[way.dtype] * plain.seconds
        if exact and worth and seconds < measured[chosen.name].seconds:
            chosen = way
    return chosen._replace(reason="measured: " + ", ".join(told))


def _measurements(ways: list[Precision]) -> dict[str, Measured]:
    """From the cache where it has them all, else taken now."""
    path, key = cache_file(), _machine()
    kept = _read_cache(path)
    known = kept.get(key, {})
    if all(way.name in known for way in ways):
        return known
    measured = measure(ways)
    kept[key] = known | measured
    table = {
        machine: {name: one._asdict() for name, one in entry.items()}
        for machine, entry in kept.items()
    }
    # A cache that cannot be written costs the next run a second, and nothing else.
    with suppress(OSError, UserError):
        path.parent.mkdir(parents=True, exist_ok=True)
        write_whole(path, json.dumps(table, indent=2).encode())
    return measured


def _read_cache(path: Path) -> dict[str, dict[str, Measured]]:
    try:
        table = json.loads(path.read_bytes())
        return {
            machine: {
                name: Measured(float(one["seconds"]), float(one["error"]))
                for name, one in entry.items()
            }
            for machine, entry in table.items()
        }
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return {}


def _machine() -> str:
    """What a measurement holds for."""
    model = platform.processor() or platform.machine()
    with suppress(OSError):
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    capability = torch.backends.cpu.get_cpu_capability()
    threads = torch.get_num_threads()
    narrow = "bfloat16" if _cpu_has_bfloat16() else "no bfloat16"
    return f"{model}, {capability}, {narrow}, {threads} threads, torch {torch.__version__}"


def _factors(shape: tuple[int, int, int]) -> tuple[Tensor, Tensor]:
    rows, inputs, outputs = shape
    # A generator of its own: the run's random numbers must not depend on what was measured.
    generator = torch.Generator().manual_seed(1)
    left = torch.randn(rows, inputs, generator=generator)
    return left, torch.randn(outputs, inputs, generator=generator)


@torch.inference_mode()
def _product(way: Precision, factors: tuple[Tensor, Tensor]) -> Tensor:
    with way.applied():
        return multiply(*factors)


def _seconds(way: Precision, factors: tuple[Tensor, Tensor]) -> float:
    factors = (factors[0].to(way.dtype), factors[1].to(way.dtype))
    start = time.perf_counter()
    _product(way, factors)
    return time.perf_counter() - start


def _error(way: Precision) -> float:
    """Largest error of a product over its largest element; infinity where it cannot be had."""
    left, right = _factors(STEP)
    exact = left[:8].double() @ right.double().t()
    try:
        product = _product(way, (left.to(way.dtype), right.to(way.dtype)))[:8].double()
    except RuntimeError:
        return math.inf
    error = ((product - exact).abs().max() / exact.abs().max()).item()
    return math.inf if math.isnan(error) else error
