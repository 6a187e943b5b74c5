"""The classifier: texts in, labels with probabilities and attention weights out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import overload

import numpy as np
import torch
from torch import Tensor

from luong.classification.classification import Classification, Sentence, WordWeight
from luong.folder import ClassifierFolder
from luong.text.document_dataset import DocumentReader, make_batch
from luong.text.encoding import Encoding, Span
from luong.text.sentences import split_sentences

_DOCUMENTS = 64
_WORDS = 50_000
"""Documents and padded words of a batch, at most."""


class Classifier:
    """Classifies texts with a model folder.

    Results keep the order of the texts, one for each text. A text without a word takes the
    labels that are likeliest before anything is read.

    Args:
        folder: A loaded folder of the task `classify`.

    Example:
        >>> classifier = Classifier(load_any_folder("runs/reviews"))
        >>> classifier.classify("Dull. I left early.").label
        'negative'
    """

    def __init__(self, folder: ClassifierFolder) -> None:
        self.folder = folder
        self.reader = DocumentReader(folder.source_tokenizer, folder.config.data)

    @property
    def label_names(self) -> list[str]:
        """The labels that the model knows, in the order of its outputs."""
        labels = self.folder.target_tokenizer
        return labels.tokens(range(labels.size))

    @overload
    def classify(self, text: str) -> Classification: ...
    @overload
    def classify(self, text: list[str]) -> list[Classification]: ...
    def classify(self, text: str | list[str]) -> Classification | list[Classification]:
        """Classify a text, or a list of texts.

        Args:
            text: Plain text, which is split into sentences.
        """
        if isinstance(text, str):
            return next(self.classify_texts([text]))
        return list(self.classify_texts(text))

    def classify_texts(self, texts: Iterable[str]) -> Iterator[Classification]:
        """Classify any number of texts, in bounded memory."""
        return self.classify_documents((text, split_sentences(text)) for text in texts)

    def classify_documents(
        self, documents: Iterable[tuple[str, Sequence[str]]]
    ) -> Iterator[Classification]:
        """Classify any number of documents, in bounded memory.

        Args:
            documents: Of each its text, for the result, and its sentences.
        """
        remaining = iter(documents)
        while some := list(islice(remaining, _DOCUMENTS)):
            read = [self.reader.read(sentences)[0] for _, sentences in some]
            start = 0
            while start < len(some):
                end = start + _fitting(read[start:])
                results = self._classified(read[start:end])
                for (text, sentences), (probabilities, weights) in zip(
                    some[start:end], results, strict=True
                ):
                    yield self._result(text, sentences, probabilities, weights)
                start = end

    @torch.inference_mode()
    def _classified(
        self, documents: list[list[Encoding]]
    ) -> list[tuple[list[float], list[tuple[float, list[WordWeight]]]]]:
        """Of each document the probabilities, and the weights of its sentences and words."""
        folder = self.folder
        sentences = [encoding for document in documents for encoding in document]
        batch = make_batch(
            np.array([id for encoding in sentences for id in encoding.ids], np.int64),
            np.array([len(encoding.ids) for encoding in sentences], np.int64),
            np.array([len(document) for document in documents], np.int64),
            np.zeros((len(documents), folder.target_tokenizer.size), np.float32),
        ).to(folder.device)
        folder.model.eval()
        found = folder.model(*batch[:3], need_weights=True)
        if found.word_weights is None or found.sentence_weights is None:
            raise ValueError("the model gave no weights, though they were asked for")
        of_words = iter(found.word_weights.tolist())
        results = []
        for document, row, shares in zip(
            documents,
            probabilities_of(found.logits, folder.config.data.multi_label).tolist(),
            found.sentence_weights.tolist(),
            strict=True,
        ):
            weights = [
                (share, _with_weights(encoding.spans, next(of_words)))
                # Both rows of weights go on in padding.
                for encoding, share in zip(document, shares, strict=False)
            ]
            results.append((row, weights))
        return results

    def _result(
        self,
        text: str,
        sentences: Sequence[str],
        probabilities: list[float],
        weights: list[tuple[float, list[WordWeight]]],
    ) -> Classification:
        names = self.label_names
        chosen = classified(probabilities, self.folder.config.data.multi_label)
        return Classification(
            source=text,
            labels=tuple(names[id] for id in chosen),
            probabilities=dict(zip(names, probabilities, strict=True)),
            sentences=[
                Sentence(sentence, share, words)
                # Those beyond the limit were not read.
                for sentence, (share, words) in zip(sentences, weights, strict=False)
            ],
        )


def probabilities_of(logits: Tensor, multi_label: bool) -> Tensor:
    """Probabilities from scores (B, C): a softmax over labels, or a sigmoid of each."""
    logits = logits.float()
    return torch.sigmoid(logits) if multi_label else torch.softmax(logits, -1)


def classified(probabilities: Sequence[float], multi_label: bool) -> list[int]:
    """The ids of the labels found: the likeliest, or all of at least 0.5.

    Example:
        >>> classified([0.2, 0.5, 0.9], multi_label=True)
        [1, 2]
    """
    if multi_label:
        return [id for id, probability in enumerate(probabilities) if probability >= 0.5]
    return [max(range(len(probabilities)), key=probabilities.__getitem__)]


def _with_weights(spans: Sequence[Span], weights: Sequence[float]) -> list[WordWeight]:
    return [(*span, weight) for span, weight in zip(spans, weights, strict=False)]


def _fitting(documents: list[list[Encoding]]) -> int:
    """How many of the documents, at least one, fit in a batch."""
    width = rows = 0
    for count, document in enumerate(documents):
        width = max([width, *(len(encoding.ids) for encoding in document)])
        rows += len(document)
        if count and width * rows > _WORDS:
            return count
    return len(documents)
