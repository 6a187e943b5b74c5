"""Classification: the labels of texts, and what a model looked at to find them."""

from luong.classification.classification import Classification, Sentence
from luong.classification.classifier import Classifier, classified

__all__ = ["Classification", "Classifier", "Sentence", "classified"]
