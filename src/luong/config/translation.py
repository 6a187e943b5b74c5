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

    @property
    def columns(self) -> tuple[int, int]:
        """The columns of source and target in `file`, from 1 on."""
        return self.source_column or 1, self.target_column or 2

    @model_validator(mode="after")
    def _one_form(self) -> PairFiles:
        parallel = self.source is not None and self.target is not None
        neither = self.source is None and self.target is None
        if not (parallel and self.file is None) and not (self.file is not None and neither):
            raise ValueError(
                'expected { source = "...", target = "..." } or { file = "pairs.tsv" }'
            )
        if self.file is None and (self.source_column or self.target_column):
            raise ValueError("columns are of one file = ..., not of two parallel files")
        if len({*self.columns}) < len(self.columns):
            raise ValueError(
                f"source and target are both read from column {self.columns[0]}: set both "
                "source_column and target_column, from 1 on"
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
    max_length: int = Field(250, ge=1)
    """Training pairs with more tokens than this on either side are left out, and counted."""


class TrainingConfig(TrainingSettings):
    """Training of a translator."""

    best_by: Literal["bleu", "chrf", "exact_match", "loss"] = "bleu"


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
