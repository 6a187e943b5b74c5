"""Text in, numbers out: the scores of a system's output against references."""

from __future__ import annotations

from luong.evaluation.alignment import (
    AlignmentScores,
    GoldAlignment,
    alignment_scores,
    read_gold,
)
from luong.evaluation.captions import CaptionScores, caption_scores
from luong.evaluation.metrics import (
    Scores,
    ValidationScores,
    corpus_scores,
    exact_match,
    validation_scores,
)
from luong.evaluation.transduction import (
    TransductionScores,
    edit_distances,
    transduction_scores,
)

__all__ = [
    "AlignmentScores",
    "CaptionScores",
    "GoldAlignment",
    "Scores",
    "TransductionScores",
    "ValidationScores",
    "alignment_scores",
    "caption_scores",
    "corpus_scores",
    "edit_distances",
    "exact_match",
    "read_gold",
    "transduction_scores",
    "validation_scores",
]
