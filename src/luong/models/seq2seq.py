"""The encoder-decoder: token ids in, attentional states, log-probabilities and weights out."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from torch import Tensor, nn

from luong import kernels
from luong.attention import Memory
from luong.config import ModelConfig
from luong.models.decoder import Decoder, DecoderState
from luong.models.dropout import dropout
from luong.models.encoders import make_encoder
from luong.models.output import OutputLayer


class StepOutput(NamedTuple):
    """What a search needs of a step.

    Attributes:
        log_probabilities: Of the next token (rows, V), float32 at least.
        weights: Attention over the whole source (rows, S).
    """

    log_probabilities: Tensor
    weights: Tensor


class Seq2Seq(nn.Module):
    """A recurrent decoder that attends to any encoder (Luong 2015; Bahdanau 2015).

    Sources end with an end symbol, which may be attended.

    Args:
        config: The architecture.
        source_vocabulary_size: Source tokens, special ones included.
        target_vocabulary_size: Target tokens, special ones included.

    Raises:
        ValueError: All embeddings are to be shared, but the vocabularies differ in size.

    Example:
        >>> model = Seq2Seq(ModelConfig(embedding_size=8, hidden_size=8), 20, 20)
        >>> memory, state = model.encode(torch.tensor([[5, 6, 3]]), torch.tensor([3]))
        >>> state, output = model.step(torch.tensor([2]), state, memory)
        >>> output.log_probabilities.shape
        torch.Size([1, 20])
    """

    def __init__(
        self, config: ModelConfig, source_vocabulary_size: int, target_vocabulary_size: int
    ) -> None:
        super().__init__()
        size = config.embedding_size
        self.target_embedding = nn.Embedding(target_vocabulary_size, size)
        if config.tie_embeddings == "all":
            if source_vocabulary_size != target_vocabulary_size:
                raise ValueError(
                    f"tie_embeddings='all' needs one vocabulary, but the source has "
                    f"{source_vocabulary_size} tokens and the target {target_vocabulary_size}."
                )
            self.source_embedding = self.target_embedding
        else:
            self.source_embedding = nn.Embedding(source_vocabulary_size, size)
        self.encoder = make_encoder(config)
        self.decoder = Decoder(config)
        tied = None if config.tie_embeddings == "none" else self.target_embedding
        self.output = OutputLayer(config.hidden_size, target_vocabulary_size, tied)
        self.input_dropout = config.dropout_of_inputs
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw parameters from U(-0.1, 0.1), as in Luong 2015, section 4.1.

        Those of an encoder that starts in a way of its own stay as they are.
        """
        apart = set() if self.encoder.uniform else set(self.encoder.parameters())
        for parameter in self.parameters():
            if parameter not in apart:
                nn.init.uniform_(parameter, -0.1, 0.1)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        """Read sources.

        Args:
            source: Token ids (B, S), padded at the end.
            lengths: Integers (B,), the end symbol counted.

        Returns:
            The memory that steps attend to, and the decoder's state before the first step.
        """
        embedded = self._embedded(self.source_embedding, source)
        return self.decoder.start(self.encoder(embedded, lengths), lengths)

    def forward(
        self, source: Tensor, lengths: Tensor, target: Tensor, *, need_weights: bool = False
    ) -> tuple[Tensor, Tensor | None]:
        """Read sources and step through known targets (teacher forcing).

        Args:
            source: Token ids (B, S).
            lengths: Integers (B,).
            target: The tokens before each step (B, T), the begin symbol first.
            need_weights: Also give the attention weights.

        Returns:
            Attentional states (B, T, H), for `output`, and the weights (B, T, S) or None.
        """
        memory, state = self.encode(source, lengths)
        embedded = self._embedded(self.target_embedding, target)
        return self.decoder.unroll(embedded, state, memory, need_weights=need_weights)

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        memory: Memory,
        output: Callable[[Tensor], Tensor] | None = None,
    ) -> tuple[DecoderState, StepOutput]:
        """One step of some rows; pure.

        Args:
            tokens: The tokens before (rows,); row b*K + k is beam k of sentence b.
            state: Of the same rows.
            memory: Of the sentences.
            output: Gives logits (rows, V) from attentional states in place of the output layer.

        Returns:
            The new state, and log-probabilities of the next token with the attention weights.
        """
        embedded = self._embedded(self.target_embedding, tokens)
        state, (attentional, weights) = self.decoder.step(embedded, state, memory)
        logits = (output or self.output)(attentional)
        return state, StepOutput(kernels.log_softmax(logits), weights)

    def _embedded(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return dropout(embedding(tokens), self.input_dropout, self.training)
