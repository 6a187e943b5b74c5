import pytest
import torch
from torch import nn

from luong.config import TrainingConfig
from luong.errors import UserError
from luong.training.optim import Average, choose_device, clipped_step, make_optimizer

GRADIENTS = torch.randn(5, 3, dtype=torch.float64, generator=torch.Generator().manual_seed(5))


def optimized(**settings):
    """A weight after an update with each of the gradients."""
    parameter = nn.Parameter(torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64))
    optimizer = make_optimizer([parameter], TrainingConfig(learning_rate=0.1, **settings))
    assert optimizer.defaults["fused"]
    for gradient in GRADIENTS:
        parameter.grad = gradient.clone()
        optimizer.step()
    return parameter.detach()


@pytest.mark.parametrize("decay", [0.0, 0.1])
@pytest.mark.parametrize("name", ["adam", "adamw"])
def test_adam_by_hand(name, decay):
    weight = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    mean, square = torch.zeros(3).double(), torch.zeros(3).double()
    for step, raw in enumerate(GRADIENTS, 1):
        # Adam's decay is a part of the loss; AdamW's stands apart from it.
        gradient = raw + decay * weight if name == "adam" else raw
        if name == "adamw":
            weight = weight - 0.1 * decay * weight
        mean = 0.9 * mean + 0.1 * gradient
        square = 0.999 * square + 0.001 * gradient**2
        root = (square / (1 - 0.999**step)).sqrt() + 1e-8
        weight = weight - 0.1 * mean / (1 - 0.9**step) / root
    torch.testing.assert_close(optimized(optimizer=name, weight_decay=decay), weight)


@pytest.mark.parametrize("momentum", [0.0, 0.9])
def test_sgd_by_hand(momentum):
    weight = torch.tensor([1.0, -2.0, 0.5], dtype=torch.float64)
    velocity = torch.zeros(3).double()
    for gradient in GRADIENTS:
        velocity = momentum * velocity + gradient + 0.1 * weight
        weight = weight - 0.1 * velocity
    found = optimized(optimizer="sgd", momentum=momentum, weight_decay=0.1)
    torch.testing.assert_close(found, weight)


def test_the_running_average_by_hand():
    trained, averaged = nn.Linear(2, 1, bias=False).double(), nn.Linear(2, 1, bias=False).double()
    with torch.no_grad():
        averaged.weight.copy_(torch.tensor([[1.0, 0.0]]))
    average = Average(trained, averaged, decay=0.4)
    expected = torch.tensor([[1.0, 0.0]], dtype=torch.float64)
    for number in range(1, 8):
        with torch.no_grad():
            trained.weight.fill_(number)
        decay = min(0.4, (1 + number) / (10 + number))  # 2/11, 3/12, 4/13, 5/14, 6/15, then 0.4
        expected = decay * expected + (1 - decay) * number
        average.update(number)
    torch.testing.assert_close(averaged.weight.detach(), expected)
    assert trained.weight.tolist() == [[7.0, 7.0]]
    assert averaged.weight.grad_fn is None


@pytest.mark.parametrize("name", ["adam", "adamw", "sgd"])
@pytest.mark.parametrize("divisor", [1.0, 4.0])
def test_a_clipped_step_is_a_step_with_smaller_gradients(name, divisor):
    options = {"optimizer": name, "learning_rate": 0.1, "weight_decay": 0.1}
    if name == "sgd":
        options["momentum"] = 0.9
    parameters = [nn.Parameter(torch.ones(3)) for _ in range(2)]
    optimizers = [make_optimizer([each], TrainingConfig(**options)) for each in parameters]
    for gradient in GRADIENTS.float():
        parameters[0].grad, parameters[1].grad = gradient.clone(), gradient / divisor
        clipped_step(optimizers[0], divisor)
        optimizers[1].step()
        torch.testing.assert_close(*parameters)


def test_devices():
    assert choose_device("cpu") == torch.device("cpu")
    assert choose_device("auto").type in ("cpu", "cuda")


@pytest.mark.parametrize("name", ["gpu", "cuda:99", "", "cpu:x"])
def test_devices_that_are_not_there_are_named(name):
    with pytest.raises(
        UserError, match=f"training.device = '{name}' cannot be used: .* Use 'auto'"
    ):
        choose_device(name)
