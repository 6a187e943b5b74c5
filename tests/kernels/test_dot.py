"""Dot-product attention of few queries of each source: values, gradients, masks, odd numbers."""

import pytest
import torch
from engines import BACKENDS

from luong import kernels
from luong.kernels import dot_calls


def made(batch=3, steps=2, source=5, size=4, value_size=6, dtype=torch.float32):
    torch.manual_seed(batch + source)
    query, key = torch.randn(batch, steps, size), torch.randn(batch, source, size)
    value, mask = torch.randn(batch, source, value_size), torch.rand(batch, steps, source) > 0.3
    return [x.to(dtype).requires_grad_() for x in (query, key, value)], mask


def exact(tensors, mask, incoming):
    """Context and gradients in float64 from the formula alone."""
    query, key, value = (x.detach().double().requires_grad_() for x in tensors)
    scores = (query @ key.transpose(1, 2)).masked_fill(~mask, -torch.inf)
    weights = torch.where(mask.any(-1, keepdim=True), scores, 0.0).softmax(-1)
    context = weights.masked_fill(~mask, 0.0) @ value
    return context, torch.autograd.grad(context, (query, key, value), incoming.double())


SIZES = [(3, 1, 5, 4, 6), (2, 3, 33, 100, 17), (1, 1, 1, 1, 1), (4, 8, 9, 8, 8), (0, 1, 3, 2, 2)]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("for_all", [True, False])
def test_agrees_with_float64(sizes, for_all, backend):
    tensors, mask = made(*sizes)
    mask = mask[:, :1] if for_all else mask
    context = kernels.dot_attention(*tensors, mask, backend=backend)
    incoming = torch.randn_like(context)
    gradients = torch.autograd.grad(context, tensors, incoming)
    right, right_gradients = exact(tensors, mask, incoming)
    torch.testing.assert_close(context.double(), right, rtol=1e-5, atol=1e-6)
    for found, expected in zip(gradients, right_gradients, strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)


def test_the_loops_are_what_a_step_takes(monkeypatch):
    calls = []
    attend = dot_calls.attend
    monkeypatch.setattr(dot_calls, "attend", lambda *given: calls.append(1) or attend(*given))
    tensors, mask = made(steps=1)
    kernels.dot_attention(*tensors, mask)
    with torch.no_grad():
        kernels.dot_attention(*tensors, mask)
    assert len(calls) == 2


def test_bfloat16_gives_what_the_reference_gives():
    tensors, mask = made(dtype=torch.bfloat16)
    results = []
    for backend in ("cpu", "reference"):
        context = kernels.dot_attention(*tensors, mask, backend=backend)
        results.append([context, *torch.autograd.grad(context.sum(), tensors)])
    for found, expected in zip(*results, strict=True):
        assert found.dtype == expected.dtype
        torch.testing.assert_close(found, expected)


def test_what_is_masked_changes_nothing_and_nothing_allowed_gives_zeros():
    tensors, mask = made(batch=2, steps=2, source=4)
    mask[:] = True
    mask[0] = False
    mask[1, :, 2] = False
    results = []
    for filler in (0.0, torch.nan, torch.inf):
        query, key, value = (x.detach().clone() for x in tensors)
        key[1, 2], value[1, 2] = filler, filler
        own = [x.requires_grad_() for x in (query, key, value)]
        context = kernels.dot_attention(*own, mask)
        results.append([context, *torch.autograd.grad(context.square().sum(), own)])
        assert (context[0] == 0).all()
        for gradient in results[-1][1:]:
            assert (gradient[0] == 0).all()
        assert (results[-1][2][1, 2] == 0).all()
    for found in results[1:]:
        for one, other in zip(found, results[0], strict=True):
            assert torch.equal(one, other)


def test_nan_that_is_seen_comes_out():
    tensors, mask = made(batch=2, steps=2)
    mask[:] = True
    with torch.no_grad():
        tensors[1][0, 1, 2] = torch.nan
        context = kernels.dot_attention(*tensors, mask)
    assert context[0].isnan().all()
    assert context[1].isfinite().all()


def test_second_derivatives():
    tensors, mask = made(batch=1, steps=1, source=3, size=2, value_size=2)
    results = []
    for backend in ("cpu", "reference"):
        context = kernels.dot_attention(*tensors, mask, backend=backend)
        firsts = torch.autograd.grad(context.square().sum(), tensors, create_graph=True)
        total = sum(first.square().sum() for first in firsts)
        results.append(torch.autograd.grad(total, tensors))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_sources_that_are_views_or_shared_are_right_too():
    tensors, mask = made(batch=3)
    query, key, value = tensors
    turned = key.transpose(0, 1).contiguous().transpose(0, 1)
    torch.testing.assert_close(
        kernels.dot_attention(query, turned, value, mask),
        kernels.dot_attention(query, key, value, mask),
    )
    one = kernels.dot_attention(query, key[:1].expand(3, -1, -1), value, mask)
    same = kernels.dot_attention(query, key[:1].repeat(3, 1, 1), value, mask)
    torch.testing.assert_close(one, same)
