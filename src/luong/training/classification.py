"""The task `classify`: labelled documents, a hierarchical network, accuracy and F1."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from typing_extensions import override

from luong.classification import Classification, Classifier, classified
from luong.classification.classifier import probabilities_of
from luong.config import ClassifierConfig, ClassifierTrainingConfig
from luong.errors import UserError, nearest
from luong.evaluation.classification import classification_scores
from luong.folder import ClassifierFolder
from luong.models import HierarchicalClassifier
from luong.text.document_dataset import (
    DocumentBatch,
    DocumentDataset,
    DocumentReader,
    check_labels,
    lowered,
)
from luong.text.documents import DocumentCorpus
from luong.text.labels import Labels
from luong.text.pretrained import read_pretrained
from luong.text.tokenizers import Tokenizer, train_tokenizer
from luong.training.loss import Loss, classification_loss
from luong.training.report import document_report, perplexity
from luong.training.task import Task, Validated

SAMPLES = 3
_SHOWN = 100
"""Code points of a sample that the report shows."""


class ClassificationTask(Task[ClassifierConfig]):
    """Trains a classifier; see `Task`."""

    def __init__(self, config: ClassifierConfig) -> None:
        super().__init__(config)
        self.corpus = DocumentCorpus.open(config.data.train)
        self.valid_corpus = DocumentCorpus.open(config.data.valid)

    @property
    @override
    def corpora(self) -> list[DocumentCorpus]:
        return [self.corpus, self.valid_corpus]

    @override
    def prepare(self, tokenizers: tuple[Tokenizer, Tokenizer] | None) -> None:
        config, multi_label = self.config, self.config.data.multi_label
        # Weights of a saved run replace those of a file.
        self._starts_from_file = tokenizers is None and config.model.pretrained is not None
        if tokenizers is None:
            labels = self._labels()
            name = f"text of {self.corpus.name}"
            tokenizers = train_tokenizer(config.tokens, self._lines(), name), labels
        self.tokenizers = tokenizers
        reader = DocumentReader(tokenizers[0], config.data)
        self.labels = Labels(tokenizers[1].tokens(range(tokenizers[1].size)))
        self.weights = torch.ones(self.labels.size)
        self.dataset = DocumentDataset(self.corpus, reader, self.labels, multi_label=multi_label)
        self.valid = DocumentDataset(
            self.valid_corpus, reader, self.labels, multi_label=multi_label
        )
        self.weights = self._class_weights()
        self.pretrained: dict[int, Tensor] = {}
        if self._starts_from_file and config.model.pretrained is not None:
            self.pretrained = read_pretrained(
                config.model.pretrained, tokenizers[0], config.model.embedding_size
            )
        samples = list(self.valid_corpus)
        self.samples = samples[:: max(1, len(samples) // SAMPLES)][:SAMPLES]

    def _labels(self) -> Labels:
        """Those of the training data, in alphabetical order."""
        found: set[str] = set()
        for number, document in enumerate(self.corpus, 1):
            place = f"{self.corpus.name}, document {number}"
            check_labels(document.labels, self.config.data.multi_label, place)
            found.update(document.labels)
        if len(found) < (1 if self.config.data.multi_label else 2):
            raise UserError(
                f"{self.corpus.name} has {len(found)} label{'s' * (len(found) != 1)}: there is "
                "nothing to tell apart. Expected at least two."
            )
        return Labels(sorted(found))

    def _lines(self) -> Iterator[str]:
        for document in self.corpus:
            for sentence in document.sentences:
                yield lowered(sentence) if self.config.data.lowercase else sentence

    def _class_weights(self) -> Tensor:
        """How much each label counts (C,); the mean over the training data is 1 if balanced."""
        setting, labels = self.config.training.class_weights, self.labels
        counts = torch.tensor(self.dataset.summary.label_counts).clamp(min=1)
        if setting == "balanced":
            documents = len(self.dataset)
            if self.config.data.multi_label:
                return (documents - counts).clamp(min=1) / counts
            return documents / (labels.size * counts)
        weights = torch.ones(labels.size)
        for name, weight in setting.items() if isinstance(setting, dict) else ():
            if name not in labels:
                raise UserError(
                    f"training.class_weights: there is no label '{name}'."
                    f"{nearest(name, labels.names)}"
                )
            weights[labels.ids(name)] = weight
        return weights

    @override
    def make_model(self) -> HierarchicalClassifier:
        sizes = (self.tokenizers[0].size, self.labels.size)
        model = HierarchicalClassifier(self.config.model, *sizes)
        with torch.no_grad():
            for id, vector in self.pretrained.items():
                model.embedding.weight[id] = vector
        return model

    @override
    def data_lines(self) -> list[str]:
        data, tokenizer = self.config.data, self.tokenizers[0]
        limits = (data.max_sentences, data.max_words)
        lines = document_report(self.dataset.summary, self.labels.names, *limits)
        valid = self.valid.summary
        lines.append(
            f"valid     {valid.documents:,} documents, {valid.empty:,} without a word, "
            f"{valid.unknown / max(1, valid.words):.2%} unknown; cut: {valid.cut_documents:,} "
            f"documents, {valid.cut_sentences:,} sentences"
        )
        lines.append(f"tokens    {self.config.tokens.kind}, {tokenizer.size:,} of them")
        if self._starts_from_file:
            lines.append(
                f"vectors   {len(self.pretrained):,} of {tokenizer.size:,} words are in "
                f"{self.config.model.pretrained}; the others start at random"
            )
        return lines

    @override
    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        budget, seed = self.config.training.batch_tokens, self.config.seed
        return self.dataset.plan(batch_tokens=budget, seed=seed, epoch=epoch)

    @override
    def batch(self, positions: npt.NDArray[np.int64]) -> DocumentBatch:
        return self.dataset.batch(positions)

    @override
    def loss(
        self,
        model: HierarchicalClassifier,
        batch: DocumentBatch,
        settings: ClassifierTrainingConfig,
        divisor: int,
    ) -> Loss:
        logits = model(batch.words, batch.word_counts, batch.sentence_counts).logits
        return classification_loss(
            logits,
            batch.targets,
            self.weights.to(logits.device),
            multi_label=self.config.data.multi_label,
            smoothing=settings.label_smoothing,
            divisor=divisor,
        )

    @override
    def validate(self, folder: ClassifierFolder) -> Validated:
        folder.model.eval()
        likelihood, found, expected = self._outputs(folder)
        quality = classification_scores(
            found, expected, self.labels.names, multi_label=self.config.data.multi_label
        )
        loss = likelihood / len(self.valid)
        scores = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "accuracy": quality.accuracy,
            "macro_f1": quality.macro_f1,
        }
        return Validated(scores, {}, self._samples(folder))

    @torch.inference_mode()
    def _outputs(self, folder: ClassifierFolder) -> tuple[float, list[list[str]], list[list[str]]]:
        """The likelihood of the validation data, and the labels found and expected."""
        multi_label = self.config.data.multi_label
        total = 0.0
        found: list[list[str]] = []
        expected: list[list[str]] = []
        budget = self.config.training.batch_tokens
        for positions in self.valid.plan(batch_tokens=budget, seed=0, epoch=0):
            batch = self.valid.batch(positions).to(folder.device)
            logits = folder.model(batch.words, batch.word_counts, batch.sentence_counts).logits
            ones = torch.ones_like(logits[0])
            loss = classification_loss(logits, batch.targets, ones, multi_label=multi_label)
            total += loss.likelihood.item()
            found += [
                self.labels.tokens(classified(row, multi_label))
                for row in probabilities_of(logits, multi_label).tolist()
            ]
            expected += [
                self.labels.tokens([id for id, one in enumerate(row) if one])
                for row in batch.targets.tolist()
            ]
        return total, found, expected

    def _samples(self, folder: ClassifierFolder) -> list[tuple[Classification, str]]:
        documents = [(excerpt(sample.sentences), sample.sentences) for sample in self.samples]
        results = Classifier(folder).classify_documents(documents)
        references = [",".join(sample.labels) for sample in self.samples]
        return list(zip(results, references, strict=True))


def excerpt(sentences: list[str]) -> str:
    """The beginning of a document on one line."""
    text = " ".join(" ".join(sentences).split())
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
