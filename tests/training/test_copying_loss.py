"""The fused loss with copying against its plain form in float64."""

import pytest
import torch
from torch.nn import functional

from luong.training.loss import Copying, output_loss

N, V, H = 7, 11, 5


def leaves():
    """States, weight, bias, log p_gen and log copy: tokens only generated, only copied, both."""
    tensors = [torch.randn(N, H), torch.randn(V, H), torch.randn(V)]
    gates, attended = torch.randn(N), torch.rand(N)
    tensors = [tensor.double().requires_grad_() for tensor in (*tensors, gates, attended)]
    return tensors, torch.randint(V, (N,))


def parts(gates, attended):
    generate, copy = functional.logsigmoid(gates), functional.logsigmoid(-gates) + attended.log()
    only_copied = torch.arange(N) < 2
    only_generated = torch.arange(N) >= 5
    return Copying(
        generate.masked_fill(only_copied, -torch.inf),
        copy.masked_fill(only_generated, -torch.inf),
    )


def plain(states, weight, bias, gates, attended, targets, smoothing):
    """From the probabilities of equation 9 themselves."""
    table = torch.softmax(functional.linear(states, weight, bias), -1)
    generated = torch.sigmoid(gates) * table.gather(1, targets.unsqueeze(1)).squeeze(1)
    copied = (1 - torch.sigmoid(gates)) * attended
    total = generated * (torch.arange(N) >= 2) + copied * (torch.arange(N) < 5)
    uniform = -table.log().mean(1)
    return ((smoothing - 1) * total.log() + smoothing * uniform).sum()


@pytest.mark.parametrize("rows", [1, 3, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_value_and_gradients_are_those_of_the_plain_form(smoothing, rows):
    tensors, targets = leaves()
    options = {"smoothing": smoothing, "divisor": 4.0, "rows": rows}
    loss = output_loss(*tensors[:3], targets, copying=parts(*tensors[3:]), **options)
    expected = plain(*tensors, targets, smoothing) / 4
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.likelihood, plain(*tensors, targets, 0.0).detach())
    found = torch.autograd.grad(3 * loss.smoothed, tensors)
    for one, other in zip(found, torch.autograd.grad(3 * expected, tensors), strict=True):
        torch.testing.assert_close(one, other)


def test_gradcheck_and_the_form_that_compilers_take():
    tensors, targets = leaves()

    def fused(*values):
        copying = parts(*values[3:])
        return output_loss(*values[:3], targets, copying=copying, smoothing=0.2, rows=3).smoothed

    assert torch.autograd.gradcheck(fused, tensors)
    found = torch.func.grad(fused, argnums=(0, 1, 2, 3, 4))(*tensors)
    for one, other in zip(found, torch.autograd.grad(fused(*tensors), tensors), strict=True):
        torch.testing.assert_close(one, other)


def test_a_frozen_network_leaves_the_gate_its_gradient():
    tensors, targets = leaves()
    for tensor in tensors[:3]:
        tensor.requires_grad_(False)
    loss = output_loss(*tensors[:3], targets, copying=parts(*tensors[3:]))
    expected = torch.autograd.grad(plain(*tensors, targets, 0.0), tensors[3:])
    found = torch.autograd.grad(loss.smoothed, tensors[3:])
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)
