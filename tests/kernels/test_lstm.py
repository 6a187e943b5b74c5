"""The element-wise part of the LSTM: forward, gradients, odd values, threads."""

import pytest
import torch

from luong import kernels
from luong.kernels import reference

ROWS = 5


def made(size, scale=1.0, rows=ROWS, dtype=torch.float32):
    torch.manual_seed(size)
    gates = (torch.randn(rows, 4 * size) * scale).to(dtype)
    return gates.requires_grad_(), torch.randn(rows, size).to(dtype).requires_grad_()


@pytest.mark.parametrize("scale", [1e-3, 1.0, 30.0, 1e4])
@pytest.mark.parametrize("size", [1, 3, 8, 63, 512])
def test_agrees_with_float64(size, scale):
    gates, cell = made(size, scale)
    wide = gates.detach().double().requires_grad_(), cell.detach().double().requires_grad_()
    found = kernels.lstm_update(gates, cell, backend="cpu")
    expected = reference.lstm_update(*wide)
    incoming = torch.randn(2, ROWS, size)
    gradients = torch.autograd.grad(found, (gates, cell), tuple(incoming))
    wanted = torch.autograd.grad(expected, wide, tuple(incoming.double()))
    for value, exact in zip((*found, *gradients), (*expected, *wanted), strict=True):
        torch.testing.assert_close(value.double(), exact, rtol=1e-6, atol=2e-6)


def test_without_derivatives_the_values_are_the_same():
    gates, cell = made(63)
    expected = kernels.lstm_update(gates, cell, backend="cpu")
    with torch.no_grad():
        found = kernels.lstm_update(gates, cell, backend="cpu")
    for value, other in zip(found, expected, strict=True):
        torch.testing.assert_close(value, other, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("size", [1, 63])
def test_gates_in_bfloat16_differ_from_wide_ones_by_the_rounding_of_their_gradient(size):
    gates, cell = made(size)
    narrow = gates.detach().bfloat16().requires_grad_()
    wide = narrow.detach().float().requires_grad_()
    incoming = tuple(torch.randn(2, ROWS, size))
    found = kernels.lstm_update(narrow, cell, backend="cpu")
    expected = kernels.lstm_update(wide, cell, backend="cpu")
    assert all(map(torch.equal, found, expected))
    to_gates, to_cell = torch.autograd.grad(found, (narrow, cell), incoming)
    wide_gates, wide_cell = torch.autograd.grad(expected, (wide, cell), incoming)
    assert to_gates.dtype == torch.bfloat16
    assert torch.equal(to_gates, wide_gates.bfloat16())
    assert torch.equal(to_cell, wide_cell)


@pytest.mark.parametrize("which", [0, 1])
def test_one_result_may_go_without_a_gradient(which):
    gates, cell = made(7)
    found = torch.autograd.grad(
        kernels.lstm_update(gates, cell, backend="cpu")[which].sum(), (gates, cell)
    )
    expected = torch.autograd.grad(reference.lstm_update(gates, cell)[which].sum(), (gates, cell))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_no_row_knows_of_another_and_nan_stays_in_its_own():
    gates, cell = (tensor.detach() for tensor in made(9))
    clean = kernels.lstm_update(gates, cell, backend="cpu")
    gates[1] = 1e30
    gates[3, 2] = torch.nan
    found = kernels.lstm_update(gates, cell, backend="cpu")
    for value, before in zip(found, clean, strict=True):
        assert torch.equal(value[[0, 2, 4]], before[[0, 2, 4]])
        assert value[3, 2].isnan()
        assert value.isnan().sum() == 1


def test_any_strides():
    gates, cell = (tensor.detach() for tensor in made(6))
    found = kernels.lstm_update(gates.t().contiguous().t(), cell[:1].expand(ROWS, -1))
    expected = kernels.lstm_update(gates, cell[:1].repeat(ROWS, 1))
    for value, other in zip(found, expected, strict=True):
        assert torch.equal(value, other)


def test_second_derivative():
    gates, cell = made(3, dtype=torch.float64)
    assert torch.autograd.gradgradcheck(reference.lstm_update, (gates, cell))
    narrow = gates.detach().float().requires_grad_(), cell.detach().float().requires_grad_()
    seconds = []
    for compute, inputs in (
        (reference.lstm_update, (gates, cell)),
        (lambda *x: kernels.lstm_update(*x, backend="cpu"), narrow),
    ):
        total = sum(value.square().sum() for value in compute(*inputs))
        first = torch.autograd.grad(total, inputs, create_graph=True)
        seconds.append(torch.autograd.grad(sum(x.square().sum() for x in first), inputs))
    for found, expected in zip(seconds[1], seconds[0], strict=True):
        torch.testing.assert_close(found.double(), expected, rtol=1e-4, atol=1e-5)


def test_threads_change_no_bit():
    gates, cell = made(512, rows=200)
    results = []
    before = torch.get_num_threads()
    try:
        for count in (1, 2, 3):
            torch.set_num_threads(count)
            new = kernels.lstm_update(gates, cell, backend="cpu")
            total = new[0].sum() + new[1].sum()
            results.append((*new, *torch.autograd.grad(total, (gates, cell))))
    finally:
        torch.set_num_threads(before)
    for other in results[1:]:
        assert all(torch.equal(a, b) for a, b in zip(results[0], other, strict=True))


def test_no_rows():
    hidden, cell = kernels.lstm_update(torch.zeros(0, 12), torch.zeros(0, 3))
    assert hidden.shape == cell.shape == (0, 3)


@pytest.mark.parametrize("backend", ["cpu", "reference"])
@pytest.mark.parametrize(("steps", "rows", "size"), [(1, 1, 1), (7, 1, 20), (3, 6, 33), (0, 2, 4)])
def test_sequences_are_those_of_torch(backend, steps, rows, size):
    torch.manual_seed(size)
    layers = [torch.nn.LSTM(4 * size, size, dtype=torch.float64) for _ in range(2)]
    projected = [torch.randn(steps, rows, 4 * size, dtype=torch.float64) for _ in layers]
    with torch.no_grad():
        for layer in layers:  # so that the inputs are the gates
            layer.weight_ih_l0.copy_(torch.eye(4 * size))
            layer.bias_ih_l0.zero_()
            layer.bias_hh_l0.zero_()
        weights = [layer.weight_hh_l0.float() for layer in layers]
        narrow = [part.float() for part in projected]
        found = kernels.lstm_sequences(narrow, weights, backend=backend)
        for states, layer, inputs in zip(found, layers, projected, strict=True):
            assert states.shape == (steps, rows, size)
            if steps:
                torch.testing.assert_close(states.double(), layer(inputs)[0], rtol=1e-5, atol=1e-6)


def test_sequences_of_other_sizes_are_refused():
    with pytest.raises(ValueError, match="expected"):
        kernels.lstm_sequences([torch.zeros(2, 1, 8)], [torch.zeros(8, 3)], backend="cpu")
