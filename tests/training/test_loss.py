import pytest
import torch
from torch.nn import functional

from luong.training.loss import cross_entropy


@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_value_and_gradient_are_those_of_torch(smoothing):
    logits = (4 * torch.randn(7, 11, dtype=torch.float64)).requires_grad_()
    targets = torch.randint(11, (7,))
    loss = cross_entropy(logits, targets, smoothing)
    expected = functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(
        loss.likelihood, functional.cross_entropy(logits, targets, reduction="sum")
    )
    (gradient,) = torch.autograd.grad(3 * loss.smoothed, logits)
    (expected_gradient,) = torch.autograd.grad(3 * expected, logits)
    torch.testing.assert_close(gradient, expected_gradient)


def test_gradcheck():
    logits = torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    targets = torch.tensor([0, 4, 2])
    assert torch.autograd.gradcheck(lambda x: cross_entropy(x, targets, 0.2).smoothed, logits)


def test_a_second_derivative_is_refused_rather_than_wrong():
    logits = torch.randn(3, 5, requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0, 4, 2]), 0.2).smoothed
    (gradient,) = torch.autograd.grad(loss, logits, create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(gradient.square().sum(), logits)


def test_likelihood_has_no_gradient():
    logits = torch.randn(3, 5, requires_grad=True)
    assert not cross_entropy(logits, torch.tensor([0, 4, 2])).likelihood.requires_grad


def test_bfloat16_logits_are_summed_in_float32():
    logits = torch.randn(400, 50).bfloat16().requires_grad_()
    targets = torch.randint(50, (400,))
    loss = cross_entropy(logits, targets, 0.1)
    wide = logits.detach().double().requires_grad_()
    expected = functional.cross_entropy(wide, targets, reduction="sum", label_smoothing=0.1)
    assert loss.smoothed.dtype == torch.float32
    torch.testing.assert_close(loss.smoothed.double(), expected, rtol=1e-6, atol=0)
    loss.smoothed.backward()
    expected.backward()
    assert logits.grad.dtype == torch.bfloat16
    torch.testing.assert_close(logits.grad.double(), wide.grad, rtol=2**-8, atol=1e-6)


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_huge_logits_stay_finite(size):
    logits = torch.tensor([[size, 0.0, -size]], requires_grad=True)
    loss = cross_entropy(logits, torch.tensor([0]), 0.0)
    loss.smoothed.backward()
    assert loss.likelihood == 0
    assert logits.grad.tolist() == [[0.0, 0.0, 0.0]]


def test_no_tokens_lose_nothing():
    logits = torch.zeros(0, 4, requires_grad=True)
    loss = cross_entropy(logits, torch.zeros(0, dtype=torch.int64), 0.1)
    loss.smoothed.backward()
    assert loss.smoothed == 0
    assert logits.grad.shape == (0, 4)
