"""`unroll` and `step` give the same numbers, for every combination of the decoder's options."""

from __future__ import annotations

import itertools

import pytest
import torch

from luong.attention import SCORES, WINDOWS
from luong.config import AttentionConfig, ModelConfig
from luong.models import Seq2Seq

COMBINATIONS = list(
    itertools.product(SCORES, WINDOWS, ("luong", "bahdanau"), (True, False), ("lstm", "gru"))
)


def tiny_model(**options: object) -> Seq2Seq:
    torch.manual_seed(3)
    return Seq2Seq(ModelConfig(embedding_size=5, hidden_size=6, **options), 11, 11).double()


@pytest.mark.parametrize(("score", "window", "placement", "feeding", "cell"), COMBINATIONS)
def test_unroll_equals_steps(score, window, placement, feeding, cell):
    attention = AttentionConfig(
        score=score, window=window, placement=placement, input_feeding=feeding, half_width=2
    )
    layers = 2 if feeding else 1
    model = tiny_model(cell=cell, decoder_layers=layers, attention=attention).eval()
    source = torch.randint(4, 11, (3, 7))
    lengths = torch.tensor([7, 4, 1])
    target = torch.randint(4, 11, (3, 5))
    states, weights = model(source, lengths, target, need_weights=True)
    memory, state = model.encode(source, lengths)
    for step in range(5):
        state, output = model.step(target[:, step], state, memory)
        expected = torch.log_softmax(model.output(states[:, step]), -1)
        torch.testing.assert_close(output.log_probabilities, expected, rtol=0, atol=1e-12)
        torch.testing.assert_close(output.weights, weights[:, step], rtol=0, atol=1e-12)
    bare, none = model(source, lengths, target)
    assert none is None
    torch.testing.assert_close(bare, states, rtol=0, atol=1e-12)
