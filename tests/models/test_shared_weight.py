"""The gradient of a weight that a loop shares is that of plain autograd, in every use of it."""

import gc
import weakref

import pytest
import torch
from torch import nn

from luong.models.shared_weight import SharedWeight

ROWS, INPUTS, OUTPUTS, STEPS = 3, 2, 4, 3


class Plain:
    """The same products, left to autograd."""

    def __init__(self, weight):
        self.weight = weight

    def product(self, inputs, *, start=None):
        result = inputs @ self.weight.t()
        return result if start is None else result + start


def make_inputs(dtype=torch.float64):
    weight = nn.Parameter(torch.randn(OUTPUTS, INPUTS, dtype=dtype))
    inputs = torch.randn(STEPS, ROWS, INPUTS, dtype=dtype, requires_grad=True)
    starts = torch.randn(STEPS, ROWS, OUTPUTS, dtype=dtype, requires_grad=True)
    return weight, inputs, starts


def unrolled(shared, inputs, starts):
    """A loop whose steps depend on one another; every second one has a start."""
    hidden, states = inputs.new_zeros(ROWS, INPUTS), []
    for number, (each, start) in enumerate(zip(inputs, starts, strict=True)):
        result = torch.tanh(shared.product(each + hidden, start=start if number % 2 else None))
        hidden = result[:, :INPUTS]
        states.append(result)
    return torch.stack(states)


def test_gradients_equal_autograd():
    weight, inputs, starts = make_inputs()
    leaves = (weight, inputs, starts)
    weighing = torch.randn(STEPS, ROWS, OUTPUTS, dtype=torch.float64)
    expected = unrolled(Plain(weight), inputs, starts)
    found = unrolled(SharedWeight(weight), inputs, starts)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-14)
    wanted = torch.autograd.grad((expected * weighing).sum(), leaves)
    torch.testing.assert_close(
        torch.autograd.grad((found * weighing).sum(), leaves), wanted, rtol=0, atol=1e-13
    )


@pytest.mark.parametrize("used", [[0], [2], [0, 2], [1]])
def test_steps_whose_output_is_unused(used):
    weight, inputs, _ = make_inputs()
    shared = SharedWeight(weight)
    results = [shared.product(each) for each in inputs]
    torch.stack([results[step].square().sum() for step in used]).sum().backward()
    expected = [(each @ weight.t()).square().sum() for each in inputs[used]]
    (wanted,) = torch.autograd.grad(torch.stack(expected).sum(), weight)
    torch.testing.assert_close(weight.grad, wanted)


def test_gradcheck_of_an_unrolled_loop():
    assert torch.autograd.gradcheck(
        lambda weight, inputs, starts: unrolled(SharedWeight(weight), inputs, starts),
        make_inputs(),
    )


def test_without_gradients_nothing_is_recorded():
    weight, inputs, starts = make_inputs()
    expected = unrolled(SharedWeight(weight), inputs, starts)
    with torch.no_grad():
        found = unrolled(SharedWeight(weight), inputs, starts)
    assert not found.requires_grad
    torch.testing.assert_close(found, expected.detach(), rtol=0, atol=1e-14)


def test_a_frozen_weight_lets_gradients_through():
    weight, inputs, starts = make_inputs()
    frozen = weight.detach()
    unrolled(SharedWeight(frozen), inputs, starts).sum().backward()
    (wanted,) = torch.autograd.grad(unrolled(Plain(frozen), inputs, starts).sum(), inputs)
    torch.testing.assert_close(inputs.grad, wanted)


def test_inputs_of_size_zero():
    weight = nn.Parameter(torch.empty(OUTPUTS, 0))
    start = torch.randn(ROWS, OUTPUTS, requires_grad=True)
    result = SharedWeight(weight).product(torch.empty(ROWS, 0), start=start)
    result.sum().backward()
    assert torch.equal(result, start)
    assert weight.grad.shape == (OUTPUTS, 0)
    assert torch.equal(start.grad, torch.ones(ROWS, OUTPUTS))


def test_two_backward_passes_give_twice_the_gradient():
    weight, inputs, starts = make_inputs()
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()
    loss.backward(retain_graph=True)
    once = weight.grad.clone()
    loss.backward()
    torch.testing.assert_close(weight.grad, 2 * once)


def test_two_losses_of_one_loop():
    weight, inputs, _ = make_inputs()
    shared = SharedWeight(weight)
    results = [shared.product(each) for each in inputs]
    results[0].sum().backward()
    results[1].square().sum().backward()
    expected = (inputs[0] @ weight.t()).sum() + (inputs[1] @ weight.t()).square().sum()
    torch.testing.assert_close(weight.grad, torch.autograd.grad(expected, weight)[0])


def test_a_pass_for_the_inputs_alone_leaves_nothing_behind():
    """A saliency map, then the update: the first pass never reaches the weight."""
    weight, inputs, starts = make_inputs()
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()
    torch.autograd.grad(loss, inputs, retain_graph=True)
    assert weight.grad is None
    loss.backward()
    (wanted,) = torch.autograd.grad(unrolled(Plain(weight), inputs, starts).sum(), weight)
    torch.testing.assert_close(weight.grad, wanted)


def test_a_pass_that_broke_off_leaves_nothing_behind():
    weight, inputs, starts = make_inputs()
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()

    def break_off(_):
        raise KeyboardInterrupt

    handle = starts.register_hook(break_off)
    with pytest.raises(KeyboardInterrupt):
        loss.backward(retain_graph=True)
    handle.remove()
    weight.grad = None
    loss.backward(inputs=[weight])
    (wanted,) = torch.autograd.grad(unrolled(Plain(weight), inputs, starts).sum(), weight)
    torch.testing.assert_close(weight.grad, wanted)


def test_the_gradient_passes_through_autograd_alone():
    weight, inputs, starts = make_inputs()
    seen = []
    weight.register_hook(seen.append)
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()
    (gradient,) = torch.autograd.grad(loss, weight, retain_graph=True)
    assert weight.grad is None
    assert len(seen) == 1
    assert torch.equal(seen[0], gradient)
    loss.backward()
    assert len(seen) == 2
    assert torch.equal(weight.grad, gradient)


def test_a_weight_with_a_past_of_its_own():
    weight, inputs, starts = make_inputs()
    unrolled(SharedWeight(weight.sigmoid()), inputs, starts).sum().backward()
    plain = unrolled(Plain(weight.sigmoid()), inputs, starts).sum()
    torch.testing.assert_close(weight.grad, torch.autograd.grad(plain, weight)[0])


def test_torch_func_sees_the_weight():
    weight, inputs, starts = make_inputs()

    def loss(weight):
        return unrolled(SharedWeight(weight), inputs.detach(), starts.detach()).sum()

    plain = unrolled(Plain(weight), inputs, starts).sum()
    torch.testing.assert_close(
        torch.func.grad(loss)(weight.detach()), torch.autograd.grad(plain, weight)[0]
    )


def test_a_second_derivative_is_refused_rather_than_wrong():
    weight, inputs, starts = make_inputs()
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()
    (gradient,) = torch.autograd.grad(loss, inputs, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


def test_a_weight_changed_before_the_backward_pass_is_noticed():
    weight, inputs, starts = make_inputs()
    loss = unrolled(SharedWeight(weight), inputs, starts).sum()
    with torch.no_grad():
        weight.add_(1.0)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_memory_goes_with_the_last_reference():
    """A cycle would keep matrices and inputs until the garbage collector runs."""
    weight, inputs, starts = make_inputs()
    gc.collect()
    gc.disable()
    try:
        shared = SharedWeight(weight)
        watched = weakref.ref(shared)
        result = unrolled(shared, inputs, starts)
        del shared, result
        assert watched() is None
    finally:
        gc.enable()


def test_autocast_equals_a_narrow_product_per_step():
    weight, inputs, starts = make_inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        shared = SharedWeight(weight)
        found = [
            shared.product(each, start=start) for each, start in zip(inputs, starts, strict=True)
        ]
        bare = shared.product(inputs[0])
    narrow = weight.bfloat16().t()
    for result, each, start in zip(found, inputs, starts, strict=True):
        expected = torch.addmm(start.bfloat16(), each.bfloat16(), narrow)
        assert result.dtype == torch.bfloat16
        assert torch.equal(result, expected)
    assert torch.equal(bare, inputs[0].bfloat16() @ narrow)


def test_autocast_gradients_are_close_to_float32_and_of_its_type():
    weight, inputs, starts = make_inputs(torch.float32)
    leaves = (weight, inputs, starts)
    wanted = torch.autograd.grad(unrolled(Plain(weight), inputs, starts).sum(), leaves)
    with torch.autocast("cpu", torch.bfloat16):
        loss = unrolled(SharedWeight(weight), inputs, starts).float().sum()
    for gradient, exact in zip(torch.autograd.grad(loss, leaves), wanted, strict=True):
        assert gradient.dtype == torch.float32
        torch.testing.assert_close(gradient, exact, rtol=0.03, atol=0.08)


def test_autocast_is_the_same_with_and_without_gradients():
    weight, inputs, starts = make_inputs(torch.float32)
    with torch.autocast("cpu", torch.bfloat16):
        recorded = SharedWeight(weight).product(inputs[0], start=starts[0])
        with torch.no_grad():
            bare = SharedWeight(weight).product(inputs[0], start=starts[0])
    assert torch.equal(recorded, bare)
