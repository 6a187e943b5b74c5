"""The cells are torch's, whatever part of their input is known before the loop."""

import pytest
import torch
from torch import nn

from luong.models.cells import CELLS

INPUT_SIZE, HIDDEN_SIZE, ROWS, STEPS = 5, 3, 2, 4
TORCH_CELLS = {"lstm": nn.LSTMCell, "gru": nn.GRUCell}


def copy_weights(cell, reference, early_size):
    """Give a cell the weights of torch's, split after the early columns."""
    early, late = reference.weight_ih[:, :early_size], reference.weight_ih[:, early_size:]
    with torch.no_grad():
        cell.early_weight.copy_(early)
        if cell.keeps_cell:
            cell.late_weight.copy_(torch.cat([late, reference.weight_hh], 1))
            cell.bias.copy_(reference.bias_ih + reference.bias_hh)
        else:
            cell.late_weight.copy_(late)
            cell.hidden_weight.copy_(reference.weight_hh)
            cell.bias.copy_(reference.bias_ih)
            cell.hidden_bias.copy_(reference.bias_hh)


def gradients_in_torch_terms(cell):
    """Gradients of weight_ih, weight_hh, bias_ih and bias_hh."""
    if cell.keeps_cell:
        late, hidden = cell.late_weight.grad.split(
            [cell.late_weight.shape[1] - HIDDEN_SIZE, HIDDEN_SIZE], 1
        )
        bias = hidden_bias = cell.bias.grad
    else:
        late, hidden = cell.late_weight.grad, cell.hidden_weight.grad
        bias, hidden_bias = cell.bias.grad, cell.hidden_bias.grad
    return torch.cat([cell.early_weight.grad, late], 1), hidden, bias, hidden_bias


@pytest.mark.parametrize("name", CELLS)
@pytest.mark.parametrize("early_size", [0, 2, INPUT_SIZE])
def test_equals_torch_over_steps(name, early_size):
    late_size = INPUT_SIZE - early_size
    reference = TORCH_CELLS[name](INPUT_SIZE, HIDDEN_SIZE).double()
    cell = CELLS[name](early_size, late_size, HIDDEN_SIZE).double()
    copy_weights(cell, reference, early_size)
    double = {"dtype": torch.float64, "requires_grad": True}
    inputs = torch.randn(STEPS, ROWS, INPUT_SIZE, **double)
    start = torch.randn(ROWS, HIDDEN_SIZE, **double)
    start_cell = torch.randn(ROWS, HIDDEN_SIZE if cell.keeps_cell else 0, **double)
    weighing = torch.randn(STEPS, ROWS, HIDDEN_SIZE, dtype=torch.float64)

    hidden, memory, expected = start, start_cell, []
    for each in inputs:
        if cell.keeps_cell:
            hidden, memory = reference(each, (hidden, memory))
        else:
            hidden = reference(each, hidden)
        expected.append(hidden)
    expected_inputs = torch.autograd.grad(
        (torch.stack(expected) * weighing).sum() + memory.sum(),
        (inputs, start, start_cell, *reference.parameters()),
        allow_unused=True,
    )

    step, projected, hiddens = cell.loop(), cell.project(inputs[..., :early_size]), []
    hidden, carried = start, start_cell
    for number in range(STEPS):
        late = inputs[number, :, early_size:]
        hidden, carried = step(projected[number], [late], hidden, carried)
        hiddens.append(hidden)
    ((torch.stack(hiddens) * weighing).sum() + carried.sum()).backward()

    torch.testing.assert_close(torch.stack(hiddens), torch.stack(expected), rtol=0, atol=1e-13)
    torch.testing.assert_close(carried, memory, rtol=0, atol=1e-13)
    found = (inputs.grad, start.grad, start_cell.grad, *gradients_in_torch_terms(cell))
    for gradient, wanted in zip(found, expected_inputs, strict=True):
        torch.testing.assert_close(gradient, wanted, rtol=0, atol=1e-12)


@pytest.mark.parametrize("name", CELLS)
def test_a_cell_without_gradients_gives_the_same_numbers(name):
    cell = CELLS[name](2, 3, HIDDEN_SIZE).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.uniform_(-1, 1)
    projected = cell.project(torch.randn(ROWS, 2, dtype=torch.float64))
    late = torch.randn(ROWS, 3, dtype=torch.float64)
    hidden = torch.randn(ROWS, HIDDEN_SIZE, dtype=torch.float64)
    state = torch.randn(ROWS, HIDDEN_SIZE if cell.keeps_cell else 0, dtype=torch.float64)
    found = cell.loop()(projected, [late], hidden, state)
    with torch.no_grad():
        bare = cell.loop()(projected, [late], hidden, state)
    torch.testing.assert_close(bare, tuple(each.detach() for each in found), rtol=0, atol=1e-14)


@pytest.mark.parametrize("name", CELLS)
def test_states_stay_float32_under_autocast(name):
    cell = CELLS[name](2, 3, HIDDEN_SIZE)
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.uniform_(-1, 1)
    early, late = torch.randn(ROWS, 2), torch.randn(ROWS, 3)
    hidden = torch.randn(ROWS, HIDDEN_SIZE)
    state = torch.randn(ROWS, HIDDEN_SIZE if cell.keeps_cell else 0)
    exact = cell.loop()(cell.project(early), [late], hidden, state)
    with torch.autocast("cpu", torch.bfloat16):
        found = cell.loop()(cell.project(early), [late], hidden, state)
    for narrow, wide in zip(found, exact, strict=True):
        assert narrow.dtype == torch.float32
        torch.testing.assert_close(narrow, wide, rtol=0, atol=0.03)


@pytest.mark.parametrize("early_size", [0, INPUT_SIZE])
@pytest.mark.parametrize("name", CELLS)
def test_a_sequence_equals_its_steps(name, early_size):
    cell = CELLS[name](early_size, INPUT_SIZE - early_size, HIDDEN_SIZE).double()
    with torch.no_grad():
        for parameter in cell.parameters():
            parameter.uniform_(-1, 1)
    inputs = torch.randn(STEPS, ROWS, INPUT_SIZE, dtype=torch.float64, requires_grad=True)
    hidden = torch.randn(ROWS, HIDDEN_SIZE, dtype=torch.float64, requires_grad=True)
    carried = torch.randn(ROWS, HIDDEN_SIZE if cell.keeps_cell else 0, dtype=torch.float64)
    weighing = torch.randn(STEPS, ROWS, HIDDEN_SIZE, dtype=torch.float64)
    wanted = (inputs, hidden, *cell.parameters())

    found = cell.sequence(inputs, hidden, carried)
    state, steps = (hidden, carried), []
    step, projected = cell.loop(), cell.project(inputs[..., :early_size])
    for number in range(STEPS):
        state = step(projected[number], [inputs[number, :, early_size:]], *state)
        steps.append(state[0])
    expected = torch.stack(steps)

    torch.testing.assert_close(found, expected, rtol=0, atol=1e-13)
    pairs = (
        torch.autograd.grad((each * weighing).sum(), wanted, allow_unused=True)
        for each in (found, expected)
    )
    for gradient, other in zip(*pairs, strict=True):
        # A part of no size has no gradient in the one, and an empty one in the other.
        if gradient is not None and gradient.numel():
            torch.testing.assert_close(gradient, other, rtol=0, atol=1e-12)
