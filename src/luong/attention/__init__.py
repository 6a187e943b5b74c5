"""Attention layers: score functions, windows, and the layer that combines them freely."""

from luong.attention.functional import attend
from luong.attention.layer import Attention
from luong.attention.memory import AttentionOutput, Memory
from luong.attention.scores import SCORES, Cost, Score
from luong.attention.windows import WINDOWS, Window
from luong.kernels.reference import masked_softmax

__all__ = [
    "SCORES",
    "WINDOWS",
    "Attention",
    "AttentionOutput",
    "Cost",
    "Memory",
    "Score",
    "Window",
    "attend",
    "masked_softmax",
]
