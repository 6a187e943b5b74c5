"""What the settings of every task hold."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from luong.config.section import Section
from luong.config.tokens import TokensConfig
from luong.config.training import TrainingSettings


class BaseRunConfig(Section):
    """What the settings of every task hold."""

    task: str
    output: Path
    seed: int = Field(1, ge=0)
    tokens: TokensConfig = TokensConfig()
    training: TrainingSettings
