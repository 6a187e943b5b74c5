"""The fused output loss against its plain form in float64: values, gradients, chunks, memory."""

import subprocess
import sys
import textwrap

import pytest
import torch
from torch import nn
from torch.nn import functional

from luong.training.loss import output_loss

N, V, H = 7, 11, 5


def leaves(dtype=torch.float64, tokens=N, vocabulary=V, hidden=H):
    """States, weight, bias and targets."""
    states = torch.randn(tokens, hidden, dtype=dtype)
    weight, bias = torch.randn(vocabulary, hidden, dtype=dtype), torch.randn(vocabulary).to(dtype)
    tensors = [tensor.requires_grad_() for tensor in (states, weight, bias)]
    return *tensors, torch.randint(vocabulary, (tokens,))


def plain(states, weight, bias, targets, smoothing):
    logits = functional.linear(states, weight, bias)
    return functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)


@pytest.mark.parametrize("rows", [1, 2, 3, 7, 100, None])
@pytest.mark.parametrize("smoothing", [0.0, 0.1, 0.6])
def test_value_and_gradients_are_those_of_the_plain_form(smoothing, rows):
    *inputs, targets = leaves()
    loss = output_loss(*inputs, targets, smoothing=smoothing, divisor=4.0, rows=rows)
    expected = plain(*inputs, targets, smoothing) / 4
    torch.testing.assert_close(loss.smoothed, expected)
    torch.testing.assert_close(loss.likelihood, plain(*inputs, targets, 0.0).detach())
    assert not loss.likelihood.requires_grad
    for factor in (1, 3):
        found = torch.autograd.grad(factor * loss.smoothed, inputs, retain_graph=True)
        wanted = torch.autograd.grad(factor * expected, inputs, retain_graph=True)
        for one, other in zip(found, wanted, strict=True):
            torch.testing.assert_close(one, other)


@pytest.mark.parametrize("frozen", range(3))
def test_what_wants_no_gradient_gets_none(frozen):
    *inputs, targets = leaves()
    inputs[frozen].requires_grad_(False)
    wanted = [tensor for tensor in inputs if tensor.requires_grad]
    found = torch.autograd.grad(output_loss(*inputs, targets, rows=3).smoothed, wanted)
    expected = torch.autograd.grad(plain(*inputs, targets, 0.0), wanted)
    for one, other in zip(found, expected, strict=True):
        torch.testing.assert_close(one, other)


def test_hooks_see_the_gradients_and_batches_add_up():
    *inputs, targets = leaves()
    seen = []
    inputs[1].register_hook(lambda gradient: seen.append(gradient) or 2 * gradient)
    for part in (slice(0, 3), slice(3, N)):
        states, weight, bias = inputs
        output_loss(
            states[part], weight, bias, targets[part], smoothing=0.1, divisor=N, rows=2
        ).smoothed.backward()
    *wanted, _ = torch.autograd.grad(plain(*inputs, targets, 0.1) / N, inputs)
    # The hook has doubled the plain form's gradient as well.
    torch.testing.assert_close(inputs[1].grad, wanted[1])
    torch.testing.assert_close(2 * sum(seen[:2]), wanted[1])
    torch.testing.assert_close(inputs[0].grad, wanted[0])


def test_two_backward_passes_give_twice_the_gradient():
    *inputs, targets = leaves()
    loss = output_loss(*inputs, targets).smoothed
    loss.backward(retain_graph=True)
    once = [tensor.grad.clone() for tensor in inputs]
    loss.backward()
    for tensor, gradient in zip(inputs, once, strict=True):
        torch.testing.assert_close(tensor.grad, 2 * gradient)


def test_gradcheck():
    *inputs, targets = leaves(tokens=3)
    assert torch.autograd.gradcheck(
        lambda *tensors: output_loss(*tensors, targets, smoothing=0.2, rows=2).smoothed, inputs
    )


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_function_transforms_give_first_and_second_derivatives():
    states, weight, bias, targets = (tensor.detach() for tensor in leaves(tokens=3))

    def fused(weight):
        return output_loss(states, weight, bias, targets, smoothing=0.2, divisor=2.0).smoothed

    def direct(weight):
        return plain(states, weight, bias, targets, 0.2) / 2

    for transform in (torch.func.grad, torch.func.hessian):
        torch.testing.assert_close(transform(fused)(weight), transform(direct)(weight))


def test_a_second_derivative_is_refused_rather_than_wrong():
    *inputs, targets = leaves()
    loss = output_loss(*inputs, targets, smoothing=0.2).smoothed
    (gradient,) = torch.autograd.grad(loss, inputs[1], create_graph=True)
    with pytest.raises(RuntimeError, match="does not require grad"):
        torch.autograd.grad(gradient.square().sum(), inputs[1])


def test_inference_needs_no_graph():
    *inputs, targets = leaves()
    with torch.inference_mode():
        loss = output_loss(*inputs, targets, rows=2)
    torch.testing.assert_close(loss.likelihood, plain(*inputs, targets, 0.0).detach())


@pytest.mark.parametrize("rows", [8, 400])
def test_under_autocast_only_products_are_narrow(rows):
    *inputs, targets = leaves(torch.float32, tokens=400, vocabulary=50, hidden=16)
    with torch.autocast("cpu", torch.bfloat16):
        loss = output_loss(*inputs, targets, smoothing=0.1, divisor=400.0, rows=rows)
    # The truth, of the same rounded operands: what is left is rounding of logits and gradients.
    rounded = [tensor.detach().bfloat16().double().requires_grad_() for tensor in inputs]
    expected = plain(*rounded, targets, 0.1) / 400
    assert loss.smoothed.dtype == loss.likelihood.dtype == torch.float32
    torch.testing.assert_close(loss.smoothed.double(), expected, rtol=1e-3, atol=0)
    loss.smoothed.backward()
    expected.backward()
    for tensor, truth in zip(inputs, rounded, strict=True):
        assert tensor.grad.dtype == torch.float32
        error = (tensor.grad.double() - truth.grad).norm() / truth.grad.norm()
        assert error < 2**-7


def test_sums_of_float32_are_exact_to_rounding():
    *inputs, targets = leaves(torch.float32, tokens=300, vocabulary=500, hidden=32)
    loss = output_loss(*inputs, targets, smoothing=0.1, rows=7).smoothed
    double = [tensor.detach().double().requires_grad_() for tensor in inputs]
    expected = plain(*double, targets, 0.1)
    torch.testing.assert_close(loss.double(), expected, rtol=1e-6, atol=0)
    loss.backward()
    expected.backward()
    for tensor, truth in zip(inputs, double, strict=True):
        error = (tensor.grad - truth.grad).abs().max() / truth.grad.abs().max()
        assert error < 1e-5


@pytest.mark.parametrize("size", [1e4, 3e38])
def test_huge_logits_stay_finite(size):
    states = torch.ones(1, 1, requires_grad=True)
    weight = torch.tensor([[size], [0.0], [-size]], requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    loss = output_loss(states, weight, bias, torch.tensor([0]))
    loss.smoothed.backward()
    assert loss.likelihood == 0
    assert weight.grad.tolist() == [[0.0], [0.0], [0.0]]
    assert states.grad.tolist() == [[0.0]]


def test_a_hopeless_target_keeps_its_loss():
    # Its probability is too small for a float32, its loss is not.
    weight = torch.tensor([[0.0], [-500.0]])
    loss = output_loss(torch.ones(1, 1), weight, torch.zeros(2), torch.tensor([1]))
    assert loss.likelihood == 500


@pytest.mark.parametrize("what", [float("nan"), float("inf")])
def test_what_is_not_finite_shows_in_the_loss(what):
    *inputs, targets = leaves()
    with torch.no_grad():
        inputs[0][3, 1] = what
    assert not output_loss(*inputs, targets, rows=2).smoothed.isfinite()


def test_no_tokens_lose_nothing():
    *inputs, targets = leaves(tokens=0)
    loss = output_loss(*inputs, targets, smoothing=0.1)
    loss.smoothed.backward()
    assert loss.smoothed == 0
    assert inputs[0].grad.shape == (0, H)
    assert not inputs[1].grad.any()
    assert not inputs[2].grad.any()


@pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning")
def test_gradients_are_averaged_over_processes_as_any_others(tmp_path):
    """Distributed training hooks into the parameters' gradients."""
    torch.distributed.init_process_group(
        "gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1
    )
    try:
        layer = nn.Linear(H, V).double()
        states, targets = torch.randn(N, H, dtype=torch.float64), torch.randint(V, (N,))

        class Loss(nn.Module):
            def __init__(self):
                super().__init__()
                self.layer = layer

            def forward(self):
                return output_loss(states, layer.weight, layer.bias, targets, rows=2).smoothed

        parallel = nn.parallel.DistributedDataParallel(Loss())
        reduced = []
        parallel.register_comm_hook(
            None, lambda _, bucket: reduced.append(bucket.buffer().clone()) or _done(bucket)
        )
        parallel().backward()
    finally:
        torch.distributed.destroy_process_group()
    expected = torch.autograd.grad(
        plain(states, layer.weight, layer.bias, targets, 0.0), [layer.weight, layer.bias]
    )
    torch.testing.assert_close(layer.weight.grad, expected[0])
    assert sum(bucket.numel() for bucket in reduced) == V * H + V


def _done(bucket):
    future = torch.futures.Future()
    future.set_result(bucket.buffer())
    return future


@pytest.mark.slow
def test_memory_of_a_vocabulary_of_200_000_words_is_bounded():
    """The logits of 2,000 tokens would be 1.5 GiB, and their gradient as much again."""
    script = """
        import resource, torch
        from luong.training.loss import output_loss
        states = torch.randn(2000, 64, requires_grad=True)
        weight = torch.randn(200_000, 64, requires_grad=True)
        bias = torch.zeros(200_000, requires_grad=True)
        targets = torch.randint(200_000, (2000,))
        output_loss(states[:2], weight, bias, targets[:2]).smoothed.backward()
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        output_loss(states, weight, bias, targets, smoothing=0.1).smoothed.backward()
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1024)
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    ended = subprocess.run(command, capture_output=True, text=True, check=True)
    # A chunk's scores are 195 MiB, the gradient of the weights 49.
    assert float(ended.stdout) < 400


@pytest.mark.slow
def test_a_large_vocabulary_costs_no_more_accuracy_than_the_plain_form():
    """Sums of 200,000 exponentials in float32 err by more than one rounding, torch's own too."""
    *inputs, targets = leaves(torch.float32, tokens=300, vocabulary=200_000, hidden=16)
    double = [tensor.detach().double().requires_grad_() for tensor in inputs]
    truth = torch.autograd.grad(plain(*double, targets, 0.1), double)
    found = torch.autograd.grad(output_loss(*inputs, targets, smoothing=0.1).smoothed, inputs)
    torchs = torch.autograd.grad(plain(*inputs, targets, 0.1), inputs)
    for ours, theirs, exact in zip(found, torchs, truth, strict=True):
        error = (ours - exact).abs().max() / exact.abs().max()
        assert error < 1e-4
        assert error <= 1.1 * (theirs - exact).abs().max() / exact.abs().max()
