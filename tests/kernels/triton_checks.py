"""Checks of the Triton kernels against the float64 reference, by name.

A program of its own: Triton's interpreter must be chosen before the first import. It prints one
JSON line for each check, {"name", "error"}; error is null where it held. `benchmarks/triton_gpu.py`
runs the same checks on a GPU.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import traceback
from collections.abc import Callable, Iterator
from typing import Any

import torch
from torch import Tensor

from luong import kernels
from luong.kernels import (
    PreparedKeys,
    operators,
    reference,
    triton,
    triton_additive,
    triton_attention,
)

Check = tuple[str, Callable[[], None]]

DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
EPSILON = 2.0**-22
device = "cpu"


def laid(tensor: Tensor, layout: str) -> Tensor:
    """The same numbers in another memory layout."""
    tensor = tensor.to(device)
    if layout == "transposed":
        return tensor.transpose(-1, -2).contiguous().transpose(-1, -2)
    if layout == "offset":
        rows = tensor.new_full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 3), torch.nan)
        view = rows[..., 3::2]
        view.copy_(tensor)
        return view
    if layout == "expanded":
        return tensor[:1].expand_as(tensor)
    return tensor


def random(*shape: int, scale: float = 1.0, dtype: str = "float32", layout: str = "") -> Tensor:
    return laid((torch.randn(*shape) * scale).to(DTYPES[dtype]), layout).requires_grad_()


def gradients(output: Tensor, inputs: tuple[Tensor, ...], error: Tensor) -> list[Tensor]:
    found = torch.autograd.grad(output, inputs, error.to(output.dtype), allow_unused=True)
    return [torch.zeros_like(i) if g is None else g for i, g in zip(inputs, found, strict=True)]


def close(
    name: str, found: Tensor, eager: Tensor, truth: Tensor, scale: Tensor | float, narrow: str
) -> None:
    """At most 4 times eager float32's error, and 2^-22 of scale, and the rounding to 16 bits."""
    assert found.shape == truth.shape, f"{name}: shape {found.shape}, expected {truth.shape}"
    if truth.numel() == 0:
        return
    error = (found.double().cpu() - truth.cpu()).abs()
    bound = 4 * (eager.double().cpu() - truth.cpu()).abs().max() + EPSILON * scale
    if narrow != "float32":
        bound = bound + truth.cpu().abs() * torch.finfo(DTYPES[narrow]).eps + 1e-7
    worst = (error - bound).max().item()
    assert worst <= 0, f"{name}: off by {error.max().item():.3g}, {worst:.3g} beyond the bound"


def compare(
    run: Callable[..., Tensor],
    truth: Callable[..., Tensor],
    inputs: dict[str, Tensor],
    scales: Callable[[Tensor], list[Tensor | float]],
    narrow: str,
) -> None:
    """Forward and backward beside the reference in float64 and in float32."""
    tensors = tuple(inputs.values())
    wide = tuple(t.detach().double().cpu().requires_grad_() for t in tensors)
    single = tuple(t.detach().float().cpu().requires_grad_() for t in tensors)
    found, exact, eager = run(*tensors), truth(*wide), truth(*single)
    error = torch.randn(exact.shape).double()
    if error.numel():
        error[..., -1:] = 0.5
    forward, *backward = scales(error.abs())
    close("forward", found, eager, exact, forward, "float32")
    incoming = error.float().to(device)
    for name, *trio, scale in zip(
        inputs,
        gradients(found, tensors, incoming),
        gradients(eager, single, error.float()),
        gradients(exact, wide, error),
        backward,
        strict=True,
    ):
        close(f"gradient of {name}", *trio, scale, narrow)


def everything(queries: int, keys: int) -> Tensor:
    """A mask that allows all."""
    return torch.ones(queries, keys, dtype=torch.bool, device=device)


def additive(
    t: int, s: int, n: int, scale: float = 1.0, dtype: str = "float32", layout: str = ""
) -> None:
    query = random(2, t, n, scale=scale, dtype=dtype, layout=layout)
    key = random(2, s, n, scale=scale, dtype=dtype, layout=layout)
    weight = random(n, dtype=dtype)
    size = weight.detach().double().cpu().abs()

    def scales(error: Tensor) -> list[Tensor | float]:
        return [
            size.sum(),
            error.sum(-1, keepdim=True) * size,
            error.sum(-2).unsqueeze(-1) * size,
            error.sum(),
        ]

    inputs = {"query": query, "key": key, "weight": weight}
    compare(triton.additive_scores, reference.additive_scores, inputs, scales, dtype)


def local(
    t: int, s: int, n: int, half: int, additive_score: bool, scale: float = 1.0,
    dtype: str = "float32", layout: str = "",
) -> None:  # fmt: skip
    query = random(2, t, n, scale=scale, dtype=dtype, layout=layout)
    key = random(2, s, n, scale=scale, dtype=dtype, layout=layout)
    centres = torch.randint(-2, s + 2, (2, t))
    inputs = {"query": query, "key": key}
    magnitude = 2.0 * n * scale * max(scale, 1.0)
    if additive_score:
        inputs["weight"] = random(n, dtype=dtype)
        magnitude = 2.0 * n

    def scales(error: Tensor) -> list[Tensor | float]:
        most = float(error.sum()) + 1.0
        return [magnitude, *[magnitude * most for _ in inputs]]

    def scored(module: Any, *given: Tensor) -> Tensor:
        place = given[0].device
        result: Tensor = module.local_scores(*given[:2], centres.to(place), half, *given[2:])
        return result

    compare(
        lambda *given: scored(triton, *given),
        lambda *given: scored(reference, *given),
        inputs, scales, dtype,
    )  # fmt: skip
    weights = random(2, t, 2 * half + 1, dtype=dtype, layout=layout)

    def summed(module: Any, *given: Tensor) -> Tensor:
        result: Tensor = module.local_context(*given, centres.to(given[0].device))
        return result

    def context_scales(error: Tensor) -> list[Tensor | float]:
        most = float(error.sum()) + 1.0
        return [magnitude + 10 * half, magnitude * most, 10.0 * most]

    compare(
        lambda *given: summed(triton, *given),
        lambda *given: summed(reference, *given),
        {"weights": weights, "value": key}, context_scales, dtype,
    )  # fmt: skip


def attention(
    t: int, s: int, n: int, v: int, scale: float = 1.0, dtype: str = "float32", layout: str = ""
) -> None:
    mask = (torch.rand(2, t, s) > 0.3) & (
        torch.arange(s) < torch.tensor([s, s // 2])[:, None, None]
    )
    if t:
        mask[0, 0] = False
    inputs = {
        "query": random(2, t, n, scale=scale, dtype=dtype, layout=layout),
        "key": random(2, s, n, scale=scale, dtype=dtype, layout=layout),
        "weight": random(n, dtype=dtype),
        "value": random(2, s, v, dtype=dtype, layout=layout),
        "bias": random(s, dtype=dtype),
    }
    magnitude = 4 * (1 + inputs["weight"].detach().abs().sum().item())

    def run(*given: Tensor) -> Tensor:
        context = triton.additive_attention(*given[:4], laid(mask, "transposed"), given[4])
        empty = ~mask.any(-1).to(device)
        assert not context[empty].any(), "context of rows with nothing to attend"
        return context

    def truth(*given: Tensor) -> Tensor:
        return reference.additive_attention(*given[:4], mask, given[4])

    def scales(error: Tensor) -> list[Tensor | float]:
        most = magnitude * (float(error.sum()) + 1.0)
        return [magnitude, *[most for _ in inputs]]

    compare(run, truth, inputs, scales, dtype)


def large_row_leaves_others() -> None:
    query, key, weight = random(1, 5, 9), random(1, 6, 9), random(9)
    error = torch.randn(1, 5, 6, device=device)
    plain = triton.additive_scores(query, key, weight)
    plain_gradient, plain_key = gradients(plain, (query, key), error)
    large = query.detach().clone()
    large[0, 2] = 1e4
    large.requires_grad_()
    scores = triton.additive_scores(large, key, weight)
    gradient, _ = gradients(scores, (large, key), error)
    others = [0, 1, 3, 4]
    assert torch.equal(scores[0, others], plain[0, others]), "scores"
    assert torch.equal(gradient[0, others], plain_gradient[0, others]), "gradient of the query"
    large = key.detach().clone()
    large[0, 4] = -1e4
    large.requires_grad_()
    scores = triton.additive_scores(query, large, weight)
    _, gradient = gradients(scores, (query, large), error)
    others = [0, 1, 2, 3, 5]
    assert torch.equal(scores[..., others], plain[..., others]), "scores, large key"
    assert torch.equal(gradient[0, others], plain_key[0, others]), "gradient of the keys"


def beside_the_bound() -> None:
    # 21.5 + 21.5 is the last sum on this side; the next number up is on the other.
    sides = torch.tensor([21.5, -21.5, 21.500002, -21.500002, 0.5, 43.0, -44.0])
    rows = torch.randn(7, 6)
    rows[:, 1] = sides
    query, key = (laid(r, "").requires_grad_() for r in (rows[None], -rows.flip(0)[None]))
    weight = random(6)
    scores = triton.additive_scores(query, key, weight)
    given = [t.detach().cpu().double().requires_grad_() for t in (query, key, weight)]
    truth = reference.additive_scores(*given)
    assert torch.allclose(scores.double().cpu(), truth, rtol=0, atol=2e-6), "scores"
    error = torch.randn(1, 7, 7)
    found = gradients(scores, (query, key, weight), error.to(device))
    for name, left, right in zip("qkw", found, gradients(truth, tuple(given), error), strict=True):
        assert torch.allclose(left.double().cpu(), right, rtol=0, atol=1e-5), f"gradient {name}"


def nan_comes_out(queries: int) -> None:
    query, key, weight = random(1, queries, 5), random(1, 4, 5), random(5)
    plain = triton.additive_scores(query, key, weight)
    wrong = query.detach().clone()
    wrong[0, 0, 3] = torch.nan
    scores = triton.additive_scores(wrong, key, weight)
    assert scores[0, 0].isnan().all(), "a NaN in the query did not come out"
    assert torch.equal(scores[0, 1:], plain[0, 1:]), "a NaN reached another row"
    context = triton.additive_attention(wrong, key, weight, key, everything(queries, 4))
    assert context[0, 0].isnan().all(), "context hides a NaN"
    assert context[0, 1:].isfinite().all(), "a NaN reached another context"
    band = triton.local_scores(
        wrong, key, torch.ones(1, queries, dtype=torch.long, device=device), 2, weight
    )
    assert band[0, 0].isnan().tolist() == [False, True, True, True, True], "banded scores"


def masked_takes_no_part(junk: float) -> None:
    key, value = random(2, 5, 7), random(2, 5, 3)
    query, weight = random(2, 3, 7), random(7)
    mask = torch.ones(2, 3, 5, dtype=torch.bool)
    mask[0, :, 2] = False
    mask[1, :, 4] = False
    mask[1, 0] = False

    def run(key: Tensor, value: Tensor) -> list[Tensor]:
        key, value = (t.detach().requires_grad_() for t in (key, value))
        context = triton.additive_attention(query, key, weight, value, mask.to(device))
        found = gradients(context, (query, key, weight, value), torch.ones_like(context))
        return [context, *found]

    clean = run(key, value)
    dirty_key, dirty_value = key.detach().clone(), value.detach().clone()
    for row, column in [(0, 2), (1, 4)]:
        dirty_key[row, column] = junk
        dirty_value[row, column] = junk
    for before, after in zip(clean, run(dirty_key, dirty_value), strict=True):
        assert torch.equal(before, after), f"{junk} in masked rows changed a result"
    assert not clean[1][1, 0].any(), "gradient of a query with nothing to attend"


def masked_for_some() -> None:
    query, key, weight, value = random(1, 3, 4), random(1, 3, 4), random(4), random(1, 3, 5)
    mask = ~torch.eye(3, dtype=torch.bool, device=device).unsqueeze(0)
    plain = triton.additive_attention(query, key, weight, value, mask)
    dirty = value.detach().clone()
    dirty[0, 1] = torch.nan
    context = triton.additive_attention(query, key, weight, dirty, mask)
    assert torch.equal(context[0, 1], plain[0, 1]), "a value masked for this query reached it"
    assert context[0, [0, 2]].isnan().all(), "a live NaN was hidden"


def repeats() -> None:
    query, key, weight, value = random(1, 6, 8), random(1, 6, 8), random(8), random(1, 6, 8)
    centres = torch.randint(0, 6, (1, 6), device=device)

    def run() -> list[Tensor]:
        context = triton.additive_attention(query, key, weight, value, everything(6, 6))
        band = triton.local_scores(query, key, centres, 2, weight)
        total = context.sum() + (band * band).sum()
        return [
            context,
            band,
            *gradients(total, (query, key, weight, value), torch.ones_like(total)),
        ]

    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second), "two runs differ"


def leading_dimensions() -> None:
    query, key, weight = random(2, 3, 5, 7), random(2, 1, 6, 7), random(7)
    value, bias = random(2, 3, 6, 4), random(3, 1, 6)
    mask = torch.rand(2, 1, 1, 6, device=device) > 0.3
    scores = triton.additive_scores(query, key, weight)
    assert torch.allclose(scores, reference.additive_scores(query, key, weight), atol=1e-5)
    given = (query, key, weight, value)
    context = triton.additive_attention(*given, mask, bias)
    truth = reference.additive_attention(*given, mask, bias)
    assert torch.allclose(context, truth, atol=1e-5)
    given = (*given, bias)
    found = gradients(context, given, torch.ones_like(context))
    expected = gradients(truth, given, torch.ones_like(truth))
    for name, left, right in zip("qkwvb", found, expected, strict=True):
        assert torch.allclose(left, right, atol=1e-4), f"gradient {name}"
    single = triton.local_scores(query[0, 0], key[0, 0], torch.arange(5, device=device), 1, weight)
    assert single.shape == (5, 3)


def prepared_keys() -> None:
    query, key, weight = random(2, 5, 7), random(2, 6, 7), random(7)
    plain = triton.additive_scores(query, key, weight)
    for prepared in (triton.prepare_keys(key), PreparedKeys(key)):
        assert torch.equal(triton.additive_scores(query, prepared, weight), plain)
    rows = torch.tensor([1, 0, 1], device=device)
    chosen = triton.prepare_keys(key).select(rows)
    again = triton.additive_scores(query[rows], chosen, weight)
    assert torch.equal(again, plain[rows])
    (gradient,) = gradients(again, (key,), torch.ones_like(again))
    assert gradient.any(), "no gradient through prepared keys"


def with_setting(module: Any, name: str, value: Any, check: Callable[[], None]) -> None:
    """The same check with a smaller block, so that small inputs take several."""
    before = getattr(module, name)
    setattr(module, name, value)
    try:
        check()
    finally:
        setattr(module, name, before)


def second_derivatives() -> None:
    query, key, weight, value = random(1, 3, 4), random(1, 5, 4), random(4), random(1, 5, 2)
    bias, centres = random(3, 5), torch.tensor([[0, 2, 4]], device=device)
    given = (query, key, weight, value, bias)

    def second(module: Any) -> list[Tensor]:
        context = module.additive_attention(query, key, weight, value, everything(3, 5), bias)
        band = module.local_scores(query, key, centres, 1, weight)
        dots = module.local_scores(query, key, centres, 1)
        total = context.exp().sum() + module.additive_scores(query, key, weight).exp().sum()
        total = total + band.exp().sum() + module.local_context(dots, value, centres).exp().sum()
        first = torch.autograd.grad(total, given, create_graph=True)
        return gradients(torch.stack([g.square().sum() for g in first]), given, torch.ones(5))

    for name, left, right in zip("qkwvb", second(triton), second(reference), strict=True):
        assert torch.allclose(left, right, rtol=1e-3, atol=1e-3), f"second derivative {name}"


def compiled_is_right() -> None:
    query, key, weight, value = random(1, 3, 4), random(1, 5, 4), random(4), random(1, 5, 2)
    given = (query, key, weight, value)
    centres = torch.tensor([[0, 2, 4]], device=device)

    def everything_of(*given: Tensor) -> Tensor:
        query, key, weight, value = given
        prepared = kernels.prepare_keys(key, backend="triton")
        allowed = everything(3, 5)
        context = kernels.additive_attention(
            query, prepared, weight, value, allowed, backend="triton"
        )
        band = kernels.local_scores(query, prepared, centres, 1, weight, backend="triton")
        dots = kernels.local_scores(query, key, centres, 1, backend="triton")
        local = kernels.local_context(band + dots, value, centres, backend="triton")
        return context + local

    compiled = torch.compile(everything_of, fullgraph=True, backend="aot_eager")
    found, expected = compiled(*given), everything_of(*given)
    assert torch.allclose(found, expected, atol=1e-5), "values"
    ones = torch.ones_like(found)
    pairs = zip(gradients(found, given, ones), gradients(expected, given, ones), strict=True)
    for name, (left, right) in zip("qkwv", pairs, strict=True):
        assert torch.allclose(left, right, atol=1e-5), f"gradient {name}"


def operators_hold() -> None:
    query, key, weight, band = random(2, 3, 5), random(2, 4, 5), random(5), random(2, 3, 3)
    centres = torch.randint(0, 4, (2, 3), device=device)
    sides = query, key, weight, *triton_additive.parts(triton_additive.prepare(key))
    bare = [tensor.detach() for tensor in (band, *sides)]
    calls = [
        (operators.additive_scores, sides),
        (operators.additive_gradients, (random(2, 3, 4).detach(), *bare[1:])),
        (operators.band_scores, (*sides, centres, 3)),
        (operators.band_score_gradients, (*bare, centres)),
        (operators.band_dot, (query, key, centres, 3)),
        (operators.band_sum, (band, key, centres)),
        (operators.band_spread, (band, query, centres, 7)),
    ]
    torch.use_deterministic_algorithms(False)  # opcheck and NaN in scratch do not go together.
    try:
        for operator, arguments in calls:
            torch.library.opcheck(operator, arguments)
    finally:
        torch.use_deterministic_algorithms(True)


LAYOUTS = ("contiguous", "transposed", "offset", "expanded")


def checks() -> Iterator[Check]:
    """The fast checks by name."""
    shapes = [
        (0, 3, 8), (3, 0, 8), (3, 2, 0), (1, 1, 1), (2, 3, 1), (3, 7, 8), (5, 9, 8),
        (1, 33, 33), (2, 17, 8), (33, 3, 1), (5, 9, 33), (5, 70, 3),
    ]  # fmt: skip
    # A scale of 9 puts the largest sums of rows on both sides of the bound of 43.
    varieties = [
        (1.0, "float32", "contiguous"),
        (1e-3, "float16", "transposed"),
        (9.0, "float32", "offset"),
        (1e4, "bfloat16", "expanded"),
    ]
    for index, shape in enumerate(shapes):
        scale, dtype, layout = varieties[index % 4]
        name = f"additive {shape} x{scale:g} {dtype} {layout}"
        yield name, lambda a=(*shape, scale, dtype, layout): additive(*a)
    bands = [(0, 3, 4, 1), (3, 0, 4, 1), (1, 1, 1, 0), (3, 7, 8, 1), (3, 5, 9, 3), (4, 7, 3, 10)]
    for index, (t, s, n, half) in enumerate(bands):
        for kind in (True, False):
            scale, dtype, layout = varieties[(index + kind) % 4]
            scale = min(scale, 20.0)
            name = f"local {(t, s, n)} D={half} {'additive' if kind else 'dot'} x{scale:g} {dtype}"
            yield name, lambda a=(t, s, n, half, kind, scale, dtype, layout): local(*a)
    yield "local, channels past one block", lambda: local(2, 5, 140, 2, True)
    sizes = [
        (0, 2, 3, 2), (2, 0, 3, 2), (1, 1, 1, 1), (2, 3, 8, 1), (3, 7, 8, 0), (5, 2, 9, 17),
        (33, 17, 3, 33), (3, 70, 3, 5),
    ]  # fmt: skip
    for index, shape in enumerate(sizes):
        scale, dtype, layout = varieties[index % 4]
        scale = min(scale, 100.0)
        name = f"attention {shape} x{scale:g} {dtype} {layout}"
        yield name, lambda a=(*shape, scale, dtype, layout): attention(*a)
    yield "beside the bound", beside_the_bound
    yield "a large row leaves others", large_row_leaves_others
    for queries in (2, 6):
        yield f"NaN comes out, T={queries}", lambda q=queries: nan_comes_out(q)
    for junk in (math.nan, 1e30):
        yield f"masked {junk} takes no part", lambda j=junk: masked_takes_no_part(j)
    yield "masked for some queries", masked_for_some
    yield "two runs are equal", repeats
    yield "leading dimensions broadcast", leading_dimensions
    yield "prepared keys", prepared_keys
    yield "second derivatives", second_derivatives
    for size in (1, 64):
        yield (
            f"attention backward in pieces of {size}",
            lambda c=size: with_setting(
                triton_attention, "CHUNK", c * 32, lambda: attention(3, 5, 3, 4)
            ),
        )
    yield (
        "attention, values past one block",
        lambda: with_setting(triton_attention, "MOST_VALUES", 16, lambda: attention(3, 5, 3, 35)),
    )
    yield (
        "reciprocals one by one",
        lambda: with_setting(triton_additive, "MERGED", False, lambda: additive(7, 7, 7)),
    )


def slow_checks() -> Iterator[Check]:
    """The product of sizes, scales, types and layouts taking turns; the operators."""
    yield "operators", operators_hold
    yield "compiled", compiled_is_right
    counts = (1, 2, 3, 7, 17, 33)
    for index, (t, s, n) in enumerate(itertools.product(counts, counts, (1, 8, 33))):
        scale = (1e-3, 1.0, 9.0, 30.0, 1e4)[index % 5]
        dtype, layout = tuple(DTYPES)[index % 3], LAYOUTS[index % 4]
        name = f"additive {(t, s, n)} x{scale:g} {dtype} {layout}"
        yield name, lambda a=(t, s, n, scale, dtype, layout): additive(*a)
        name = f"local {(t, s, n)} x{min(scale, 30.0):g} {dtype} {layout}"
        half, kind = index % 7, bool(index % 2)
        arguments = (t, s, n, half, kind, min(scale, 30.0), dtype, layout)
        yield name, lambda a=arguments: local(*a)
        name = f"attention {(t, s, n)} x{scale:g} {dtype} {layout}"
        yield name, lambda a=(t, s, n, index % 20, scale, dtype, layout): attention(*a)


def outcome(check: Callable[[], None]) -> str | None:
    """What went wrong, None if nothing did."""
    torch.manual_seed(0)
    try:
        check()
    except AssertionError as error:
        return str(error)
    except Exception:  # Any failure is this check's, and the next ones still run.
        return traceback.format_exc()
    return None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--slow", action="store_true", help="the whole product of sizes instead")
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    # Memory from torch.empty is then full of NaN, so that nothing can lean on what it held.
    torch.use_deterministic_algorithms(True)
    for name, check in slow_checks() if arguments.slow else checks():
        print(json.dumps({"name": name, "error": outcome(check)}), flush=True)


if __name__ == "__main__":
    main()
