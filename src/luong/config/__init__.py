"""The settings of a run: frozen models read from TOML, unknown keys refused, all errors at once."""

from luong.config.captions import (
    CaptionConfig,
    CaptionFiles,
    CaptionModelConfig,
    CaptionsConfig,
    CaptionTrainingConfig,
)
from luong.config.classification import (
    ClassifierConfig,
    ClassifierTrainingConfig,
    DocumentFiles,
    DocumentsConfig,
    HierarchyConfig,
)
from luong.config.load import AnyConfig, load_config, parse_config
from luong.config.model import AttentionConfig, EncoderName, ModelConfig
from luong.config.run import BaseRunConfig
from luong.config.tokens import PairTokensConfig, SideTokensConfig, TokensConfig
from luong.config.training import TrainingSettings
from luong.config.translation import DataConfig, PairFiles, RunConfig, TrainingConfig

__all__ = [
    "AnyConfig",
    "AttentionConfig",
    "BaseRunConfig",
    "CaptionConfig",
    "CaptionFiles",
    "CaptionModelConfig",
    "CaptionTrainingConfig",
    "CaptionsConfig",
    "ClassifierConfig",
    "ClassifierTrainingConfig",
    "DataConfig",
    "DocumentFiles",
    "DocumentsConfig",
    "EncoderName",
    "HierarchyConfig",
    "ModelConfig",
    "PairFiles",
    "PairTokensConfig",
    "RunConfig",
    "SideTokensConfig",
    "TokensConfig",
    "TrainingConfig",
    "TrainingSettings",
    "load_config",
    "parse_config",
]
