"""int8 matrices as the products of this CPU read them, by the first of two ways that it has.

`cpu_vnni` multiplies where the CPU has VNNI, and is the faster; fbgemm, which torch brings, on any.
"""

from __future__ import annotations

import functools
import importlib.util
import warnings
from typing import Any

import torch
from torch import Tensor


def packed(values: Tensor, scales: Tensor) -> Any:
    """Lay a matrix out for `int8_product`.

    Args:
        values: int8 (outputs, inputs).
        scales: Of its rows (outputs), float32.

    Returns:
        What `int8_product` takes beside the matrix; None where nothing multiplies in int8, as on
        other devices.

    Example:
        >>> int8_product(inputs, values, scales, packed(values, scales))
    """
    if not values.is_cpu:
        return None
    if _has_vnni():
        from luong.kernels import cpu_vnni

        return cpu_vnni.lay_out(values)
    return _for_fbgemm(values, scales) if _has_fbgemm() else None


@functools.cache
def _has_vnni() -> bool:
    if importlib.util.find_spec("numba") is None:
        return False
    from luong.kernels import cpu_vnni

    return cpu_vnni.serves()


def _has_fbgemm() -> bool:
    engines = torch.backends.quantized.supported_engines
    return "fbgemm" in engines and hasattr(
        torch.ops.quantized, "linear_with_input_q_dq_qweight_dq_output_fp32"
    )


def _for_fbgemm(values: Tensor, scales: Tensor) -> Any:
    zeros = torch.zeros(len(scales), dtype=torch.long)
    with warnings.catch_warnings():  # torch announces the end of tensors of this kind
        warnings.simplefilter("ignore", UserWarning)
        tensor = torch._make_per_channel_quantized_tensor(values, scales.double(), zeros, 0)
    return torch.ops.quantized.linear_prepack(tensor, None)
