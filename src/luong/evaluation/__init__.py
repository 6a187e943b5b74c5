"""Text in, numbers out: the scores of a system's output against references."""

from __future__ import annotations

from luong.evaluation.metrics import Scores, ValidationScores, corpus_scores, validation_scores

__all__ = ["Scores", "ValidationScores", "corpus_scores", "validation_scores"]
