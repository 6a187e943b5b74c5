"""The recurrent encoder: LSTM or GRU layers, in one direction or both."""

from __future__ import annotations

from typing import cast

import torch
from torch import Tensor, nn
from typing_extensions import override

from luong import kernels
from luong.attention import masks
from luong.config import ModelConfig
from luong.kernels.products import linear
from luong.models.dropout import dropout
from luong.models.encoders.encoder import Encoded, Encoder

# Up to so many, torch's loop is held up by its calls, and by waking its threads at each step.
_FEW_SENTENCES = 2


class RecurrentEncoder(Encoder):
    """LSTM or GRU layers over the source, in one direction or both.

    Padding changes nothing: the backward direction reads each row reversed within its own length,
    so that both directions meet padding only after the last token. Nothing is packed, since
    packed sequences skip the fast recurrent kernels.

    Args:
        config: The cell, sizes, layers, directions and dropout.

    Example:
        >>> encoder = RecurrentEncoder(ModelConfig(embedding_size=4, hidden_size=6))
        >>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).states.shape
        torch.Size([2, 5, 6])
    """

    uniform = True

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        directions = 2 if config.bidirectional else 1
        size = config.hidden_size // directions
        module = nn.LSTM if config.cell == "lstm" else nn.GRU
        self.reverse_source = config.reverse_source
        self.layers = nn.ModuleList(
            nn.ModuleList(
                module(
                    config.embedding_size if layer == 0 else config.hidden_size,
                    size,
                    batch_first=True,
                )
                for _ in range(directions)
            )
            for layer in range(config.encoder_layers)
        )

    @override
    def forward(self, embedded: Tensor, lengths: Tensor) -> Encoded:
        """See `Encoder.forward`."""
        reversal = _reversal(lengths, embedded.shape[1])
        last = (lengths - 1).clamp(min=0).view(-1, 1, 1)
        states = _permuted(embedded, reversal) if self.reverse_source else embedded
        finals = []
        for number, layer in enumerate(self.layers):
            if number:
                states = dropout(states, self.layer_dropout, self.training)
            directions = cast(nn.ModuleList, layer)
            inputs = [
                _permuted(states, reversal) if way else states for way in range(len(directions))
            ]
            outputs = _recurrence(directions, inputs)
            finals += [output.take_along_dim(last, 1).squeeze(1) for output in outputs]
            outputs[1:] = [_permuted(output, reversal) for output in outputs[1:]]
            states = torch.cat(outputs, -1)
        if self.reverse_source:
            states = _permuted(states, reversal)
        states = states.to(embedded.dtype)
        final = torch.cat(finals, -1).view(len(states), len(self.layers), -1)
        return Encoded(self._with_state_dropout(states), final.to(embedded.dtype))


def _recurrence(layers: nn.ModuleList, inputs: list[Tensor]) -> list[Tensor]:
    """The states (B, S, H) of layers that do not depend on one another, of inputs (B, S, size)."""
    first = inputs[0]
    few = 0 < len(first) <= _FEW_SENTENCES and first.shape[1] > 0
    plain = few and first.is_cpu and first.dtype == torch.float32 and isinstance(layers[0], nn.LSTM)
    if not plain or torch.is_grad_enabled() or torch.is_autocast_enabled("cpu"):
        return [layer(part)[0] for layer, part in zip(layers, inputs, strict=True)]
    weights = [cast(nn.LSTM, layer).all_weights[0] for layer in layers]
    projected = [
        linear(part.transpose(0, 1), to_inputs, bias + recurrent_bias)
        for part, (to_inputs, _, bias, recurrent_bias) in zip(inputs, weights, strict=True)
    ]
    recurrent = [weight for _, weight, *_ in weights]
    return [states.transpose(0, 1) for states in kernels.lstm_sequences(projected, recurrent)]


def _reversal(lengths: Tensor, size: int) -> Tensor:
    """Positions (B, S) that reverse each row within its own length."""
    positions = torch.arange(size, device=lengths.device)
    reverse = lengths.unsqueeze(-1) - 1 - positions
    return torch.where(masks.from_lengths(lengths, size), reverse, positions)


def _permuted(states: Tensor, positions: Tensor) -> Tensor:
    batch, size, width = states.shape
    rows = positions + size * torch.arange(batch, device=positions.device).unsqueeze(-1)
    return states.reshape(-1, width).index_select(0, rows.view(-1)).view(states.shape)
