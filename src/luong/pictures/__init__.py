"""Pictures and their captions: files in, arrays and batches out."""

from luong.pictures.corpus import CaptionCorpus, Captioned
from luong.pictures.dataset import CaptionDataset, normalized
from luong.pictures.loader import decode_picture, fitted, read_picture

__all__ = [
    "CaptionCorpus",
    "CaptionDataset",
    "Captioned",
    "decode_picture",
    "fitted",
    "normalized",
    "read_picture",
]
