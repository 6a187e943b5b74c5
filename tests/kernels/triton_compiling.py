"""Compiles the Triton kernels, as they are launched, for an NVIDIA GPU that need not be here.

The interpreter takes programs that the compiler refuses. Each launch is caught, and the kernel
compiled for its arguments instead. Prints one JSON line a kernel, {"name", "error"}.
"""

from __future__ import annotations

import json
import os
from types import ModuleType
from typing import Any

import torch
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource, compile
from triton.runtime import JITFunction

from luong.kernels import triton, triton_additive, triton_attention, triton_local, triton_operators

HOPPER = GPUTarget("cuda", 90, 32)
TYPES = {torch.float32: "*fp32", torch.int64: "*i64", torch.uint8: "*u8"}


class Caught:
    """Stands in for a kernel: a launch compiles it and computes nothing."""

    def __init__(self, name: str, kernel: JITFunction[Any]) -> None:
        self.name, self.kernel = name, kernel
        self.flags = [i for i, parameter in enumerate(kernel.params) if parameter.is_constexpr]
        self.seen: set[str] = set()

    def __getitem__(self, grid: tuple[int, ...]) -> Any:
        return self.launch

    def launch(self, *arguments: Any, **options: Any) -> None:
        signature, constants = {}, {}
        for index, (parameter, argument) in enumerate(
            zip(self.kernel.params, arguments, strict=True)
        ):
            if isinstance(argument, torch.Tensor):
                signature[parameter.name] = TYPES[argument.dtype]
            elif parameter.is_constexpr or argument == 1:
                signature[parameter.name] = "constexpr"
                constants[(index,)] = argument
            else:
                signature[parameter.name] = "i32"
        flags = str([constants[index,] for index in self.flags])
        if flags in self.seen:
            return
        self.seen.add(flags)
        error = None
        try:
            compile(ASTSource(self.kernel, signature, constants), target=HOPPER, options=options)
        except Exception as failure:  # Reported by name; the other kernels are still compiled.
            error = str(failure) or repr(failure)
        print(json.dumps({"name": self.name, "error": error}), flush=True)


def catch(module: ModuleType) -> None:
    for name, kernel in vars(module).copy().items():
        if name.endswith("_kernel"):
            setattr(module, name, Caught(f"{name} compiles", kernel))


def main() -> None:
    assert os.environ.get("TRITON_INTERPRET") != "1", "the interpreter compiles nothing"
    torch.set_num_threads(1)
    for module in (triton_additive, triton_local, triton_attention):
        catch(module)
    rows, weight = torch.zeros(2, 40, 24), torch.zeros(24)
    sides = rows, rows, weight, *triton_additive.parts(triton_additive.prepare(rows))
    mask = torch.ones(2, 40, 40, dtype=torch.bool)
    centres = torch.zeros(2, 40, dtype=torch.long)
    scores, band = torch.zeros(2, 40, 40), torch.zeros(2, 40, 7)
    triton_operators.additive_scores(*sides)
    triton_operators.additive_gradients(scores, *sides)
    triton_operators.band_scores(*sides, centres, 7)
    triton_operators.band_score_gradients(band, *sides, centres)
    triton_operators.band_dot(rows, rows, centres, 7)
    triton_operators.band_sum(band, rows, centres)
    triton_operators.band_spread(band, rows, centres, 40)
    leaf, bias = rows.requires_grad_(), torch.zeros(40, requires_grad=True)
    triton.additive_attention(leaf, leaf, weight, leaf, mask, bias).sum().backward()


if __name__ == "__main__":
    main()
