"""Validation: the loss of the held-out pairs, their translations, and how good these are."""

from __future__ import annotations

import torch

from luong.evaluation.metrics import exact_match, validation_scores
from luong.evaluation.rouge import check_rouge, rouge_scores
from luong.evaluation.transduction import is_transducer, transduction_scores
from luong.folder import ModelFolder
from luong.search import Translator
from luong.text.batches import collate, plan
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.training.loss import batch_loss
from luong.training.report import perplexity
from luong.training.task import Validated

SAMPLES = 3


class Validator:
    """Validates a model on held-out pairs, always in float32 and without dropout.

    Args:
        corpus: The pairs; all of them are translated, greedily.
        dataset: Those of them that the loss is taken of.
        batch_tokens: Padded target positions of a batch, at most.
        target_language: Chooses the tokenizer of BLEU.
        with_rouge: Score with ROUGE-L, too.

    Raises:
        UserError: ROUGE is asked for, but its package is not installed.
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        dataset: Dataset,
        batch_tokens: int,
        target_language: str | None,
        with_rouge: bool = False,
    ) -> None:
        self.dataset = dataset
        if with_rouge:
            check_rouge()  # now, and not after the first epoch
        self.with_rouge = with_rouge
        self.target_language = target_language
        self.sources = list(corpus.source_lines())
        self.references = list(corpus.target_lines())
        lengths = (dataset.source_lengths, dataset.target_lengths)
        self.batches = plan(*lengths, batch_tokens=batch_tokens, seed=0, epoch=0)
        spread = range(0, len(dataset), max(1, len(dataset) // SAMPLES))
        self.shown = [int(dataset.lines[position]) for position in spread][:SAMPLES]

    def validate(self, folder: ModelFolder) -> Validated:
        """Score a model."""
        folder.model.eval()
        loss = self._loss(folder)
        translations = Translator(folder).translate(self.sources, beam_size=1)
        texts = [translation.text for translation in translations]
        quality = validation_scores(texts, self.references, target_language=self.target_language)
        scores = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bleu": quality.bleu,
            "chrf": quality.chrf,
            "exact_match": exact_match(texts, self.references),
        }
        if self.with_rouge:
            scores["rouge"] = rouge_scores(texts, self.references).rouge_l
        if is_transducer(folder.target_tokenizer):
            rates = transduction_scores(texts, self.references, folder.target_tokenizer)
            scores["symbol_error_rate"] = rates.symbol_error_rate
        return Validated(
            scores,
            quality.signatures,
            [(translations[line], self.references[line]) for line in self.shown],
        )

    @torch.inference_mode()
    def _loss(self, folder: ModelFolder) -> float:
        """Mean negative log-likelihood of a target token."""
        total, tokens = 0.0, 0
        for positions in self.batches:
            batch = collate(self.dataset, positions).to(folder.device)
            total += batch_loss(folder.model, batch).likelihood.item()
            tokens += batch.target_tokens
        return total / tokens
