"""What all encoders have in common, and what those share that read all positions at once."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import NamedTuple

from torch import Tensor, nn
from typing_extensions import override

from luong.attention import masks, sinusoidal_positions
from luong.config import ModelConfig
from luong.models.dropout import dropout


class Encoded(NamedTuple):
    """A batch of encoded sources.

    Attributes:
        states: (B, S, H), in source order; positions beyond a source's length hold anything.
        final: What the decoder starts from, of each layer (B, L, H): a recurrent encoder's state
            after the last token read, the average state of the others.
    """

    states: Tensor
    final: Tensor


class Encoder(nn.Module, ABC):
    """From embedded tokens to states; what stands in padding changes nothing.

    Args:
        config: Sizes, layers and dropout.
    """

    uniform = False
    """Parameters start from U(-0.1, 0.1) as in Luong 2015, and not as the encoder itself says."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.layer_dropout = config.dropout_of_layers
        self.state_dropout = config.state_dropout

    @abstractmethod
    def forward(self, embedded: Tensor, lengths: Tensor) -> Encoded:
        """Encode.

        Args:
            embedded: (B, S, e).
            lengths: Integers (B,), 0 allowed.
        """

    def _with_state_dropout(self, states: Tensor) -> Tensor:
        """The same units at every position (Gal and Ghahramani 2016)."""
        units = states.new_ones(len(states), 1, states.shape[-1])
        return states * dropout(units, self.state_dropout, self.training)


class ParallelEncoder(Encoder):
    """An encoder that reads all positions at once and must be told where each one stands.

    Its input is W (sqrt(e) x_s + PE(s)) + b with the sinusoids PE; embeddings are scaled up so
    that positions do not drown them (Vaswani 2017, sections 3.4 and 3.5).

    Args:
        config: Sizes, positions, and what the encoder itself takes.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.waves = config.positions == "sinusoidal"
        self.layer_count = config.encoder_layers
        self.input = nn.Linear(config.embedding_size, config.hidden_size)
        nn.init.xavier_uniform_(self.input.weight)
        nn.init.zeros_(self.input.bias)

    @abstractmethod
    def transform(self, states: Tensor, lengths: Tensor, valid: Tensor) -> Tensor:
        """All layers.

        Args:
            states: (B, S, H), zeros in padding.
            lengths: Integers (B,).
            valid: Bool (B, S, 1), True inside a source.

        Returns:
            (B, S, H), anything finite in padding.
        """

    @override
    def forward(self, embedded: Tensor, lengths: Tensor) -> Encoded:
        """See `Encoder.forward`."""
        size, width = embedded.shape[1:]
        valid = masks.from_lengths(lengths, size).unsqueeze(-1)
        inputs = math.sqrt(width) * embedded
        if self.waves:
            inputs = inputs + sinusoidal_positions(
                size, width, dtype=embedded.dtype, device=embedded.device
            )
        # Before the projection, whose gradient would else see what stands in padding.
        states = self.input(inputs.masked_fill(~valid, 0.0)).masked_fill(~valid, 0.0)
        # Convolutions refuse a batch without a single position.
        if states.numel():
            states = self.transform(states, lengths, valid)
        states = states.to(embedded.dtype).masked_fill(~valid, 0.0)
        average = states.sum(1) / lengths.clamp(min=1).unsqueeze(-1)
        final = average.unsqueeze(1).expand(-1, self.layer_count, -1)
        return Encoded(self._with_state_dropout(states), final)
