"""The memory as a value: selecting rows, beams as query rows, and calls that change nothing."""

import pytest
import torch

from luong.attention import SCORES, WINDOWS


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
class TestMemory:
    def test_select_is_preparing_the_selected_rows(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        query, keys, values, _ = make_inputs(layer, batch=3)
        lengths = torch.tensor([5, 0, 3])
        memory = layer.prepare(keys, values, lengths=lengths)
        for rows in ([2, 0], [1, 1, 2, 0], []):
            rows = torch.tensor(rows, dtype=torch.long)
            chosen = memory.select(rows)
            again = layer.prepare(keys[rows], values[rows], lengths=lengths[rows])
            torch.testing.assert_close(chosen, again)
            torch.testing.assert_close(layer(query[rows], chosen), layer(query[rows], again))

    def test_select_keeps_what_is_broken(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window, half_width=5)
        query, keys, values, _ = make_inputs(layer)
        keys = keys.detach().clone()
        keys[1, 3] = torch.nan
        chosen = layer.prepare(keys, values).select(torch.tensor([1, 0]))
        result = layer(query, chosen)
        assert result.context[0].isnan().all()
        assert not result.context[1].isnan().any()

    def test_beams_are_query_rows(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        beams, keys, values, lengths = make_inputs(layer, steps=3)
        memory = layer.prepare(keys, values, lengths=lengths)
        step = 4
        together = layer(beams, memory, positions=torch.full((2, 3), step))
        for beam in range(3):
            query = beams[:, beam : beam + 1]
            alone = layer(query, memory, positions=torch.full((2, 1), step))
            torch.testing.assert_close(alone.context, together.context[:, beam : beam + 1])
            torch.testing.assert_close(alone.weights, together.weights[:, beam : beam + 1])

    def test_calls_leave_the_memory_as_it_was(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        query, keys, values, lengths = make_inputs(layer)
        memory = layer.prepare(keys, values, lengths=lengths)
        before = layer.prepare(keys.clone(), values.clone(), lengths=lengths.clone())
        for _ in range(2):
            layer(query, memory, mask=torch.rand(2, 3, 5) < 0.5)
        memory.select(torch.tensor([1]))
        torch.testing.assert_close(memory, before, rtol=0, atol=0)


def test_gradients_flow_through_selected_rows(make_layer, make_inputs):
    layer = make_layer("additive")
    query, keys, values, _ = make_inputs(layer)
    memory = layer.prepare(keys, values).select(torch.tensor([1, 1]))
    layer(query, memory).context.sum().backward()
    assert keys.grad[1].any()
    assert not keys.grad[0].any()


def test_values_default_to_the_keys(make_layer, make_inputs):
    layer = make_layer()
    query, keys, _, _ = make_inputs(layer)
    torch.testing.assert_close(
        layer(query, layer.prepare(keys)), layer(query, layer.prepare(keys, keys))
    )


def test_an_immutable_value(make_layer, make_inputs):
    layer = make_layer()
    memory = layer.prepare(make_inputs(layer).keys)
    with pytest.raises(AttributeError):
        memory.mask = None
