"""Settings of the task `classify`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, ValidationError, model_validator

from luong.config.model import CellName, EncoderName, ModelConfig
from luong.config.run import BaseRunConfig
from luong.config.section import Section
from luong.config.tokens import TokensConfig
from luong.config.training import TrainingSettings


class DocumentFiles(Section):
    """Where labelled documents lie: a file of one a row, or a folder with one folder a label."""

    file: Path | None = None
    """`.jsonl`: objects with "text" or "sentences", and "label"; else label, tab, text."""
    folder: Path | None = None

    @model_validator(mode="after")
    def _one_form(self) -> DocumentFiles:
        if (self.file is None) == (self.folder is None):
            raise ValueError('expected { file = "documents.jsonl" } or { folder = "..." }')
        return self


class DocumentsConfig(Section):
    """What a classifier trains on, and how much of a document it reads."""

    train: DocumentFiles
    valid: DocumentFiles
    multi_label: bool = False
    """A document may have any number of labels, each decided apart."""
    lowercase: bool = True
    max_sentences: int = Field(100, ge=1)
    """What is beyond these limits is cut, and counted."""
    max_words: int = Field(50, ge=1)
    """Tokens of a sentence."""


class WordsConfig(TokensConfig):
    """How the text of a classifier becomes tokens."""

    kind: Literal["word", "character", "subword"] = "word"
    vocabulary_size: int = Field(20000, ge=5)
    minimum_count: int = Field(2, ge=1)


class HierarchyConfig(Section):
    """Words to sentences to a document: a hierarchical attention network."""

    encoder: EncoderName = "recurrent"
    """Reads the words of a sentence."""
    sentence_encoder: EncoderName = "recurrent"
    """Reads the sentences of a document."""
    cell: CellName = "gru"
    embedding_size: int = Field(100, ge=1)
    hidden_size: int = Field(100, ge=1)
    """Of words, sentences and documents; a recurrent encoder splits it over two directions."""
    kernel_width: int = Field(3, ge=1)
    heads: int = Field(4, ge=1)
    dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """On embeddings, sentence vectors and document vectors."""
    word_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of words that training reads as unknown."""
    pretrained: Path | None = None
    """Embeddings in word2vec's or GloVe's text format that known words start from."""

    def encoder_config(self, encoder: EncoderName, input_size: int) -> ModelConfig:
        """What an encoder of inputs of a size is made from."""
        return ModelConfig(
            encoder=encoder,
            cell=self.cell,
            embedding_size=input_size,
            hidden_size=self.hidden_size,
            kernel_width=self.kernel_width,
            heads=self.heads,
            dropout=self.dropout,
        )

    @model_validator(mode="after")
    def _encoders_fit(self) -> HierarchyConfig:
        for encoder in (self.encoder, self.sentence_encoder):
            try:
                self.encoder_config(encoder, self.embedding_size)
            except ValidationError as error:
                raise ValueError(str(error.errors()[0]["ctx"]["error"])) from None
        return self


class ClassifierTrainingConfig(TrainingSettings):
    """Training of a classifier; `batch_tokens` are the padded words of a batch."""

    best_by: Literal["accuracy", "macro_f1", "loss"] = "accuracy"
    batch_tokens: int = Field(16000, ge=1)
    label_smoothing: float = Field(0.0, ge=0.0, lt=1.0)
    """For one label a document."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """How much a label counts in the loss: `balanced`: the rarer, the more; or a table."""


class ClassifierConfig(BaseRunConfig):
    """A whole run of the task `classify`."""

    task: Literal["classify"]
    data: DocumentsConfig
    tokens: WordsConfig = WordsConfig()
    model: HierarchyConfig = HierarchyConfig()
    training: ClassifierTrainingConfig = ClassifierTrainingConfig()
