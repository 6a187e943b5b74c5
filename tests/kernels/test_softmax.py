"""Softmax with its context, and the log-softmax of logits: values, masks, odd numbers."""

import pytest
import torch
from engines import BACKENDS

from luong import kernels


def made(batch=3, steps=2, source=5, size=4, scale=1.0):
    torch.manual_seed(batch + source)
    scores, value = torch.randn(batch, steps, source) * scale, torch.randn(batch, source, size)
    return scores, value, torch.rand(batch, steps, source) > 0.4


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("scale", [1e-3, 1.0, 50.0])
@pytest.mark.parametrize("sizes", [(3, 2, 5, 4), (1, 1, 1, 1), (2, 7, 33, 100), (0, 1, 3, 2)])
def test_agrees_with_float64(sizes, scale, backend):
    scores, value, mask = made(*sizes, scale=scale)
    for allowed in (mask, mask[:, :1]):
        context, weights = kernels.softmax_context(scores, value, allowed, backend=backend)
        filled = scores.double().masked_fill(~allowed, -torch.inf)
        exact = filled.softmax(-1).nan_to_num(0.0)
        torch.testing.assert_close(weights.double(), exact, rtol=1e-5, atol=1e-7)
        torch.testing.assert_close(context.double(), exact @ value.double(), rtol=1e-5, atol=1e-6)
        assert (weights[~allowed.expand_as(weights)] == 0).all()


@pytest.mark.parametrize("backend", BACKENDS)
def test_nothing_allowed_gives_zeros_and_nan_counts_only_where_it_is_seen(backend):
    scores, value, mask = made()
    mask[:] = True
    mask[0, 0] = False
    mask[1, 0, 2] = False
    scores[0, 0, 1] = scores[1, 0, 2] = scores[2, 1, 0] = torch.nan
    context, weights = kernels.softmax_context(scores, value, mask, backend=backend)
    assert (context[0, 0] == 0).all()
    assert (weights[0, 0] == 0).all()
    assert weights[2, 1].isnan().all()
    assert context[2, 1].isnan().all()
    assert weights.isnan().sum() == 5


def test_gradients_are_those_of_the_reference():
    scores, value, mask = made()
    results = []
    for backend in ("cpu", "reference"):
        inputs = [scores.clone().requires_grad_(), value.clone().requires_grad_()]
        context, weights = kernels.softmax_context(*inputs, mask, backend=backend)
        total = (context * 3).sum() + weights.square().sum()
        results.append(torch.autograd.grad(total, inputs))
    for found, expected in zip(*results, strict=True):
        torch.testing.assert_close(found, expected)


def test_shapes_that_do_not_fit_are_refused():
    scores, value, mask = made()
    with pytest.raises(ValueError, match="expected"):
        kernels.softmax_context(scores, value[1:], mask, backend="cpu")
    with pytest.raises(ValueError, match="expected"):
        kernels.softmax_context(scores, value, mask[:1], backend="cpu")
    with pytest.raises(TypeError, match="bool"):
        kernels.softmax_context(scores, value, mask.float(), backend="cpu")


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [0, 1, 7])
@pytest.mark.parametrize("size", [1, 64, 1000])
def test_log_softmax_agrees_with_float64(size, rows, backend):
    torch.manual_seed(size)
    logits = torch.randn(rows, size) * 10
    if size > 1 and rows > 1:
        logits[1, ::2] = -torch.inf
        logits[3, 0] = torch.nan
        logits[4] = -torch.inf
        logits[5, 1] = torch.inf
    found = kernels.log_softmax(logits, backend=backend)
    exact = logits.double().log_softmax(-1)
    torch.testing.assert_close(found.double(), exact, rtol=1e-6, atol=2e-6, equal_nan=True)
