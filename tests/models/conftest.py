"""Tiny float64 models, and a batch of padded pairs for them."""

from typing import NamedTuple

import pytest
import torch
from torch import Tensor

from luong.config import AttentionConfig, ModelConfig
from luong.models import Seq2Seq

ATTENTION_OPTIONS = AttentionConfig.model_fields.keys() - {"dropout"}
VOCABULARY_SIZE = 11


class Pairs(NamedTuple):
    source: Tensor
    lengths: Tensor
    target: Tensor


@pytest.fixture
def make_config():
    """Small sizes; the options of attention stand beside those of the model."""

    def make(**options):
        attention = {name: options.pop(name) for name in ATTENTION_OPTIONS & options.keys()}
        sizes = {"embedding_size": 5, "hidden_size": 6, "dropout": 0.0}
        attention = AttentionConfig(**{"half_width": 1, **attention})
        return ModelConfig(**{**sizes, **options}, attention=attention)

    return make


@pytest.fixture
def make_model(make_config):
    """A float64 model in evaluation, with parameters large enough to tell wirings apart."""

    def make(**options):
        model = Seq2Seq(make_config(**options), VOCABULARY_SIZE, VOCABULARY_SIZE).double().eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.7, 0.7)
        return model

    return make


@pytest.fixture
def pairs():
    """Three sources of lengths 5, 3 and 1, with targets of 4 tokens."""
    source = torch.randint(4, VOCABULARY_SIZE, (3, 5))
    lengths = torch.tensor([5, 3, 1])
    source[torch.arange(5) >= lengths.unsqueeze(1)] = 0
    return Pairs(source, lengths, torch.randint(4, VOCABULARY_SIZE, (3, 4)))
