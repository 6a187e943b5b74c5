"""The task `caption`: pictures with captions, a picture encoder and a decoder, BLEU."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from luong.config import CaptionConfig, CaptionTrainingConfig
from luong.evaluation.captions import caption_scores
from luong.folder import CaptionFolder
from luong.models import CaptionModel
from luong.models.backbone import Backbone
from luong.pictures import CaptionCorpus, CaptionDataset
from luong.search import Captioner
from luong.text.batches import Batch
from luong.text.tokenizers import Tokenizer, train_tokenizer
from luong.training.loss import Loss, batch_loss
from luong.training.report import perplexity
from luong.training.task import Task, Validated

SAMPLES = 3


class CaptionTask(Task[CaptionConfig]):
    """Trains a captioner; see `Task`."""

    def __init__(self, config: CaptionConfig) -> None:
        super().__init__(config)
        data = config.data
        self.corpus, self.valid_corpus = (
            CaptionCorpus.open(files, data.picture_size, skip_bad=data.skip_bad)
            for files in (data.train, data.valid)
        )

    @property
    @override
    def corpora(self) -> list[CaptionCorpus]:
        return [self.corpus, self.valid_corpus]

    @override
    def prepare(self, tokenizers: tuple[Tokenizer, Tokenizer] | None) -> None:
        config = self.config
        # Weights of a saved run replace those of a file.
        self._starts_from_file = tokenizers is None and config.model.backbone_weights is not None
        if tokenizers is None:
            captions = (caption for _, caption in self.corpus.rows)
            one = train_tokenizer(config.tokens, captions, f"captions of {self.corpus.name}")
            tokenizers = one, one
        self.tokenizers = tokenizers
        rows, columns = config.grid
        self.dataset, self.valid = (
            CaptionDataset(corpus, tokenizers[1], config.data, rows * columns)
            for corpus in self.corpora
        )

    @override
    def make_model(self) -> CaptionModel:
        model = CaptionModel(self.config.model, self.tokenizers[1].size)
        network, file = model.encoder.network, self.config.model.backbone_weights
        if self._starts_from_file and isinstance(network, Backbone) and file is not None:
            network.read_weights(file)
        return model

    @override
    def data_lines(self) -> list[str]:
        lines = []
        for name, dataset in (("pictures", self.dataset), ("valid", self.valid)):
            corpus = dataset.corpus
            lines.append(
                f"{name:<9} {len(corpus):,} with {len(dataset):,} captions; left out: "
                f"{len(corpus.bad):,} pictures that cannot be read, {dataset.too_long:,} captions "
                f"too long, {corpus.blank:,} rows without one; {dataset.unknown:.2%} unknown"
            )
            lines += [f"left out  {name} {reason}" for name, reason in corpus.bad.items()]
        rows, columns = self.config.grid
        size, tokenizer = self.config.data.picture_size, self.tokenizers[1]
        lines.append(f"grid      {rows} by {columns} over pictures of {size} by {size} pixels")
        lines.append(f"tokens    {self.config.tokens.kind}, {tokenizer.size:,} of them")
        return lines

    @override
    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        budget, seed = self.config.training.batch_tokens, self.config.seed
        return self.dataset.plan(batch_tokens=budget, seed=seed, epoch=epoch)

    @override
    def batch(self, positions: npt.NDArray[np.int64]) -> Batch:
        return self.dataset.batch(positions)

    @override
    def loss(
        self, model: CaptionModel, batch: Batch, settings: CaptionTrainingConfig, divisor: int
    ) -> Loss:
        batch = batch._replace(source=shifted(batch.source, settings.shift))
        return batch_loss(model, batch, smoothing=settings.label_smoothing, divisor=divisor)

    @override
    def validate(self, folder: CaptionFolder) -> Validated:
        folder.model.eval()
        loss = self._likelihood(folder)
        corpus = self.valid_corpus
        references = corpus.captions()
        captions = Captioner(folder).caption_corpus(corpus, beam_size=1)
        quality = caption_scores(
            [caption.text for caption in captions],
            references,
            target_language=self.config.data.target_language,
        )
        spread = range(0, len(corpus), max(1, len(corpus) // SAMPLES))[:SAMPLES]
        scores = {
            "loss": loss,
            "perplexity": perplexity(loss),
            "bleu": quality.bleu,
            "chrf": quality.chrf,
            "exact_match": quality.exact_match,
        }
        samples = [(captions[place], references[place][0]) for place in spread]
        return Validated(scores, quality.signatures, samples)

    @torch.inference_mode()
    def _likelihood(self, folder: CaptionFolder) -> float:
        """Mean negative log-likelihood of a token."""
        total, tokens = 0.0, 0
        budget = self.config.training.batch_tokens
        for positions in self.valid.plan(batch_tokens=budget, seed=0, epoch=0):
            batch = self.valid.batch(positions).to(folder.device)
            total += batch_loss(folder.model, batch).likelihood.item()
            tokens += batch.target_tokens
        return total / tokens


def shifted(pictures: Tensor, most: int) -> Tensor:
    """Move each picture by up to so many pixels, at random; its edge goes on where it left.

    Args:
        pictures: (B, 3, H, W).
        most: Pixels to any side.
    """
    if not most:
        return pictures
    height, width = pictures.shape[2:]
    wide = functional.pad(pictures, (most,) * 4, mode="replicate")
    # From the processor's generator, whose state a saved run keeps.
    offsets = torch.randint(2 * most + 1, (len(pictures), 2)).tolist()
    return torch.stack(
        [
            picture[:, top : top + height, left : left + width]
            for picture, (top, left) in zip(wide, offsets, strict=True)
        ]
    )
