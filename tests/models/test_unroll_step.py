"""`unroll` and `step` give the same numbers, for every combination of the decoder's options."""

from __future__ import annotations

import itertools

import pytest
import torch

from luong.attention import SCORES, WINDOWS
from luong.models.encoders import ENCODERS

COMBINATIONS = list(
    itertools.product(SCORES, WINDOWS, ("luong", "bahdanau"), (True, False), ("lstm", "gru"))
)


@pytest.mark.parametrize(("score", "window", "placement", "feeding", "cell"), COMBINATIONS)
def test_unroll_equals_steps(make_model, pairs, score, window, placement, feeding, cell):
    layers = 2 if feeding else 1
    model = make_model(
        cell=cell,
        decoder_layers=layers,
        score=score,
        window=window,
        placement=placement,
        input_feeding=feeding,
    )
    assert_unroll_equals_steps(model, pairs)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("encoder", ENCODERS)
def test_behind_every_encoder(make_model, pairs, encoder, window):
    options = {"encoder": encoder, "heads": 2, "decoder_layers": 2, "window": window}
    assert_unroll_equals_steps(make_model(**options), pairs)


def assert_unroll_equals_steps(model, pairs):
    states, weights = model(*pairs, need_weights=True)
    bare, none = model(*pairs)
    assert none is None
    log_probabilities, rows = [], []
    # As a search does it: without gradients, where the products take another way.
    with torch.no_grad():
        expected = torch.log_softmax(model.output(states), -1)
        memory, state = model.encode(pairs.source, pairs.lengths)
        for tokens in pairs.target.unbind(1):
            state, output = model.step(tokens, state, memory)
            log_probabilities.append(output.log_probabilities)
            rows.append(output.weights)
    found = torch.stack(log_probabilities, 1), torch.stack(rows, 1), bare
    torch.testing.assert_close(found, (expected, weights, states), rtol=0, atol=1e-12)
