"""Training: the loop, and all it turns."""

from luong.training.loop import TrainingResult, train

__all__ = ["TrainingResult", "train"]
