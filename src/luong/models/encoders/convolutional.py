"""The convolutional encoder: gated linear units over the neighbours of each position."""

from __future__ import annotations

import math
from typing import cast

from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override

from luong.config import ModelConfig
from luong.models.dropout import dropout
from luong.models.encoders.encoder import ParallelEncoder


class ConvolutionalEncoder(ParallelEncoder):
    """Layers of convolutions with gates and residual connections (Gehring 2017, section 3.2).

    Each layer computes x' = sqrt(1/2) (x + A * sigmoid(B)), with [A; B] a convolution over the
    `kernel_width` positions around each one; what lies outside the source is zeros. With L layers
    a state sees L (kernel_width - 1) / 2 words on either side. Positions are sinusoids, which
    know every length, where the paper learns them. In place of its weight normalisation the last
    states are normalised (Ba 2016): else the decoder's often saturate before they know the source.

    Args:
        config: Sizes, layers, kernel_width, positions and dropout.

    Example:
        >>> settings = {"embedding_size": 4, "hidden_size": 6, "encoder_layers": 2}
        >>> encoder = ConvolutionalEncoder(ModelConfig(encoder="convolutional", **settings))
        >>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).states.shape
        torch.Size([2, 5, 6])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        size, width = config.hidden_size, config.kernel_width
        self.layers = nn.ModuleList(
            nn.Conv1d(size, 2 * size, width, padding=width // 2)
            for _ in range(config.encoder_layers)
        )
        kept = 1 - self.layer_dropout
        for layer in self.layers:
            convolution = cast(nn.Conv1d, layer)
            # A gate halves its input, so the start is twice as wide (Gehring 2017, section 3.5).
            nn.init.normal_(convolution.weight, std=math.sqrt(4 * kept / (width * size)))
            nn.init.zeros_(cast(Tensor, convolution.bias))
        self.norm = nn.LayerNorm(size)

    @override
    def transform(self, states: Tensor, lengths: Tensor, valid: Tensor) -> Tensor:
        """See `ParallelEncoder.transform`."""
        outside = ~valid
        for number, convolution in enumerate(self.layers):
            inputs = states
            if number:
                inputs = dropout(states, self.layer_dropout, self.training)
            gated = functional.glu(convolution(inputs.transpose(1, 2)), 1).transpose(1, 2)
            # The bias makes padding nonzero, and the next layer would read it.
            states = ((states + gated) * math.sqrt(0.5)).masked_fill(outside, 0.0)
        normed: Tensor = self.norm(states)
        return normed
