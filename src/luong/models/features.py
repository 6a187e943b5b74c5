"""Features as a source of their own: the decoder attends to the text and to its features.

With c_t the context of the text and f_t that of the features, each from an attention with
parameters of its own, [c_t; f_t] stands wherever the decoder has a context:

    h~_t = tanh(W_c [c_t; f_t; h_t])        (Luong 2015, equation 5, with two sources)

Features have no order: their states are projections of their embeddings.
"""

from __future__ import annotations

from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from luong.attention import Attention, AttentionOutput, Memory
from luong.config import ModelConfig
from luong.text.vocabulary import END, PAD


class Parted(NamedTuple):
    """Sources in two parts.

    Attributes:
        text: Ids (B, S_t): the text, its end symbol, then padding.
        text_lengths: (B,), end symbols counted.
        features: Ids (B, F), then padding; F is 1 or more.
        feature_lengths: (B,), 0 allowed.
        columns: For each position of the whole source (B, S) its place in [text; features].
        real: Bool (B, S), True where it is not padding.
    """

    text: Tensor
    text_lengths: Tensor
    features: Tensor
    feature_lengths: Tensor
    columns: Tensor
    real: Tensor


def parted(source: Tensor, lengths: Tensor, first_feature: int) -> Parted:
    """Part sources of text, features and an end symbol into text with an end symbol, and features.

    Args:
        source: Ids (B, S).
        lengths: (B,), the end symbol counted.
        first_feature: Ids from this one on are features.

    Example:
        >>> parted(torch.tensor([[5, 6, 9, END]]), torch.tensor([4]), first_feature=9).text
        tensor([[5, 6, 3]])
    """
    places = torch.arange(source.shape[1], device=source.device)
    real = places < lengths.unsqueeze(1)
    counts = ((source >= first_feature) & real).sum(1)
    text_lengths = lengths - counts
    last = (text_lengths - 1).unsqueeze(1)  # of the text, its end symbol
    text = source.masked_fill(places >= last, PAD).masked_fill(places == last, END)
    width = int(text_lengths.max())
    offsets = torch.arange(max(1, int(counts.max())), device=source.device)
    there = (last + offsets).clamp(max=source.shape[1] - 1)
    features = source.gather(1, there).masked_fill(offsets >= counts.unsqueeze(1), PAD)
    columns = torch.where(places < last, places, width + places - last)
    columns = torch.where(places == lengths.unsqueeze(1) - 1, last, columns).masked_fill(~real, 0)
    return Parted(text[:, :width], text_lengths, features, counts, columns, real)


class FeaturedMemory(NamedTuple):
    """What the decoder attends to.

    Attributes:
        text: Of the text.
        features: Of the features.
        columns: See `Parted`.
        mask: `Parted.real`.
    """

    text: Memory
    features: Memory
    columns: Tensor
    mask: Tensor

    def select(self, rows: Tensor) -> FeaturedMemory:
        """The same for the given sources (integers), in their order."""
        return FeaturedMemory(
            self.text.select(rows), self.features.select(rows), self.columns[rows], self.mask[rows]
        )


def with_features(text: Attention, config: ModelConfig) -> Attention:
    """The attention to a text, joined by one to features where the settings ask for it.

    That of the features has the score of the text, or `general` where that looks at no key, and
    sees all of them.
    """
    if config.features == "tokens":
        return text
    options, size = config.attention, config.hidden_size
    features = Attention(
        size,
        size,
        score="general" if options.score in ("location", "none") else options.score,
        attention_size=options.attention_size or size,
        dropout=options.dropout,
    )
    # The decoder calls it as it calls an `Attention`.
    return cast(Attention, FeaturedAttention(text, features))


class FeatureStates(nn.Module):
    """States of features, from their embeddings: W e_f + b each.

    Args:
        embedding_size: Of a feature.
        hidden_size: Of a state.
    """

    def __init__(self, embedding_size: int, hidden_size: int) -> None:
        super().__init__()
        self.projection = nn.Linear(embedding_size, hidden_size)

    def forward(self, embedded: Tensor) -> Tensor:
        """States (B, F, H) from embeddings (B, F, e)."""
        states: Tensor = self.projection(embedded)
        return states


class FeaturedAttention(nn.Module):
    """Attention to text and to features; the contexts stand side by side.

    Weights are those over the whole source, half of a row the text's, half the features'.

    Args:
        text: Attends to the text.
        features: Attends to the features.

    Example:
        >>> attention = FeaturedAttention(Attention(4, 4), Attention(4, 4))
        >>> attention.value_size
        8
    """

    def __init__(self, text: Attention, features: Attention) -> None:
        super().__init__()
        self.text = text
        self.features = features
        self.value_size = text.value_size + features.value_size

    def prepare(
        self, states: Tensor, *, lengths: Tensor, features: Tensor, parts: Parted
    ) -> FeaturedMemory:
        """The memory of texts, from states (B, S_t, H), and of features, from (B, F, H)."""
        return FeaturedMemory(
            self.text.prepare(states, lengths=lengths),
            self.features.prepare(features, lengths=parts.feature_lengths),
            parts.columns,
            parts.real,
        )

    def forward(
        self,
        query: Tensor,
        memory: FeaturedMemory,
        *,
        positions: Tensor | None = None,
        coverage: None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """See `Attention.forward`; the weights are (B, T, S), whatever the window."""
        text = self.text(query, memory.text, positions=positions, need_weights=need_weights)
        found = self.features(query, memory.features, need_weights=need_weights)
        context = torch.cat((text.context, found.context), -1)
        if not need_weights:
            return AttentionOutput(context, None, None)
        both = torch.cat((text.dense(memory.text.mask.shape[1]), found.weights), -1) / 2
        columns = memory.columns.unsqueeze(1).expand(-1, both.shape[1], -1)
        weights = both.gather(2, columns).masked_fill(~memory.mask.unsqueeze(1), 0.0)
        return AttentionOutput(context, weights, None)
