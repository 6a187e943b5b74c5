"""A measurement in a process of its own, and the peak of its memory."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeVar

from luong.errors import UserError

Result = TypeVar("Result")
MIB = 2**20
_TRIM = "MALLOC_TRIM_THRESHOLD_"


def alone(function: Callable[..., Result], *arguments: Any, trim: bool = False) -> Result:
    """Call a function in a fresh process, which ends with it.

    Args:
        function: Of a module's top level.
        arguments: Can be pickled, as the result.
        trim: Freed memory goes back to the system at once, so that a peak is of one call alone;
            it costs time.

    Raises:
        UserError: The process was killed, as a system does that runs out of memory.
    """
    before = os.environ.get(_TRIM)
    if trim:
        os.environ[_TRIM] = str(MIB)
    try:
        with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
            return pool.submit(function, *arguments).result()
    except BrokenProcessPool:
        raise UserError(
            f"The process that measured {arguments} was killed, most likely for want of memory. "
            "Close other programs, or leave that part out with --only."
        ) from None
    finally:
        if trim and before is None:
            del os.environ[_TRIM]
        elif trim and before is not None:
            os.environ[_TRIM] = before


def peak_growth(call: Callable[[], object]) -> float | None:
    """By how many MiB the resident memory of this process grew at its peak during a call.

    Returns:
        MiB; None where the system does not tell (it does on Linux).
    """
    try:
        Path("/proc/self/clear_refs").write_text("5")
        before = _status("VmRSS")
        result = call()
        peak = _status("VmHWM")
    except OSError:
        return None
    del result
    return (peak - before) / 1024


def free_bytes() -> float:
    """Memory that can be had; infinite where the system does not tell."""
    try:
        text = Path("/proc/meminfo").read_text()
    except OSError:
        return float("inf")
    return 1024.0 * _number("MemAvailable", text)


def _status(key: str) -> int:
    return _number(key, Path("/proc/self/status").read_text())


def _number(key: str, text: str) -> int:
    found = re.search(rf"^{key}:\s+(\d+)", text, re.MULTILINE)
    if found is None:
        raise OSError(f"the system does not tell {key}")
    return int(found[1])
