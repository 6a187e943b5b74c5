"""Models: assemblies of layers that know no text and no files."""

from luong.models.encoder_decoder import EncoderDecoder, StepOutput
from luong.models.hierarchical import HierarchicalClassifier
from luong.models.seq2seq import Seq2Seq
from luong.models.vision import CaptionModel

__all__ = ["CaptionModel", "EncoderDecoder", "HierarchicalClassifier", "Seq2Seq", "StepOutput"]
