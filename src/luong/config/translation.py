"""Settings of the task `translate`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from luong.config.model import ModelConfig
from luong.config.run import BaseRunConfig
from luong.config.section import Section
from luong.config.training import TrainingSettings


class PairFiles(Section):
    """Where sentence pairs lie: two parallel files, or one file of tab-separated pairs."""

    source: Path | None = None
    target: Path | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _one_form(self) -> PairFiles:
        parallel = self.source is not None and self.target is not None
        neither = self.source is None and self.target is None
        if not (parallel and self.file is None) and not (self.file is not None and neither):
            raise ValueError(
                'expected { source = "...", target = "..." } or { file = "pairs.tsv" }'
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
    max_source_length: int = Field(0, ge=0)
    """Sources are cut to so many tokens, in training and in use, and counted; 0: never."""


class TrainingConfig(TrainingSettings):
    """Training of a translator."""

    best_by: Literal["bleu", "chrf", "rouge", "loss"] = "bleu"
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
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _tying(self) -> RunConfig:
        if self.model.tie_embeddings == "all" and not self.tokens.shared:
            raise ValueError('tie_embeddings = "all" needs tokens.shared = true, one vocabulary')
        return self
