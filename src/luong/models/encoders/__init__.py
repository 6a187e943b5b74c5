"""Encoders: from embedded source tokens to the states that a decoder attends to.

| name | what it is | source |
|---|---|---|
| recurrent | LSTM or GRU layers, in one direction or both | Bahdanau 2015; Luong 2015 |
| convolutional | gated linear units with residual connections | Gehring 2017 |
| mean | averages over the words around each position | Gehring 2016 |
| self-attention | pre-norm Transformer layers | Vaswani 2017 |

A new encoder is one class, one line in ENCODERS, and its name in `luong.config.EncoderName`.
"""

from luong.config import EncoderName, ModelConfig
from luong.models.encoders.convolutional import ConvolutionalEncoder
from luong.models.encoders.encoder import Encoded, Encoder, ParallelEncoder
from luong.models.encoders.mean import MeanEncoder
from luong.models.encoders.recurrent import RecurrentEncoder
from luong.models.encoders.self_attention import SelfAttentionEncoder

__all__ = [
    "ENCODERS",
    "ConvolutionalEncoder",
    "Encoded",
    "Encoder",
    "MeanEncoder",
    "ParallelEncoder",
    "RecurrentEncoder",
    "SelfAttentionEncoder",
    "make_encoder",
]

ENCODERS: dict[EncoderName, type[Encoder]] = {
    "recurrent": RecurrentEncoder,
    "convolutional": ConvolutionalEncoder,
    "mean": MeanEncoder,
    "self-attention": SelfAttentionEncoder,
}


def make_encoder(config: ModelConfig) -> Encoder:
    """The encoder that the settings name.

    Example:
        >>> make_encoder(ModelConfig(encoder="mean", embedding_size=4, hidden_size=6)).uniform
        False
    """
    return ENCODERS[config.encoder](config)
