"""The encoder-decoder: token ids in, attentional states, log-probabilities and weights out."""

from __future__ import annotations

from torch import Tensor, nn
from typing_extensions import override

from luong.attention import Memory
from luong.config import ModelConfig
from luong.models.copying import CopyMemory
from luong.models.decoder import Decoder, DecoderState
from luong.models.encoder_decoder import EncoderDecoder
from luong.models.encoders import make_encoder
from luong.models.features import FeatureStates, parted
from luong.models.output import OutputLayer


class Seq2Seq(EncoderDecoder):
    """A recurrent decoder that attends to any encoder (Luong 2015; Bahdanau 2015).

    Sources end with an end symbol, which may be attended.

    Args:
        config: The architecture.
        source_vocabulary_size: Source tokens, special ones included.
        target_vocabulary_size: Target tokens, special ones included.
        first_feature: Source tokens from this id on are features; None: there are none.

    Raises:
        ValueError: All embeddings are to be shared, but the vocabularies differ in size; or
            features are to be attended to, but there are none.

    Example:
        >>> model = Seq2Seq(ModelConfig(embedding_size=8, hidden_size=8), 20, 20)
        >>> memory, state = model.encode(torch.tensor([[5, 6, 3]]), torch.tensor([3]))
        >>> state, output = model.step(torch.tensor([2]), state, memory)
        >>> output.log_probabilities.shape
        torch.Size([1, 20])
    """

    def __init__(
        self,
        config: ModelConfig,
        source_vocabulary_size: int,
        target_vocabulary_size: int,
        first_feature: int | None = None,
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
        self.vocabulary_size = target_vocabulary_size
        self.copies = config.copies
        """Whether source words can be copied: `encode` then wants to know what they are."""
        self.covers = config.attention.coverage
        self.first_feature = first_feature
        self.feature_states: FeatureStates | None = None
        if config.features == "attention":
            if first_feature is None:
                raise ValueError("features='attention' needs a source with features.")
            self.feature_states = FeatureStates(size, config.hidden_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw parameters from U(-0.1, 0.1), as in Luong 2015, section 4.1.

        Those of an encoder that starts in a way of its own stay as they are.
        """
        apart = set() if self.encoder.uniform else set(self.encoder.parameters())
        for parameter in self.parameters():
            if parameter not in apart:
                nn.init.uniform_(parameter, -0.1, 0.1)

    def encode(
        self, source: Tensor, lengths: Tensor, copies: Tensor | None = None
    ) -> tuple[Memory | CopyMemory, DecoderState]:
        """Read sources.

        Args:
            source: Token ids (B, S), padded at the end.
            lengths: Integers (B,), the end symbol counted.
            copies: With copying, the extended target id of each source token (B, S), negative
                where nothing can be copied; see `luong.text.copying`.

        Returns:
            The memory that steps attend to, and the decoder's state before the first step.

        Raises:
            ValueError: Copies are missing, or are given to a model that does not copy.
        """
        if (copies is not None) != self.copies:
            raise ValueError(
                "a model that copies needs `copies`, the target ids of the source tokens; another "
                "takes none."
            )
        memory, state = self._start(source, lengths)
        if copies is None:
            return memory, state
        size = max(self.vocabulary_size, int(copies.max()) + 1)
        return CopyMemory(memory, copies, size), state

    @override
    def _start(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        if self.feature_states is None or self.first_feature is None:
            embedded = self._embedded(self.source_embedding, source)
            return self.decoder.start(self.encoder(embedded, lengths), lengths)
        parts = parted(source, lengths, self.first_feature)
        text, features = (
            self._embedded(self.source_embedding, part) for part in (parts.text, parts.features)
        )
        encoded = self.encoder(text, parts.text_lengths)
        states = self.feature_states(features)
        return self.decoder.start(encoded, parts.text_lengths, features=states, parts=parts)
