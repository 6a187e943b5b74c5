"""Training: the loop, and all it turns."""

from luong.training.loop import train
from luong.training.result import TrainingResult

__all__ = ["TrainingResult", "train"]
