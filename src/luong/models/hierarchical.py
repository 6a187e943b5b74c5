"""Hierarchical attention: words make a sentence vector, sentences a document vector."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from luong.attention import LearnedQueryAttention, masks
from luong.config import EncoderName, HierarchyConfig
from luong.models.dropout import dropout
from luong.models.encoders import make_encoder


class Classified(NamedTuple):
    """What a classifier says of B documents with N sentences in all.

    Attributes:
        logits: Scores of the labels before softmax or sigmoid (B, C).
        word_weights: Attention to the words of each sentence (N, S); None if not asked for.
        sentence_weights: Attention to the sentences of each document (B, L), L the most; or None.
    """

    logits: Tensor
    word_weights: Tensor | None
    sentence_weights: Tensor | None


class AttentivePool(nn.Module):
    """An encoder and a learned query: a sequence of vectors becomes one vector.

    Args:
        config: Sizes.
        encoder: The name of the encoder.
        input_size: Of the vectors.
    """

    def __init__(self, config: HierarchyConfig, encoder: EncoderName, input_size: int) -> None:
        super().__init__()
        self.size = config.hidden_size
        self.encoder = make_encoder(config.encoder_config(encoder, input_size))
        self.attention = LearnedQueryAttention(config.hidden_size)

    def forward(
        self, vectors: Tensor, lengths: Tensor, *, need_weights: bool
    ) -> tuple[Tensor, Tensor | None]:
        """Pool.

        Args:
            vectors: (B, S, e).
            lengths: Integers (B,); an empty sequence gives a vector of zeros.
            need_weights: Also give the weights.

        Returns:
            (B, H), and the weights (B, S) or None.
        """
        rows, length, _ = vectors.shape
        if not rows or not length:
            # Recurrent layers refuse a batch without a single position.
            return vectors.new_zeros(rows, self.size), vectors.new_zeros(rows, length)
        states = self.encoder(vectors, lengths).states
        context, weights, _ = self.attention(states, lengths=lengths, need_weights=need_weights)
        return context.squeeze(1), None if weights is None else weights.squeeze(1)


class HierarchicalClassifier(nn.Module):
    """A hierarchical attention network (Yang 2016, section 2.2).

    An encoder reads the words of each sentence, and a learned query makes a vector of them
    (equations 5 to 7); a second encoder reads these vectors, and a second query makes one of the
    document (equations 8 to 10); a linear layer gives the scores of the labels (equation 11).
    All sentences of a batch are read at once, whichever document they belong to. An empty
    sentence is a vector of zeros, and so is an empty document, whose labels the bias decides.

    Args:
        config: Encoders, sizes and dropout.
        vocabulary_size: Words, special ones included.
        label_count: C.

    Example:
        >>> model = HierarchicalClassifier(HierarchyConfig(hidden_size=6), 20, 2)
        >>> words = torch.tensor([[5, 6, 7], [8, 9, 0], [4, 0, 0]])
        >>> model(words, torch.tensor([3, 2, 1]), torch.tensor([2, 1])).logits.shape
        torch.Size([2, 2])
    """

    UNKNOWN = 1
    """The id that word dropout puts in."""

    def __init__(self, config: HierarchyConfig, vocabulary_size: int, label_count: int) -> None:
        super().__init__()
        self.embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        self.words = AttentivePool(config, config.encoder, config.embedding_size)
        self.sentences = AttentivePool(config, config.sentence_encoder, config.hidden_size)
        self.output = nn.Linear(config.hidden_size, label_count)
        self.dropout = config.dropout
        self.word_dropout = config.word_dropout
        nn.init.uniform_(self.embedding.weight, -0.1, 0.1)
        nn.init.zeros_(self.output.bias)

    def forward(
        self,
        words: Tensor,
        word_counts: Tensor,
        sentence_counts: Tensor,
        *,
        need_weights: bool = False,
    ) -> Classified:
        """Read documents.

        Args:
            words: Ids (N, S): the sentences of the first document, then those of the next.
            word_counts: Integers (N,), 0 allowed.
            sentence_counts: Integers (B,) whose sum is N, 0 allowed.
            need_weights: Also give the weights.

        Raises:
            ValueError: The counts do not belong to so many sentences.
        """
        if int(sentence_counts.sum()) != len(words):
            raise ValueError(
                f"sentence_counts sum to {int(sentence_counts.sum())}, but words have "
                f"{len(words)} rows."
            )
        if self.training and self.word_dropout:
            lost = torch.rand(words.shape, device=words.device) < self.word_dropout
            words = words.masked_fill(lost, self.UNKNOWN)
        embedded = dropout(self.embedding(words), self.dropout, self.training)
        vectors, word_weights = self.words(embedded, word_counts, need_weights=need_weights)
        vectors = dropout(vectors, self.dropout, self.training)
        documents, sentence_weights = self.sentences(
            _rows_of_documents(vectors, sentence_counts), sentence_counts, need_weights=need_weights
        )
        logits = self.output(dropout(documents, self.dropout, self.training))
        return Classified(logits, word_weights, sentence_weights)


def _rows_of_documents(vectors: Tensor, counts: Tensor) -> Tensor:
    """Sentence vectors (N, H) as documents (B, L, H), zeros in padding."""
    longest, size = int(counts.max()) if len(counts) else 0, vectors.shape[-1]
    present = masks.from_lengths(counts, longest).view(-1)
    places = present.nonzero().squeeze(1)
    padded = vectors.new_zeros(len(present), size).index_copy(0, places, vectors)
    return padded.view(len(counts), longest, size)
