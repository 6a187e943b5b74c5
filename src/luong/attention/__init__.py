"""Attention layers: score functions, windows, and the layer that combines them freely."""

from luong.attention.functional import attend, masked_softmax
from luong.attention.layer import Attention
from luong.attention.memory import AttentionOutput, Memory
from luong.attention.scores import SCORES, Cost, Score
from luong.attention.windows import WINDOWS, Window

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
