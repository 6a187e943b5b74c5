"""The Triton kernels, in Triton's interpreter and through its compiler; no GPU is needed."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from luong.kernels.triton_refusal import refusal

FOLDER = Path(__file__).parent
needs_triton = pytest.mark.skipif(
    importlib.util.find_spec("triton") is None, reason="triton is not installed"
)


def failures(script: str, *arguments: str, interpret: bool) -> tuple[int, str]:
    """Run a script of checks in a process of its own: how many held, and what the others said."""
    environment = {name: value for name, value in os.environ.items() if name != "TRITON_INTERPRET"}
    if interpret:
        environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(
        [sys.executable, "-W", "ignore", str(FOLDER / script), *arguments],
        env=environment, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    results = [json.loads(line) for line in done.stdout.splitlines()]
    failed = [f"{result['name']}: {result['error']}" for result in results if result["error"]]
    return len(results) - len(failed), "\n".join(failed)


@needs_triton
def test_agrees_with_the_reference_in_the_interpreter() -> None:
    held, failed = failures("triton_checks.py", interpret=True)
    assert not failed, failed
    assert held > 40


@needs_triton
@pytest.mark.slow
@pytest.mark.timeout(3600)
def test_agrees_with_the_reference_at_all_sizes() -> None:
    _, failed = failures("triton_checks.py", "--slow", interpret=True)
    assert not failed, failed


@needs_triton
def test_compiles_for_a_gpu_that_is_not_here() -> None:
    held, failed = failures("triton_compiling.py", interpret=False)
    assert not failed, failed
    assert held >= 8


@needs_triton
def test_refuses_with_the_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    assert refusal("additive_scores", "cuda", torch.float32) is None
    assert "cpu" in (refusal("additive_scores", "cpu", torch.float32) or "")
    assert "float64" in (refusal("additive_scores", "cuda", torch.float64) or "")
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    assert refusal("additive_scores", "cpu", torch.bfloat16) is None


def test_refuses_where_triton_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    assert "not installed" in (refusal("additive_scores", "cuda", torch.float32) or "")


def test_the_door_does_not_import_triton() -> None:
    program = "import sys, luong.kernels; sys.exit('triton' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", program], check=False).returncode == 0
