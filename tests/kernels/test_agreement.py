"""Every backend that runs here, against the float64 reference.

The bounds: a score is off by at most 4 times what eager float32 is off by, plus 2^-22 sum|v|; with
e the incoming gradient, dq and dk by 2^-22 |v_c| sum|e| more than that, and dv by 2^-22 sum|e|.
"""

from __future__ import annotations

import itertools
import random
from functools import partial
from typing import Any, NamedTuple

import pytest
import torch
from engines import EPSILON, FUSED, derived
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from luong import kernels
from luong.kernels import reference

FACTORS: dict[str, tuple[Any, ...]] = {
    "steps": (0, 1, 2, 3, 7, 31, 33, 65, 129),
    "source": (0, 1, 2, 3, 7, 31, 33, 65, 129),
    "size": (1, 8, 63, 100, 512),
    "mask": ("none", "lengths", "random", "nothing"),
    "layout": ("contiguous", "transposed", "expanded", "offset"),
    "magnitude": (1e-3, 1.0, 10.0, "bound", 1e3, 1e4),
    "dtype": (torch.float32, torch.bfloat16, torch.float16),
}
LAYOUTS, DTYPES = FACTORS["layout"], FACTORS["dtype"]
BATCH = 4


class Case(NamedTuple):
    steps: int
    source: int
    size: int
    mask: str
    layout: str
    magnitude: float | str
    dtype: torch.dtype


def pairwise() -> list[Case]:
    """Few cases in which every two values of two factors meet, found greedily."""
    chance = random.Random(0)
    names = list(FACTORS)
    missing = {
        (a, x, b, y)
        for a, b in itertools.combinations(range(len(names)), 2)
        for x in range(len(FACTORS[names[a]]))
        for y in range(len(FACTORS[names[b]]))
    }
    cases = []

    def met(row: list[int]) -> set[tuple[int, int, int, int]]:
        return {(a, row[a], b, row[b]) for a, b in itertools.combinations(range(len(row)), 2)}

    while missing:
        a, x, b, y = min(missing)
        best: list[int] = []
        for _ in range(60):
            row = [chance.randrange(len(FACTORS[name])) for name in names]
            row[a], row[b] = x, y
            if not best or len(met(row) & missing) > len(met(best) & missing):
                best = row
        missing -= met(best)
        cases.append(Case(*(FACTORS[n][i] for n, i in zip(names, best, strict=True))))
    return cases


def laid_out(tensor: Tensor, layout: str) -> Tensor:
    if layout == "transposed":
        return tensor.mT.contiguous().mT
    if layout == "expanded":
        return tensor[:1].expand_as(tensor)
    if layout == "offset":
        wide = torch.full((*tensor.shape[:-1], 2 * tensor.shape[-1] + 1), torch.nan)
        wide = wide.to(tensor.dtype)
        wide[..., 1::2] = tensor
        return wide[..., 1::2]
    return tensor


def rows(case: Case, count: int, generator: torch.Generator) -> Tensor:
    tensor = torch.randn(BATCH, count, case.size, generator=generator)
    if case.magnitude == "bound":
        # max|q| + max|k| falls on both sides of 43, and on it.
        top = torch.tensor([21.4, 21.5, 21.6])[torch.arange(count) % 3].view(1, count, 1)
        tensor = tensor / tensor.abs().amax(-1, keepdim=True) * top
    else:
        tensor = tensor * case.magnitude
    if case.dtype == torch.float16:
        tensor = tensor.clamp(-6e4, 6e4)
    return laid_out(tensor.to(case.dtype), case.layout)


def mask_of(case: Case, generator: torch.Generator) -> Tensor:
    shape = (BATCH, case.steps, case.source)
    if case.mask == "lengths":
        lengths = torch.tensor([0, case.source // 2, case.source, min(case.source, 1)])
        return (torch.arange(case.source) < lengths[:, None])[:, None].expand(shape)
    if case.mask == "random":
        return torch.rand(shape, generator=generator) < 0.5
    if case.mask == "each":  # All four in one batch.
        kinds = [mask_of(case._replace(mask=mask), generator) for mask in FACTORS["mask"]]
        return torch.stack([kind[1] for kind in kinds])
    return torch.full(shape, case.mask == "none")


def check(name: str, found: Tensor, eager: Tensor, truth: Tensor, extra: Tensor | float) -> None:
    assert found.shape == truth.shape, name
    if truth.numel() == 0:
        return
    narrow = torch.finfo(found.dtype).eps if found.dtype != torch.float32 else 0.0
    entry = tuple(range(1, truth.dim())) if truth.dim() == 3 else ()
    slack = (eager.double() - truth).abs().amax(entry, keepdim=truth.dim() == 3)
    allowed = 4 * slack + EPSILON * extra + narrow * truth.abs()
    error = (found.double() - truth).abs()
    if narrow:
        allowed = allowed + torch.finfo(found.dtype).tiny
        # What 16 bits cannot hold comes out as infinity, from eager code too.
        error = error.masked_fill(truth.abs() > torch.finfo(found.dtype).max, 0.0)
    worst = (error - allowed).max()
    assert worst <= 0, f"{name}: off by {error.max():.3g}, {worst:.3g} more than allowed"


def additive_agrees(case: Case, backend: str, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key = rows(case, case.steps, generator), rows(case, case.source, generator)
    weight = torch.randn(case.size, generator=generator)
    mask = mask_of(case, generator)
    incoming = torch.randn(mask.shape, generator=generator).masked_fill(~mask, 0.0)

    def fused(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        prepared = kernels.prepare_keys(key, backend=backend)
        return kernels.additive_scores(query, prepared, weight, backend=backend)

    inputs = [query, key, weight]
    found = derived(fused, inputs, incoming)
    eager = derived(reference.additive_scores, [tensor.float() for tensor in inputs], incoming)
    truth = derived(reference.additive_scores, [tensor.double() for tensor in inputs], incoming)
    size, e = weight.abs().double(), incoming.abs().double()
    extras = [
        size.sum(),
        size * e.sum(2).unsqueeze(-1),
        size * e.sum(1).unsqueeze(-1),
        e.sum(),
    ]
    names = ("scores", "dq", "dk", "dv")
    for arguments in zip(names, found, eager, truth, extras, strict=True):
        check(*arguments)


def bands_agree(case: Case, backend: str, half_width: int, seed: int = 0) -> None:
    generator = torch.Generator().manual_seed(seed)
    query, key = rows(case, case.steps, generator), rows(case, case.source, generator)
    weight = torch.randn(case.size, generator=generator)
    width = 2 * half_width + 1
    shape = (BATCH, case.steps)
    centres = torch.randint(-2, case.source + 3, shape, generator=generator)
    incoming = torch.randn(*shape, width, generator=generator)
    if case.mask != "none":
        incoming = incoming * (torch.rand(incoming.shape, generator=generator) < 0.5)

    def scores(door: Any, **options: Any) -> Any:
        def call(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
            return door.local_scores(query, key, centres, half_width, weight, **options)

        return call

    def dots(door: Any, **options: Any) -> Any:
        return lambda q, k: door.local_scores(q, k, centres, half_width, **options)

    def context(door: Any, **options: Any) -> Any:
        return lambda w, v: door.local_context(w, v, centres, **options)

    size, e = weight.abs().double(), incoming.abs().double()
    inputs = [query, key, weight]
    found = derived(scores(kernels, backend=backend), inputs, incoming)
    eager = derived(scores(reference), [tensor.float() for tensor in inputs], incoming)
    truth = derived(scores(reference), [tensor.double() for tensor in inputs], incoming)
    extras = [size.sum(), size * e.sum(-1, keepdim=True), size * e.sum(), e.sum()]
    for arguments in zip(("scores", "dq", "dk", "dv"), found, eager, truth, extras, strict=True):
        check(*arguments)

    a, b = query.abs().double(), key.abs().double()
    largest = b.amax() if b.numel() else torch.tensor(0.0)
    longest = a.amax() if a.numel() else torch.tensor(0.0)
    found = derived(dots(kernels, backend=backend), inputs[:2], incoming)
    eager = derived(dots(reference), [tensor.float() for tensor in inputs[:2]], incoming)
    truth = derived(dots(reference), [tensor.double() for tensor in inputs[:2]], incoming)
    extras = [case.size * largest * longest, largest * e.sum(), longest * e.sum()]
    for arguments in zip(("dots", "dq", "dk"), found, eager, truth, extras, strict=True):
        check(*arguments)

    gradient = torch.randn(*shape, case.size, generator=generator)
    pair = [incoming, key]
    found = derived(context(kernels, backend=backend), pair, gradient)
    eager = derived(context(reference), [tensor.float() for tensor in pair], gradient)
    truth = derived(context(reference), [tensor.double() for tensor in pair], gradient)
    total = gradient.abs().double().sum()
    extras = [largest * e.sum(), largest * total, e.sum() * total]
    for arguments in zip(("context", "dw", "dv"), found, eager, truth, extras, strict=True):
        check(*arguments)


@pytest.mark.parametrize("backend", FUSED)
@pytest.mark.parametrize("case", pairwise(), ids=lambda case: "-".join(map(str, case)))
def test_a_covering_set_of_cases_agrees_with_float64(case: Case, backend: str) -> None:
    additive_agrees(case, backend)
    bands_agree(case, backend, 1 + case.steps % 4)


def every_result(backend: str, query: Tensor, key: Tensor, weight: Tensor) -> list[Tensor]:
    """What a backend makes of the same numbers: all its values and gradients."""
    generator = torch.Generator().manual_seed(1)
    steps, source, size = query.shape[1], key.shape[1], query.shape[2]
    centres = torch.randint(-2, source + 3, (BATCH, steps), generator=generator)
    incoming = torch.randn(BATCH, steps, source, generator=generator)
    band = torch.randn(BATCH, steps, 5, generator=generator)
    gradient = torch.randn(BATCH, steps, size, generator=generator)

    def additive_band(query: Tensor, key: Tensor, weight: Tensor, **options: Any) -> Tensor:
        return kernels.local_scores(query, key, centres, 2, weight, **options)

    calls: list[tuple[Any, list[Tensor], Tensor]] = [
        (kernels.additive_scores, [query, key, weight], incoming),
        (additive_band, [query, key, weight], band),
        (partial(kernels.local_scores, centres=centres, half_width=2), [query, key], band),
        (partial(kernels.local_context, centres=centres), [band, key], gradient),
    ]
    return [
        result
        for function, inputs, error in calls
        for result in derived(partial(function, backend=backend), inputs, error)
    ]


def bits_agree(case: Case, backend: str) -> None:
    """Strides change no bit, and 16-bit inputs give what the widened ones give, rounded."""
    generator = torch.Generator().manual_seed(0)
    weight = torch.randn(case.size, generator=generator)
    strided = [(layout, torch.float32) for layout in LAYOUTS[1:]]
    for layout, dtype in [*strided, *(("contiguous", dtype) for dtype in DTYPES[1:])]:
        kind = case._replace(layout=layout, dtype=dtype)
        query, key = rows(kind, case.steps, generator), rows(kind, case.source, generator)
        found = every_result(backend, query, key, weight)
        plain = [tensor.float().contiguous() for tensor in (query, key)]
        expected = every_result(backend, *plain, weight)
        for one, other in zip(found, expected, strict=True):
            assert torch.equal(one, other.to(one.dtype)), f"{layout}, {dtype}"


@pytest.mark.slow
@pytest.mark.parametrize("backend", FUSED)
@pytest.mark.parametrize("size", FACTORS["size"])
@pytest.mark.parametrize("steps", FACTORS["steps"])
def test_the_whole_product_agrees_with_float64(steps: int, size: int, backend: str) -> None:
    """Strides and types are held to bits, so that float64 is asked once for all of them."""
    for source, magnitude in itertools.product(FACTORS["source"], FACTORS["magnitude"]):
        case = Case(steps, source, size, "each", "contiguous", magnitude, torch.float32)
        additive_agrees(case, backend)
        bands_agree(case, backend, 2)
        bits_agree(case, backend)


@pytest.mark.parametrize("backend", FUSED)
@settings(max_examples=30, deadline=None)
@given(
    steps=st.integers(0, 9),
    source=st.integers(0, 9),
    size=st.integers(1, 130),
    exponent=st.floats(-3, 4),
    mask=st.sampled_from(FACTORS["mask"]),
    layout=st.sampled_from(FACTORS["layout"]),
    seed=st.integers(0, 2**31),
)
def test_anything_agrees_with_float64(
    backend: str,
    steps: int,
    source: int,
    size: int,
    exponent: float,
    mask: str,
    layout: str,
    seed: int,
) -> None:
    case = Case(steps, source, size, mask, layout, 10.0**exponent, torch.float32)
    additive_agrees(case, backend, seed)
    bands_agree(case, backend, 1 + seed % 3, seed)
