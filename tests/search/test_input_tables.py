"""Tables that searches keep: made once, and anew after training."""

import pytest
import torch
from torch import nn

from luong.config import ModelConfig
from luong.models import Seq2Seq
from luong.search.input_tables import InputTables


@pytest.fixture
def model():
    return Seq2Seq(ModelConfig(embedding_size=4, hidden_size=6), 9, 9).eval()


def test_a_table_is_kept_until_a_weight_changes(model):
    tables = InputTables()
    with torch.inference_mode():
        first = tables.table(model)
        assert tables.table(model) is first
    optimiser = torch.optim.Adam(model.parameters())
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    optimiser.step()
    with torch.inference_mode():
        again = tables.table(model)
        assert torch.equal(again, model.input_table())
    assert not torch.equal(again, first)
    model.load_state_dict({name: 2 * value for name, value in model.state_dict().items()})
    with torch.inference_mode():
        assert torch.equal(tables.table(model), model.input_table())


def test_each_model_has_its_own(model):
    other, tables = (
        Seq2Seq(ModelConfig(embedding_size=4, hidden_size=6), 9, 9).eval(),
        InputTables(),
    )
    with torch.inference_mode():
        assert torch.equal(tables.table(model), model.input_table())
        assert torch.equal(tables.table(other), other.input_table())


def test_a_step_takes_the_table(model):
    tables = InputTables()
    with torch.inference_mode():
        memory, state = model.encode(torch.tensor([[5, 3]]), torch.tensor([2]))
        _, expected = model.step(torch.tensor([4]), state, memory)
        _, found = tables.step(model)(torch.tensor([4]), state, memory)
    torch.testing.assert_close(found.log_probabilities, expected.log_probabilities)


def test_what_knows_no_tables_steps_as_it_is():
    class Other(nn.Module):
        def step(self):
            """Nothing."""

    other = Other()
    assert InputTables().step(other) == other.step
