"""Products by oneDNN are torch's linear: forward, gradients, and where they step aside."""

import pytest
import torch
from torch.nn import functional

from luong import kernels
from luong.kernels import products


def made(*shape, outputs=7, dtype=torch.float32):
    torch.manual_seed(sum(shape))
    inputs = torch.randn(*shape, dtype=dtype, requires_grad=True)
    weight = torch.randn(outputs, shape[-1], dtype=dtype, requires_grad=True)
    return inputs, weight


def started(kind, inputs, weight):
    if kind == "none":
        return None
    shape = (*inputs.shape[:-1], len(weight)) if kind == "rows" else (len(weight),)
    return torch.randn(shape, dtype=inputs.dtype, requires_grad=True)


@pytest.mark.parametrize("kind", ["none", "bias", "rows"])
@pytest.mark.parametrize("shape", [(1, 5), (2, 9), (7, 40), (300, 33), (0, 4), (3, 0)])
def test_agrees_with_float64_forward_and_backward(shape, kind):
    inputs, weight = made(*shape)
    start = started(kind, inputs, weight)
    given = [tensor for tensor in (inputs, weight, start) if tensor is not None]
    wide = [tensor.detach().double().requires_grad_() for tensor in given]
    expected = wide[0] @ wide[1].t() + (wide[2] if start is not None else 0)
    found = products.linear(inputs, weight, start)
    incoming = torch.randn_like(found)
    gradients = torch.autograd.grad(found, given, incoming)
    wanted = torch.autograd.grad(expected, wide, incoming.double())
    for value, exact in zip((found, *gradients), (expected, *wanted), strict=True):
        torch.testing.assert_close(value.double(), exact, rtol=1e-5, atol=1e-4)


def test_leading_dimensions_and_strides():
    inputs, weight = made(3, 4, 5)
    bias = torch.randn(7)
    found = products.linear(inputs.transpose(0, 1), weight, bias)
    expected = functional.linear(inputs.transpose(0, 1), weight, bias)
    torch.testing.assert_close(found, expected)
    turned = torch.randn(5, 7).t()
    torch.testing.assert_close(products.multiply(inputs, turned), inputs @ turned.t())


def test_it_is_onednn_that_multiplies_unless_told_otherwise(monkeypatch):
    inputs, weight = (tensor.detach() for tensor in made(20, 3))
    calls = []
    real = products._onednn
    monkeypatch.setattr(products, "_onednn", lambda *given: calls.append(1) or real(*given))
    products.linear(inputs, weight)
    assert len(calls) == 1
    with products.use_library("default"):
        products.linear(inputs, weight)
    products.linear(inputs.double(), weight.double())
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(inputs, weight).dtype == torch.bfloat16
    torch.func.vmap(lambda row: products.linear(row, weight))(inputs)
    monkeypatch.setattr(torch._C, "_get_mkldnn_enabled", lambda: False)
    products.linear(inputs, weight)
    assert len(calls) == 1


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize("rows", [1, 4, 6, 12])
def test_few_rows(rows, backend):
    inputs, weight = (tensor.detach() for tensor in made(rows, 300, outputs=21))
    for start in (None, torch.randn(21), torch.randn(rows, 21)):
        found = kernels.few_rows_product(inputs, weight, start, backend=backend)
        exact = inputs.double() @ weight.double().t() + (0 if start is None else start.double())
        torch.testing.assert_close(found.double(), exact, rtol=1e-5, atol=2e-5)


def test_of_few_rows_none_knows_of_another_and_threads_change_no_bit():
    inputs, weight = (tensor.detach() for tensor in made(5, 700, outputs=1000))
    clean = kernels.few_rows_product(inputs, weight)
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(kernels.few_rows_product(inputs, weight), clean)
    finally:
        torch.set_num_threads(before)
    inputs[1] = torch.nan
    found = kernels.few_rows_product(inputs, weight)
    assert found[1].isnan().all()
    assert torch.equal(found[[0, 2, 3, 4]], clean[[0, 2, 3, 4]])


def test_sizes_that_do_not_fit_are_refused():
    inputs, weight = (tensor.detach() for tensor in made(3, 4))
    for wrong in ((inputs, weight[:, 1:].contiguous()), (inputs, weight, torch.zeros(2, 7))):
        with pytest.raises(ValueError, match="expected"):
            products.linear(*wrong)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script")
def test_second_derivative_and_forward_mode():
    inputs, weight = made(3, 4)
    (first,) = torch.autograd.grad(
        products.linear(inputs, weight).square().sum(), inputs, create_graph=True
    )
    (second,) = torch.autograd.grad(first.sum(), weight)
    (expected,) = torch.autograd.grad(
        torch.autograd.grad((inputs @ weight.t()).square().sum(), inputs, create_graph=True)[
            0
        ].sum(),
        weight,
    )
    torch.testing.assert_close(second, expected, rtol=1e-4, atol=1e-4)
    tangent = torch.randn_like(inputs)
    _, moved = torch.func.jvp(lambda x: products.linear(x, weight), (inputs,), (tangent,))
    torch.testing.assert_close(moved, tangent @ weight.t(), rtol=1e-4, atol=1e-5)


def test_a_compiled_call_is_torchs_own():
    inputs, weight = made(3, 4)
    compiled = torch.compile(products.linear, backend="aot_eager", fullgraph=True)
    torch.testing.assert_close(compiled(inputs, weight), inputs @ weight.t())
