"""Products in int8 by every way that this machine has: exact sums, whatever the sizes."""

import math

import pytest
import torch

from luong import kernels
from luong.kernels import cpu_vnni, int8_layout

SIZES = [
    (1, 1, 1),
    (1, 512, 64),
    (5, 33, 65),
    (6, 4, 40),
    (7, 100, 200),
    (12, 7, 64),
    (50, 66, 130),
]


def layouts():
    """Nothing laid out, what fbgemm reads, and what the loops with VNNI read."""
    found = {"none": lambda values, scales: None}
    if int8_layout._has_fbgemm():
        found["fbgemm"] = int8_layout._for_fbgemm
    if cpu_vnni.serves():
        found["vnni"] = lambda values, scales: cpu_vnni.lay_out(values)
    return found


LAYOUTS = layouts()


def made(rows, size, outputs):
    torch.manual_seed(rows + size)
    values = torch.randint(-127, 128, (outputs, size), dtype=torch.int8)
    return torch.randn(rows, size), values, torch.rand(outputs) + 0.5


def truth(inputs, values, scales):
    """By the definition, in float64."""
    largest = inputs.double().abs().amax(1, keepdim=True)
    # The quotient is rounded in float32, as every engine does it.
    whole = (inputs * (63 / inputs.abs().amax(1, keepdim=True))).round().double()
    return (whole @ values.double().t()) * scales.double() * largest / 63


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("rows", "size", "outputs"), SIZES)
def test_products_are_those_of_whole_numbers(layout, rows, size, outputs):
    inputs, values, scales = made(rows, size, outputs)
    packed = LAYOUTS[layout](values, scales)
    found = kernels.int8_product(inputs, values, scales, packed)
    expected = truth(inputs, values, scales)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)
    bias = torch.randn(outputs)
    found = kernels.int8_product(inputs, values, scales, packed, bias)
    torch.testing.assert_close(found.double(), expected + bias, rtol=1e-6, atol=2e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize(("rows", "parts"), [(6, 1), (6, 2), (6, 6), (40, 8)])
def test_a_start_has_a_row_for_as_many_rows_in_turn(layout, rows, parts):
    inputs, values, scales = made(rows, 20, 70)
    start = torch.randn(parts, 70)
    start[0, 3] = -torch.inf
    found = kernels.int8_product(inputs, values, scales, LAYOUTS[layout](values, scales), start)
    expected = truth(inputs, values, scales) + start.double().repeat_interleave(rows // parts, 0)
    torch.testing.assert_close(found.double(), expected, rtol=1e-6, atol=1e-5)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_greatest_sums_do_not_overflow(layout):
    for sign in (-1, 1):
        values = torch.full((70, 2048), sign * 127, dtype=torch.int8)
        packed = LAYOUTS[layout](values, torch.ones(70))
        found = kernels.int8_product(torch.full((7, 2048), 63.0), values, torch.ones(70), packed)
        assert (found == sign * 127 * 63 * 2048).all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("rows", [3, 20])
def test_a_row_that_is_not_finite_is_nan_and_no_other(layout, rows):
    inputs, values, scales = made(rows, 20, 70)
    packed = LAYOUTS[layout](values, scales)
    clean = kernels.int8_product(inputs, values, scales, packed)
    inputs[1, 4], inputs[2, 19] = math.nan, -math.inf
    found = kernels.int8_product(inputs, values, scales, packed)
    assert found[1:3].isnan().all()
    others = [row for row in range(rows) if row not in (1, 2)]
    assert torch.equal(found[others], clean[others])


@pytest.mark.parametrize("layout", LAYOUTS)
def test_rows_alone_and_threads_change_nothing(layout):
    inputs, values, scales = made(40, 520, 2000)
    packed, start = LAYOUTS[layout](values, scales), torch.randn(2000)
    together = kernels.int8_product(inputs, values, scales, packed, start)
    alone = [kernels.int8_product(row, values, scales, packed, start) for row in inputs.split(1)]
    assert torch.equal(together, torch.cat(alone))
    before = torch.get_num_threads()
    try:
        torch.set_num_threads(3)
        assert torch.equal(kernels.int8_product(inputs, values, scales, packed, start), together)
    finally:
        torch.set_num_threads(before)


def test_a_cpu_without_vnni_takes_what_torch_brings(monkeypatch):
    values, scales = made(1, 8, 8)[1:]
    monkeypatch.setattr(int8_layout, "_has_vnni", lambda: False)
    assert not isinstance(int8_layout.packed(values, scales), torch.Tensor)
    monkeypatch.setattr(int8_layout, "_has_fbgemm", lambda: False)
    assert int8_layout.packed(values, scales) is None


def test_sizes_that_do_not_fit_are_refused():
    inputs, values, scales = made(6, 20, 70)
    packed = int8_layout.packed(values, scales)
    with pytest.raises(ValueError, match="expected"):
        kernels.int8_product(inputs, values, scales, packed, torch.zeros(4, 70))
    if isinstance(packed, torch.Tensor):
        with pytest.raises(ValueError, match="expected"):
            kernels.int8_product(inputs[:, :10], values, scales, packed)
