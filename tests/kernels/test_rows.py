"""What every backend that runs here owes to single rows: large ones, NaN, beams, broadcasting."""

from __future__ import annotations

import math

import pytest
import torch
from engines import BACKENDS, EPSILON, FUSED, derived
from torch import Tensor

from luong import kernels
from luong.kernels import reference


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


@pytest.mark.parametrize("biased", [False, True])
@pytest.mark.parametrize("mask_shape", [(), (6,), (5, 1), (2, 1, 6), (2, 5, 6)])
@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_without_weights(mask_shape: tuple[int, ...], biased: bool, backend: str) -> None:
    query, key, weight = torch.randn(2, 5, 7), torch.randn(2, 6, 7), torch.randn(7)
    value, bias = torch.randn(2, 6, 3), torch.randn(5, 6)
    mask = torch.rand(mask_shape) < 0.7
    allowed = mask.expand(2, 5, 6)
    incoming = torch.randn(2, 5, 3)

    def written_out(
        query: Tensor, key: Tensor, weight: Tensor, value: Tensor, bias: Tensor
    ) -> Tensor:
        scores = (torch.tanh(query.unsqueeze(-2) + key.unsqueeze(-3)) * weight).sum(-1)
        shares = (scores + bias if biased else scores).exp() * allowed
        return shares / shares.sum(-1, keepdim=True).clamp(min=1e-30) @ value

    def fused(*inputs: Tensor) -> Tensor:
        *inputs, bias = inputs
        extra = (bias,) if biased else ()
        return kernels.additive_attention(*inputs, mask, *extra, backend=backend)

    inputs = [query, key, weight, value, bias]
    truth = derived(written_out, [tensor.double() for tensor in inputs], incoming)
    for found, expected in zip(derived(fused, inputs, incoming), truth, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("backend", BACKENDS)
def test_attention_refuses_masks_of_floats(backend: str) -> None:
    rows, mask = torch.randn(1, 2, 3), torch.ones(2, 2)
    with pytest.raises(TypeError, match="expected bool"):
        kernels.additive_attention(rows, rows, rows[0, 0], rows, mask, backend=backend)
    with pytest.raises(TypeError, match="expected bool"):
        kernels.dot_attention(rows, rows, rows, mask, backend=backend)


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
    before = derived(fused, [query, key, weight], incoming)
    key[:, 67] *= outlier
    after = derived(fused, [query, key, weight], incoming)
    others = [row for row in range(70) if row != 67]
    assert torch.equal(before[0][:, :, others], after[0][:, :, others])
    assert torch.equal(before[2][:, others], after[2][:, others])


# The reference leaves it to the layer to hide masked keys.
@pytest.mark.parametrize("backend", FUSED)
@pytest.mark.parametrize("poison", [math.nan, 1e30])
def test_what_stands_in_keys_without_gradient_changes_nothing(poison: float, backend: str) -> None:
    query, key, weight = torch.randn(2, 6, 63), torch.randn(2, 40, 63), torch.randn(63)
    incoming = torch.randn(2, 6, 40)
    incoming[:, :, 30:] = 0.0
    clean = derived(
        lambda *x: kernels.additive_scores(*x, backend=backend), [query, key, weight], incoming
    )
    key[:, 30:] = poison
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
