"""One update of the weights: gradients of some batches, clipping, and the optimiser's step."""

from __future__ import annotations

import logging
import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import nn

from luong.config import TrainingSettings
from luong.errors import UserError, is_out_of_memory
from luong.text.batches import TrainingBatch
from luong.training.loss import Loss, translation_loss
from luong.training.optim import clipped_step, make_optimizer
from luong.training.precision import autocast

logger = logging.getLogger("luong.training")


class Updated(NamedTuple):
    """Sums over the target tokens of an update, and the norm of its gradient before clipping."""

    loss: float
    likelihood: float
    gradient_norm: float


class Updater:
    """Updates a model.

    The loss is the sum over all target tokens of an update divided by their number, however they
    are spread over batches. Batches that do not fit in memory are split in halves.

    Args:
        model: What is trained; it gives the device.
        config: Optimiser, smoothing and clipping.
        precision: The type of products.
        loss: Of a batch on the model's device: (model, batch, settings, divisor); that of
            translation by default.

    Example:
        >>> updater = Updater(model, TrainingConfig(), torch.float32)
        >>> updater.update([batch], learning_rate=0.001).loss
        213.9
    """

    def __init__(
        self,
        model: nn.Module,
        config: TrainingSettings,
        precision: torch.dtype,
        loss: Callable[[Any, Any, Any, int], Loss] = translation_loss,
    ) -> None:
        self.model = model
        self.loss = loss
        self.config = config
        self.precision = precision
        self.device = next(model.parameters()).device
        self.optimizer = make_optimizer(model.parameters(), config)

    def update(self, batches: Sequence[TrainingBatch], learning_rate: float) -> Updated:
        """Make one update; none where the loss or the gradient is not finite.

        Raises:
            UserError: A single pair does not fit in memory.
        """
        self.model.train()
        for group in self.optimizer.param_groups:
            group["lr"] = learning_rate
        loss, likelihood = self._gradients(batches)
        gradients = [p.grad for p in self.model.parameters() if p.grad is not None]
        norm = float(nn.utils.get_total_norm(gradients))
        if math.isfinite(loss) and math.isfinite(norm):
            clip = self.config.clip_norm or math.inf
            clipped_step(self.optimizer, max(1.0, norm / clip))
        return Updated(loss, likelihood, norm)

    def _gradients(self, batches: Sequence[TrainingBatch]) -> tuple[float, float]:
        target_tokens = sum(batch.target_tokens for batch in batches)
        while True:
            self.optimizer.zero_grad()
            try:
                sums = [self._backward(batch, target_tokens) for batch in batches]
            except RuntimeError as error:
                if not is_out_of_memory(error):
                    raise
            else:
                return sum(loss for loss, _ in sums), sum(likelihood for _, likelihood in sums)
            # Outside the handler, so that the error no longer holds on to the tensors.
            batches = self._halved(batches)

    def _backward(self, batch: Any, target_tokens: int) -> tuple[float, float]:
        with autocast(self.device, self.precision):
            loss, likelihood = self.loss(
                self.model, batch.to(self.device), self.config, target_tokens
            )
        loss.backward()  # type: ignore[no-untyped-call]
        return target_tokens * loss.item(), likelihood.item()

    def _halved(self, batches: Sequence[TrainingBatch]) -> list[TrainingBatch]:
        largest = max(batch.examples for batch in batches)
        noun = batches[0].noun
        if largest == 1:
            longest = max(_tokens(batch) for batch in batches)
            raise UserError(
                f"Out of memory with a single {noun} of {longest} tokens. Lower what `[data]` "
                "allows a longest one to have, or the sizes of the model."
            )
        self.optimizer.zero_grad()
        if self.device.type == "cuda":
            torch.cuda.empty_cache()
        logger.warning("out of memory with %d %ss; trying again with half as many", largest, noun)
        return [half for batch in batches for half in batch.halves()]


def _tokens(batch: TrainingBatch) -> int:
    """Of the one example in a batch; the loss of a document is not a mean over its words."""
    return batch.source_tokens + (batch.target_tokens if batch.noun == "pair" else 0)
