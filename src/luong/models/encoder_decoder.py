"""What encoder-decoders have in common, whatever their sources are: forward passes and steps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple, cast

import torch
from torch import Tensor, nn

from luong import kernels
from luong.attention import Memory
from luong.models.copying import CopyMemory, mixed
from luong.models.decoder import Decoded, Decoder, DecoderState
from luong.models.dropout import dropout
from luong.models.output import OutputLayer
from luong.text.vocabulary import UNKNOWN

_TABLE_NUMBERS = 2**24


class StepOutput(NamedTuple):
    """What a search needs of a step.

    Attributes:
        scores: Of the next token (rows, V); (rows, V + E) with copying, where E source words that
            the target does not know have ids of their own.
        weights: Attention over the whole source (rows, S).
        copied: The share of each probability that comes from copying; None without copying.
        normalized: Whether the scores are log-probabilities, and not logits: what only seeks the
            best of them need not normalise all.
    """

    scores: Tensor
    weights: Tensor
    copied: Tensor | None = None
    normalized: bool = True

    @property
    def log_probabilities(self) -> Tensor:
        """Of the next token, of the shape of the scores, float32 at least."""
        return self.scores if self.normalized else kernels.log_softmax(self.scores)


class EncoderDecoder(nn.Module, ABC):
    """A recurrent decoder that attends to what an encoder made of a source.

    A class of it makes the parts below and says how sources are read.
    """

    target_embedding: nn.Embedding
    decoder: Decoder
    output: OutputLayer
    input_dropout: float
    vocabulary_size: int
    """Of the target."""

    @abstractmethod
    def _start(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        """Read sources, of which each may be attended at so many positions (B,)."""

    def forward(
        self,
        source: Tensor,
        lengths: Tensor,
        target: Tensor,
        *,
        need_weights: bool = False,
        need_gates: bool = False,
    ) -> tuple[Tensor, Tensor | None] | Decoded:
        """Read sources and step through known targets (teacher forcing).

        Args:
            source: Token ids (B, S).
            lengths: Integers (B,).
            target: The tokens before each step (B, T), the begin symbol first.
            need_weights: Also give the attention weights.
            need_gates: Also give the gates of copying.

        Returns:
            Attentional states (B, T, H), for `output`, and the weights (B, T, S) or None; with
            need_gates a third, the gates (B, T).
        """
        memory, state = self._start(source, lengths)
        embedded = self._embedded(self.target_embedding, target)
        decoded = self.decoder.unroll(embedded, state, memory, need_weights=need_weights)
        return decoded if need_gates else decoded[:2]

    def step(
        self,
        tokens: Tensor,
        state: DecoderState,
        memory: Memory | CopyMemory,
        output: Callable[[Tensor], Tensor] | None = None,
        inputs: Tensor | None = None,
    ) -> tuple[DecoderState, StepOutput]:
        """One step of some rows; pure.

        Args:
            tokens: The tokens before (rows,); row b*K + k is beam k of sentence b. Those beyond
                the vocabulary are fed as the unknown word.
            state: Of the same rows.
            memory: Of the sentences.
            output: Gives logits (rows, V) from attentional states in place of the output layer.
            inputs: The `input_table`, from which tokens are then looked up.

        Returns:
            The new state, and the scores of the next token with the attention weights.
        """
        copying = None
        if isinstance(memory, CopyMemory):
            tokens = tokens.masked_fill(tokens >= self.vocabulary_size, UNKNOWN)
            copying, memory = memory, memory.memory
        if inputs is None:
            embedded = self._embedded(self.target_embedding, tokens)
            state, decoded = self.decoder.step(embedded, state, memory)
        else:
            projected = inputs.index_select(0, tokens)
            state, decoded = self.decoder.step_projected(projected, state, memory)
        logits = (output or self.output)(decoded.attentional)
        weights = cast(Tensor, decoded.weights)
        if copying is None or decoded.gates is None:
            return state, StepOutput(logits, weights, normalized=False)
        logs, copied = mixed(kernels.log_softmax(logits), decoded.gates, weights, copying)
        return state, StepOutput(logs, weights, copied)

    def input_table(self) -> Tensor | None:
        """What every token of the target gives the first recurrent layer, W_x e + b.

        A step that looks its tokens up in it needs neither embeddings nor a product with them.

        Returns:
            (V, gates * H), float32, for a model in evaluation and as long as its weights stay as
            they are; None where it would take more than 64 MiB, or the gate of copying wants the
            embeddings.
        """
        size = self.decoder.input_size
        if self.decoder.copy_gate is not None or self.vocabulary_size * size > _TABLE_NUMBERS:
            return None
        device = next(self.decoder.parameters()).device
        tokens = torch.arange(self.vocabulary_size, device=device)
        return self.decoder.project(self._embedded(self.target_embedding, tokens))

    def input_weights(self) -> list[Tensor]:
        """The weights that the `input_table` is made of."""
        parts = (self.target_embedding, self.decoder.cells[0])
        return [weight for part in parts for weight in (*part.parameters(), *part.buffers())]

    def _embedded(self, embedding: nn.Embedding, tokens: Tensor) -> Tensor:
        return dropout(embedding(tokens), self.input_dropout, self.training)
