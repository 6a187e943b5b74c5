"""Text in, numbers out: the scores of a system's output against references."""

from __future__ import annotations

from luong.evaluation.alignment import (
    AlignmentScores,
    GoldAlignment,
    alignment_scores,
    read_gold,
)
from luong.evaluation.metrics import Scores, ValidationScores, corpus_scores, validation_scores

__all__ = [
    "AlignmentScores",
    "GoldAlignment",
    "Scores",
    "ValidationScores",
    "alignment_scores",
    "corpus_scores",
    "read_gold",
    "validation_scores",
]
