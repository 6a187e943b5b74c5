"""Settings of the task `translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from luong.config.model import ModelConfig
from luong.config.run import BaseRunConfig
from luong.config.section import Section
from luong.config.tokens import PairTokensConfig
from luong.config.training import TrainingSettings


class PairFiles(Section):
    """Where sentence pairs lie: two parallel files, or one file of tab-separated pairs."""

    source: Path | None = None
    target: Path | None = None
    file: Path | None = None
    source_column: int | None = Field(None, ge=1)
    """Of `file`, counted from 1; the first by default."""
    target_column: int | None = Field(None, ge=1)
    """Of `file`; the second by default."""
    features_column: int | None = Field(None, ge=1)
    """Of `file`: what the source is to become, such as V;PST; none by default."""

    @property
    def columns(self) -> tuple[int, ...]:
        """The columns in `file` of source, target and features, if it has any, from 1 on."""
        columns = self.source_column or 1, self.target_column or 2
        return columns if self.features_column is None else (*columns, self.features_column)

    @property
    def names_columns(self) -> bool:
        """Whether any column is named."""
        named = (self.source_column, self.target_column, self.features_column)
        return any(column is not None for column in named)

    @model_validator(mode="after")
    def _one_form(self) -> PairFiles:
        parallel = self.source is not None and self.target is not None
        neither = self.source is None and self.target is None
        if not (parallel and self.file is None) and not (self.file is not None and neither):
            raise ValueError(
                'expected { source = "...", target = "..." } or { file = "pairs.tsv" }'
            )
        if self.file is None and self.names_columns:
            raise ValueError("columns are of one file = ..., not of two parallel files")
        if len({*self.columns}) < len(self.columns):
            columns = sorted(self.columns)
            twice = next(column for column in columns if columns.count(column) > 1)
            raise ValueError(
                f"column {twice} is read twice: source_column is 1 and target_column 2 unless you "
                "set them"
            )
        return self


class DataConfig(Section):
    """What to train on."""

    train: PairFiles
    valid: PairFiles
    source_language: str | None = None
    """ISO 639 code; kept in the model folder."""
    target_language: str | None = None
    """ISO 639 code; chooses the tokenizer of the metric."""
    feature_separator: str = Field(";", min_length=1)
    """Stands between two features of `features_column`."""
    max_length: int = Field(250, ge=1)
    """Training pairs with more tokens than this on either side are left out, and counted."""
    max_source_length: int = Field(0, ge=0)
    """Sources are cut to so many tokens, in training and in use, and counted; 0: never."""

    @property
    def has_features(self) -> bool:
        """Whether source lines carry features after a tab."""
        return self.train.features_column is not None

    @model_validator(mode="after")
    def _features_on_both(self) -> DataConfig:
        if self.has_features != (self.valid.features_column is not None):
            raise ValueError("set features_column in both train and valid, or in neither")
        return self


class TrainingConfig(TrainingSettings):
    """Training of a translator."""

    best_by: Literal["bleu", "chrf", "rouge", "exact_match", "loss"] = "bleu"
    """`rouge`: ROUGE-L, which needs the extra `summary`."""
    coverage_weight: float = Field(1.0, ge=0.0)
    """What attending to the same words again costs, with `model.attention.coverage`."""


class RunConfig(BaseRunConfig):
    """A whole run, as `luong train` reads it.

    Example:
        >>> config = load_config("run.toml", ["training.max_epochs=3"])
        >>> config.training.max_epochs
        3
    """

    task: Literal["translate"] = "translate"
    data: DataConfig
    tokens: PairTokensConfig = PairTokensConfig()
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _tying(self) -> RunConfig:
        if self.model.tie_embeddings == "all" and not self.tokens.shared:
            raise ValueError('tie_embeddings = "all" needs tokens.shared = true, one vocabulary')
        return self

    @model_validator(mode="after")
    def _features(self) -> RunConfig:
        if self.data.has_features:
            kind = self.tokens.of("source").kind
            if self.tokens.shared or kind == "subword":
                raise ValueError(
                    "features have ids of their own on the source side: set tokens.shared = false"
                    + (', and tokens.kind = "character"' if kind == "subword" else "")
                )
        elif self.model.features == "attention":
            raise ValueError(
                'model.features = "attention" attends to features: name their column, as in train '
                '= { file = "train.tsv", features_column = 3 }'
            )
        return self
