"""The sums of a cross-entropy and its gradient in place: values, types, odd numbers, threads."""

import pytest
import torch
from engines import BACKENDS

from luong import kernels
from luong.kernels import team

TYPES = [torch.float32, torch.bfloat16]


def made(rows, size, dtype=torch.float32, scale=3.0):
    torch.manual_seed(rows + size)
    logits = (scale * torch.randn(rows, size)).to(dtype)
    return logits, torch.randint(size, (rows,)), torch.rand(rows), -torch.rand(rows)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 64), (4, 1001), (0, 5)])
@pytest.mark.parametrize("scale", [1e-3, 3.0, 60.0])
def test_agrees_with_float64(shape, dtype, scale, backend):
    logits, targets, factors, towards = made(*shape, dtype, scale)
    exact = logits.double()
    log_sum, aimed = kernels.softmax_sums(logits, targets, backend=backend)
    for found, right in (
        (log_sum, exact.logsumexp(-1)),
        (aimed, exact.gather(1, targets[:, None])[:, 0]),
    ):
        assert found.dtype == torch.float32
        torch.testing.assert_close(found.double(), right, rtol=1e-6, atol=1e-6 * max(1, scale))
    right = exact.softmax(-1) * factors[:, None].double() - 0.01
    right.scatter_add_(1, targets[:, None], towards[:, None].double())
    arguments = (targets, log_sum, factors, towards, 0.01)
    found = kernels.logit_gradients(logits, *arguments, backend=backend)
    assert found is logits
    # Half a unit in the last place of the result's type, beside the rounding of log_sum.
    rounding = torch.finfo(dtype).eps / 2
    torch.testing.assert_close(
        found.double(), right, rtol=rounding + 3e-7 * max(1, scale), atol=1e-6
    )


@pytest.mark.parametrize("dtype", TYPES)
def test_rounds_to_bfloat16_as_torch_does(dtype):
    total = torch.zeros(4, 50)
    values = torch.randn(4, 50).to(dtype)
    found = kernels.accumulate(total, values)
    assert found is total
    assert torch.equal(total, values.float())
    kernels.accumulate(total, values)
    assert torch.equal(total, 2 * values.float())
    # A factor of nothing leaves what is taken off, and nothing of the logits.
    numbers = torch.randn(300) * torch.logspace(-30, 30, 300)
    for number in [*numbers, torch.tensor(torch.inf), torch.tensor(torch.nan)]:
        row = torch.zeros(1, 3, dtype=torch.bfloat16)
        targets, zero = torch.tensor([1]), torch.zeros(1)
        kernels.logit_gradients(row, targets, zero, zero, number.view(1), 0.0, backend="cpu")
        assert torch.equal(row[0, 1:2].isnan(), number.view(1).isnan())
        assert number.isnan() or row[0, 1] == number.bfloat16()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("dtype", TYPES)
def test_odd_numbers_come_out_and_stay_in_their_row(dtype, backend):
    logits, targets, factors, towards = made(4, 40, dtype)
    logits[0, 3], logits[1, 4], logits[2, 5] = torch.nan, torch.inf, -torch.inf
    exact = logits.double().softmax(-1)
    log_sum, _ = kernels.softmax_sums(logits, targets, backend=backend)
    assert log_sum[0].isnan()
    assert not log_sum[1].isfinite()
    assert log_sum[2:].isfinite().all()
    arguments = (targets, log_sum, torch.ones_like(factors), torch.zeros_like(towards), 0.0)
    kernels.logit_gradients(logits, *arguments, backend=backend)
    assert logits[0].isnan().any()
    assert logits[1].isnan().any()
    assert logits[2, 5] == 0
    torch.testing.assert_close(logits[2:].double(), exact[2:], rtol=5e-3, atol=1e-6)


def test_threads_change_no_bit(monkeypatch):
    logits, targets, factors, towards = made(30, 500)
    results = []
    for small in (team.SMALL, 0):
        monkeypatch.setattr(team, "SMALL", small)
        sums = kernels.softmax_sums(logits, targets)
        gradient = kernels.logit_gradients(logits.clone(), targets, sums[0], factors, towards, 1e-3)
        results.append([*sums, gradient])
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


def test_what_would_be_read_beyond_its_end_is_refused():
    logits, targets, factors, towards = made(3, 7)
    for wrong in (torch.tensor([0, 1, 7]), torch.tensor([0, 1, -1])):
        with pytest.raises(IndexError, match="not one of the 7 logits"):
            kernels.softmax_sums(logits, wrong, backend="cpu")
        arguments = (wrong, factors, factors, towards, 0.0)
        with pytest.raises(IndexError, match="not one of the 7 logits"):
            kernels.logit_gradients(logits, *arguments, backend="cpu")
    with pytest.raises(ValueError, match="expected"):
        kernels.softmax_sums(logits, targets[:2], backend="cpu")
    with pytest.raises(ValueError, match="expected"):
        kernels.accumulate(torch.zeros(2, 3), torch.zeros(2, 4, dtype=torch.bfloat16))


def test_rows_that_are_not_contiguous_are_right_too():
    logits, targets, factors, towards = made(8, 6)
    turned = logits.t().contiguous().t()
    sums = kernels.softmax_sums(turned, targets)
    for found, right in zip(sums, kernels.softmax_sums(logits, targets), strict=True):
        torch.testing.assert_close(found, right)
    arguments = (targets, sums[0], factors, towards, 0.0)
    torch.testing.assert_close(
        kernels.logit_gradients(turned, *arguments), kernels.logit_gradients(logits, *arguments)
    )
