"""The self-attention encoder: Transformer layers."""

from __future__ import annotations

import torch
from torch import Tensor, nn
from typing_extensions import override

from luong.attention import SelfAttention
from luong.config import ModelConfig
from luong.models.dropout import dropout
from luong.models.encoders.encoder import ParallelEncoder


class TransformerLayer(nn.Module):
    """x + attention(norm(x)), then x + feed-forward(norm(x)) (Vaswani 2017, section 3.1).

    The norm comes first: so it trains without a warm-up (Xiong 2020).

    Args:
        config: hidden_size, heads, positions, feed_forward_size and dropout.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        inner = config.feed_forward_size or 4 * size
        relative = "relative" if config.positions == "relative" else "none"
        self.attention_norm = nn.LayerNorm(size)
        self.attention = SelfAttention(size, heads=config.heads, positions=relative)
        self.norm = nn.LayerNorm(size)
        self.widen = nn.Linear(size, inner)
        self.narrow = nn.Linear(inner, size)
        for part in (self.widen, self.narrow):
            nn.init.xavier_uniform_(part.weight)
            nn.init.zeros_(part.bias)
        self.dropout = config.dropout_of_layers

    def forward(self, states: Tensor, lengths: Tensor) -> Tensor:
        """New states (B, S, H) from states (B, S, H)."""
        attended, _ = self.attention(
            self.attention_norm(states), lengths=lengths, need_weights=False
        )
        states = states + dropout(attended, self.dropout, self.training)
        hidden = self.narrow(torch.relu(self.widen(self.norm(states))))
        return states + dropout(hidden, self.dropout, self.training)


class SelfAttentionEncoder(ParallelEncoder):
    """Layers in which all positions attend to each other (Vaswani 2017).

    Dropout falls on what each half of a layer adds, and not on the attention weights, which then
    need not be stored.

    Args:
        config: Sizes, layers, heads, positions, feed_forward_size and dropout.

    Example:
        >>> settings = {"embedding_size": 4, "hidden_size": 6, "heads": 2}
        >>> encoder = SelfAttentionEncoder(ModelConfig(encoder="self-attention", **settings))
        >>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).states.shape
        torch.Size([2, 5, 6])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.layers = nn.ModuleList(TransformerLayer(config) for _ in range(config.encoder_layers))
        self.norm = nn.LayerNorm(config.hidden_size)

    @override
    def transform(self, states: Tensor, lengths: Tensor, valid: Tensor) -> Tensor:
        """See `ParallelEncoder.transform`."""
        for layer in self.layers:
            states = layer(states, lengths)
        normed: Tensor = self.norm(states)
        return normed
