"""The task `translate`: sentence pairs, an encoder-decoder, BLEU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from typing_extensions import override

from luong.config import RunConfig, TrainingSettings
from luong.folder import ModelFolder
from luong.models import Seq2Seq
from luong.text.batches import Batch, collate, plan
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.featured import first_feature
from luong.text.tokenizers import Tokenizer, train_tokenizers
from luong.training.loss import Loss, translation_loss
from luong.training.report import data_report
from luong.training.task import Task, Validated
from luong.training.validation import Validator


class TranslationTask(Task[RunConfig]):
    """Trains a translator; see `Task`."""

    def __init__(self, config: RunConfig) -> None:
        super().__init__(config)
        self.corpus = ParallelCorpus.open(config.data.train)
        self.valid_corpus = ParallelCorpus.open(config.data.valid)

    @property
    @override
    def corpora(self) -> list[ParallelCorpus]:
        return [self.corpus, self.valid_corpus]

    @override
    def prepare(self, tokenizers: tuple[Tokenizer, Tokenizer] | None) -> None:
        config, corpus = self.config, self.corpus
        self.tokenizers = tokenizers or train_tokenizers(
            config.tokens,
            corpus.source_lines,
            corpus.target_lines,
            config.data.feature_separator if config.data.has_features else None,
        )
        self.dataset = self._read(corpus, config.data.max_length)
        self.validator = Validator(
            self.valid_corpus,
            self._read(self.valid_corpus, max(config.data.max_length, 1000)),
            config.training.batch_tokens,
            config.data.target_language,
            with_rouge=config.training.best_by == "rouge",
        )

    def _read(self, corpus: ParallelCorpus, max_length: int) -> Dataset:
        return Dataset(
            corpus,
            *self.tokenizers,
            max_length=max_length,
            max_source_length=self.config.data.max_source_length,
            copies=self.config.model.copies,
        )

    @override
    def make_model(self) -> Seq2Seq:
        source, target = self.tokenizers
        return Seq2Seq(
            self.config.model, source.size, target.size, first_feature=first_feature(source)
        )

    @override
    def data_lines(self) -> list[str]:
        shared, (source, target) = self.config.tokens.shared, self.tokenizers
        kinds = " and ".join(dict.fromkeys((source.kind, target.kind)))
        return [
            *data_report(self.dataset.summary),
            f"valid     {len(self.validator.sources):,} pairs",
            f"tokens    {kinds}, {source.size:,} of the source, {target.size:,} of "
            f"the target{', shared' if shared else ''}",
        ]

    @override
    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        lengths = (self.dataset.source_lengths, self.dataset.target_lengths)
        budget, seed = self.config.training.batch_tokens, self.config.seed
        return plan(*lengths, batch_tokens=budget, seed=seed, epoch=epoch)

    @override
    def batch(self, positions: npt.NDArray[np.int64]) -> Batch:
        return collate(self.dataset, positions)

    @override
    def loss(self, model: Seq2Seq, batch: Batch, settings: TrainingSettings, divisor: int) -> Loss:
        return translation_loss(model, batch, settings, divisor)

    @override
    def validate(self, folder: ModelFolder) -> Validated:
        return self.validator.validate(folder)
