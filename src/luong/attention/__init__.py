"""Attention layers: score functions, windows, and the layer that combines them freely."""

from luong.attention.functional import attend
from luong.attention.layer import Attention
from luong.attention.learned_query import (
    LearnedQueryAttention,
    LearnedQueryOutput,
    orthogonality_penalty,
)
from luong.attention.memory import AttentionOutput, Memory
from luong.attention.positions import RelativePositions, sinusoidal_positions
from luong.attention.scores import SCORES, Cost, Score
from luong.attention.self_attention import SelfAttention, SelfAttentionOutput
from luong.attention.windows import WINDOWS, Window
from luong.kernels.reference import masked_softmax

__all__ = [
    "SCORES",
    "WINDOWS",
    "Attention",
    "AttentionOutput",
    "Cost",
    "LearnedQueryAttention",
    "LearnedQueryOutput",
    "Memory",
    "RelativePositions",
    "Score",
    "SelfAttention",
    "SelfAttentionOutput",
    "Window",
    "attend",
    "masked_softmax",
    "orthogonality_penalty",
    "sinusoidal_positions",
]
