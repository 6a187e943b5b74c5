"""Validation: the loss of the held-out pairs, their translations, and how good these are."""

from __future__ import annotations

import torch

from luong.evaluation.metrics import exact_match, validation_scores
from luong.evaluation.transduction import is_transducer, transduction_scores
from luong.folder import ModelFolder
from luong.search import Translator
from luong.text.batches import collate, plan
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.vocabulary import PAD
from luong.training.loss import output_loss
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
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        dataset: Dataset,
        batch_tokens: int,
        target_language: str | None,
    ) -> None:
        self.dataset = dataset
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
            states, _ = folder.model(batch.source, batch.source_lengths, batch.target_input)
            real = batch.target_output != PAD
            targets = batch.target_output[real]
            factors = folder.model.output.factors(states[real])
            total += output_loss(*factors, targets).likelihood.item()
            tokens += len(targets)
        return total / tokens
