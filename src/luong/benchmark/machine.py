"""The machine that measures: what it is, and how fast it multiplies and adds."""

from __future__ import annotations

import os
import platform
import re
import time
from importlib import metadata
from pathlib import Path

import torch

_FLAGS = ("avx2", "fma", "avx512f", "avx512_bf16", "amx_bf16")
_SIZE = 2048
_REPEATS = 9


def description(threads: int) -> dict[str, str]:
    """Processor, system, versions and threads, as a table of two columns.

    Args:
        threads: That torch and the kernels use.
    """
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"^model name\s*: (.+)$", text, re.MULTILINE)
    flags = re.search(r"^flags\s*: (.+)$", text, re.MULTILINE)
    known = flags[1].split() if flags else []
    there = ", ".join(f"{flag} {'yes' if flag in known else 'no'}" for flag in _FLAGS)
    names = ("torch", "numba", "numpy", "luong")
    versions = [f"{name} {metadata.version(name)}" for name in names]
    return {
        "processor": f"{model[1] if model else platform.processor()}, {os.cpu_count()} cores",
        "instructions": there if flags else platform.machine(),
        "system": f"{platform.system()} {platform.machine()}",
        "versions": f"Python {platform.python_version()}, {', '.join(versions)}",
        "threads": str(threads),
        "date": time.strftime("%Y-%m-%d", time.gmtime()),
    }


def multiply_adds_per_second(threads: int, size: int = _SIZE) -> float:
    """The most float32 multiply-adds a second that a square matrix product reaches here.

    Args:
        threads: That torch uses.
        size: Of the matrices.
    """
    torch.set_num_threads(threads)
    left, right = torch.randn(size, size), torch.randn(size, size)
    seconds = []
    for _ in range(_REPEATS):
        start = time.perf_counter()
        left @ right
        seconds.append(time.perf_counter() - start)
    return size**3 / min(seconds)
