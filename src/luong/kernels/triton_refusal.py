"""Whether the Triton kernels can serve a call, told without importing Triton."""

from __future__ import annotations

import importlib.util
import os

import torch


def refusal(operation: str, device_type: str, dtype: torch.dtype) -> str | None:
    """Why the Triton kernels cannot serve an operation; None if they can.

    Args:
        operation: One of `luong.kernels.OPERATIONS`; they serve all.
        device_type: As in `tensor.device.type`.
        dtype: Of the tensors.

    Example:
        >>> refusal("additive_scores", "cuda", torch.float64)
        'its arithmetic is float32, and the tensors are torch.float64'
    """
    if importlib.util.find_spec("triton") is None:
        return "triton is not installed (it comes with torch's CUDA builds)"
    if device_type != "cuda" and os.environ.get("TRITON_INTERPRET") != "1":
        return f"it runs on CUDA devices, and the tensors are on {device_type}"
    if dtype not in (torch.float32, torch.float16, torch.bfloat16):
        return f"its arithmetic is float32, and the tensors are {dtype}"
    return None
