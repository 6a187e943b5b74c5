"""Steps by a table of the decoder's inputs: the numbers of steps without it."""

import pytest
import torch
from torch.testing import assert_close

from luong.models import encoder_decoder
from luong.models.quantized import quantize

OPTIONS = [
    {},
    {"cell": "gru", "tie_embeddings": "target"},
    {"placement": "bahdanau", "decoder_layers": 2},
    {"input_feeding": False, "window": "local-m"},
]


@pytest.mark.parametrize("int8", [False, True])
@pytest.mark.parametrize("options", OPTIONS)
def test_steps_are_those_without_it(make_model, pairs, options, int8):
    model = make_model(**options)
    if int8:
        quantize(model.float())
    with torch.inference_mode():
        memory, state = model.encode(pairs.source, pairs.lengths)
        table = model.input_table()
        for tokens in pairs.target.unbind(1):
            expected_state, expected = model.step(tokens, state, memory)
            found_state, found = model.step(tokens, state, memory, inputs=table)
            for part, right in zip(found_state, expected_state, strict=True):
                assert_close(part, right)
            assert_close(found.scores, expected.scores)
            assert_close(found.weights, expected.weights)
            state = expected_state


def test_a_row_is_the_product_with_the_embedding(make_model):
    model = make_model()
    cell = model.decoder.cells[0]
    with torch.inference_mode():
        expected = model.target_embedding.weight @ cell.early_weight.t() + cell.bias
        assert_close(model.input_table(), expected)


def test_there_is_none_where_it_would_be_large_or_embeddings_are_wanted(make_model, monkeypatch):
    assert make_model(copy=True).input_table() is None
    model = make_model()
    assert model.input_table() is not None
    monkeypatch.setattr(encoder_decoder, "_TABLE_NUMBERS", 11 * 24 - 1)
    assert model.input_table() is None
