"""Every backend that runs here, against the float64 reference.

The bounds: a score is off by at most 4 times what eager float32 is off by, plus 2^-22 sum|v|; with
e the incoming gradient, dq and dk by 2^-22 |v_c| sum|e| more than that, and dv by 2^-22 sum|e|.
"""

from __future__ import annotations

import itertools
import math
import random
from typing import Any, NamedTuple

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from luong import kernels
from luong.errors import UserError
from luong.kernels import reference

EPSILON = 2.0**-22
FACTORS: dict[str, tuple[Any, ...]] = {
    "steps": (0, 1, 2, 3, 7, 31, 33, 65, 129),
    "source": (0, 1, 2, 3, 7, 31, 33, 65, 129),
    "size": (1, 8, 63, 100, 512),
    "mask": ("none", "lengths", "random", "nothing"),
    "layout": ("contiguous", "transposed", "expanded", "offset"),
    "magnitude": (1e-3, 1.0, 10.0, "bound", 1e3, 1e4),
    "dtype": (torch.float32, torch.bfloat16, torch.float16),
}
BATCH = 3


class Case(NamedTuple):
    steps: int
    source: int
    size: int
    mask: str
    layout: str
    magnitude: float | str
    dtype: torch.dtype


def _serving() -> list[str]:
    names = []
    for engine in kernels.BACKENDS:
        try:
            kernels.choose("additive_scores", "cpu", torch.float32, engine.name)
        except UserError:
            continue
        names.append(engine.name)
    return names


BACKENDS = _serving()


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
        lengths = torch.tensor([0, case.source // 2, case.source])
        return (torch.arange(case.source) < lengths[:, None])[:, None].expand(shape)
    if case.mask == "random":
        return torch.rand(shape, generator=generator) < 0.5
    return torch.full(shape, case.mask == "none")


def derived(function: Any, inputs: list[Tensor], incoming: Tensor) -> list[Tensor]:
    leaves = [tensor.detach().requires_grad_() for tensor in inputs]
    output = function(*leaves)
    gradients = torch.autograd.grad(
        output, leaves, incoming.to(output.dtype), allow_unused=True, materialize_grads=True
    )
    return [output.detach(), *gradients]


def check(name: str, found: Tensor, eager: Tensor, truth: Tensor, extra: Tensor | float) -> None:
    assert found.shape == truth.shape, name
    if truth.numel() == 0:
        return
    narrow = torch.finfo(found.dtype).eps if found.dtype != torch.float32 else 0.0
    allowed = 4 * (eager.double() - truth).abs().max() + EPSILON * extra + narrow * truth.abs()
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("case", pairwise(), ids=lambda case: "-".join(map(str, case)))
def test_a_covering_set_of_cases_agrees_with_float64(case: Case, backend: str) -> None:
    additive_agrees(case, backend)
    bands_agree(case, backend, 1 + case.steps % 4)


@pytest.mark.slow
@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("size", FACTORS["size"])
@pytest.mark.parametrize("steps", FACTORS["steps"])
def test_the_whole_product_agrees_with_float64(steps: int, size: int, backend: str) -> None:
    rest = [FACTORS[name] for name in ("source", "mask", "layout", "magnitude", "dtype")]
    for source, mask, layout, magnitude, dtype in itertools.product(*rest):
        case = Case(steps, source, size, mask, layout, magnitude, dtype)
        additive_agrees(case, backend)
        bands_agree(case, backend, 2)


@pytest.mark.parametrize("backend", BACKENDS)
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


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(
    ("query_lead", "key_lead"),
    [((), ()), ((4,), ()), ((), (4,)), ((4,), (1,)), ((2, 3), (2, 1)), ((1, 3), (2, 3))],
)
def test_leading_dimensions_broadcast(
    query_lead: tuple[int, ...], key_lead: tuple[int, ...], backend: str
) -> None:
    query, key, weight = (
        torch.randn(*query_lead, 5, 7),
        torch.randn(*key_lead, 6, 7),
        torch.randn(7),
    )
    lead = torch.broadcast_shapes(query_lead, key_lead)
    incoming = torch.randn(*lead, 5, 6)

    def fused(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        return kernels.additive_scores(query, key, weight, backend=backend)

    found = derived(fused, [query, key, weight], incoming)
    truth = derived(reference.additive_scores, [query, key, weight], incoming)
    centres = torch.randint(0, 6, (*lead, 5))
    band = kernels.local_scores(query, key, centres, 2, weight, backend=backend)
    for a, b in zip(found, truth, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    expected = reference.local_scores(query, key, centres, 2, weight)
    torch.testing.assert_close(band, expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_beams_as_rows_equal_separate_calls(backend: str) -> None:
    query, key, weight = torch.randn(2, 5, 100), torch.randn(2, 33, 100), torch.randn(100)
    prepared = kernels.prepare_keys(key, backend=backend)
    together = kernels.additive_scores(query, prepared, weight, backend=backend)
    for beam in range(5):
        alone = kernels.additive_scores(
            query[:, beam : beam + 1].contiguous(), prepared, weight, backend=backend
        )
        torch.testing.assert_close(together[:, beam : beam + 1], alone)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("outlier", [30.0, 1e4])
def test_a_huge_row_leaves_every_other_row_as_it_was(outlier: float, backend: str) -> None:
    query, key, weight = torch.randn(2, 9, 100), torch.randn(2, 70, 100), torch.randn(100)
    incoming = torch.randn(2, 9, 70)

    def fused(query: Tensor, key: Tensor, weight: Tensor) -> Tensor:
        return kernels.additive_scores(query, key, weight, backend=backend)

    before = derived(fused, [query, key, weight], incoming)
    query[:, 4] *= outlier
    after = derived(fused, [query, key, weight], incoming)
    others = [row for row in range(9) if row != 4]
    assert torch.equal(before[0][:, others], after[0][:, others])
    assert torch.equal(before[1][:, others], after[1][:, others])
    query[:, 4] /= outlier
    key[:, 67] *= outlier
    before = derived(fused, [query, key, weight], incoming)
    key[:, 67] *= 1e3
    after = derived(fused, [query, key, weight], incoming)
    others = [row for row in range(70) if row != 67]
    assert torch.equal(before[0][:, :, others], after[0][:, :, others])
    assert torch.equal(before[2][:, others], after[2][:, others])


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("poison", [math.nan, 1e30])
def test_what_stands_in_keys_without_gradient_changes_nothing(poison: float, backend: str) -> None:
    query, key, weight = torch.randn(2, 6, 63), torch.randn(2, 40, 63), torch.randn(63)
    incoming = torch.randn(2, 6, 40)
    incoming[:, :, 30:] = 0.0
    clean = derived(
        lambda *x: kernels.additive_scores(*x, backend=backend), [query, key, weight], incoming
    )
    key[:, 30:] = poison
    if backend == "reference":
        pytest.skip("the reference leaves it to the layer to hide masked keys")
    dirty = derived(
        lambda *x: kernels.additive_scores(*x, backend=backend), [query, key, weight], incoming
    )
    assert torch.equal(clean[0][:, :, :30], dirty[0][:, :, :30])
    for a, b in zip(clean[1:], dirty[1:], strict=True):
        assert torch.equal(a, b)


@pytest.mark.parametrize("backend", BACKENDS)
def test_nan_in_a_live_row_comes_out(backend: str) -> None:
    query, key, weight = torch.randn(1, 4, 8), torch.randn(1, 5, 8), torch.randn(8)
    query[0, 2, 3] = math.nan
    scores = kernels.additive_scores(query, key, weight, backend=backend)
    assert scores[0, 2].isnan().all()
    assert not scores[0, [0, 1, 3]].isnan().any()
    centres = torch.tensor([[0, 1, 2, 3]])
    band = kernels.local_scores(query, key, centres, 1, weight, backend=backend)
    assert band[0, 2].isnan().all()
    assert not band[0, [0, 1, 3]].isnan().any()
    found = derived(
        lambda *x: kernels.additive_scores(*x, backend=backend),
        [query, key, weight],
        torch.ones(1, 4, 5),
    )
    assert found[1][0, 2, 3].isnan()
    assert not found[1][0, [0, 1, 3]].isnan().any()
    assert found[3][3].isnan()


@pytest.mark.parametrize("backend", BACKENDS)
def test_many_same_signed_gradients_do_not_drift(backend: str) -> None:
    query, key, weight = torch.randn(1, 900, 3) * 1e-3, torch.randn(1, 700, 3) * 1e-3, torch.ones(3)
    incoming = torch.rand(1, 900, 700)
    found = derived(
        lambda *x: kernels.additive_scores(*x, backend=backend), [query, key, weight], incoming
    )
    truth = derived(reference.additive_scores, [t.double() for t in (query, key, weight)], incoming)
    for a, b in zip(found[1:3], truth[1:3], strict=True):
        torch.testing.assert_close(a.double(), b, rtol=1e-5, atol=0)
    torch.testing.assert_close(
        found[3].double(), truth[3], rtol=0, atol=float(incoming.sum()) * EPSILON
    )
