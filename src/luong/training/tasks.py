"""Which task the settings ask for."""

from __future__ import annotations

from typing import Any

from luong.config import AnyConfig, CaptionConfig, ClassifierConfig
from luong.training.captions import CaptionTask
from luong.training.classification import ClassificationTask
from luong.training.task import Task
from luong.training.translation import TranslationTask


def make_task(config: AnyConfig) -> Task[Any]:
    """What the settings train, its corpora opened."""
    if isinstance(config, ClassifierConfig):
        return ClassificationTask(config)
    if isinstance(config, CaptionConfig):
        return CaptionTask(config)
    return TranslationTask(config)
