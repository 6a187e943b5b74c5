"""Models: assemblies of layers that know no text and no files."""

from luong.models.hierarchical import HierarchicalClassifier
from luong.models.seq2seq import Seq2Seq, StepOutput

__all__ = ["HierarchicalClassifier", "Seq2Seq", "StepOutput"]
