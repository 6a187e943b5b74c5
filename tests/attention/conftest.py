"""Layers and inputs of small, distinct sizes."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from luong.attention import Attention


class Inputs(NamedTuple):
    query: Tensor
    keys: Tensor
    values: Tensor
    lengths: Tensor


@pytest.fixture
def make_layer():
    """A float64 layer whose sizes suit every score: k = q for dot products, else k = q + 1."""

    def make(score="general", window="global", *, query_size=4, half_width=1, **options):
        same = isinstance(score, str) and score.endswith("dot")
        return Attention(
            query_size,
            query_size if same else query_size + 1,
            score=score,
            window=window,
            half_width=half_width,
            **{"attention_size": 3, "max_length": 5, **options},
        ).double()

    return make


@pytest.fixture
def make_inputs():
    """Random float64 inputs for a layer: B = 2 sources of lengths S and S - 1, T queries, v = 3."""

    def make(layer, *, batch=2, steps=3, source_length=5, value_size=3):
        score, double = layer.score, {"dtype": torch.float64, "requires_grad": True}
        lengths = source_length - torch.arange(batch)
        return Inputs(
            torch.randn(batch, steps, score.query_size, **double),
            torch.randn(batch, source_length, score.key_size, **double),
            torch.randn(batch, source_length, value_size, **double),
            lengths.clamp(min=0),
        )

    return make
