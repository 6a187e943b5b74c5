"""The loss: output layer and label-smoothed cross-entropy in one step, in chunks of tokens."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from luong import kernels
from luong.kernels.products import multiply
from luong.models import EncoderDecoder, Seq2Seq
from luong.models.copying import mixture
from luong.text.batches import Batch
from luong.text.vocabulary import PAD

_CHUNK_SCORES = 9_000_000
"""Scores that are in memory at once."""

_LEAST_ROWS = 256
"""Thinner chunks would spend their time on adding to the gradient of the weights."""


class Copying(NamedTuple):
    """What the probability of a target is made of beside what is generated, see `Mixture`.

    Attributes:
        generate: log p_gen (N,); -inf for a target that can only be copied.
        copy: log of what copying gives the target (N,); -inf where that is nothing.
    """

    generate: Tensor
    copy: Tensor


class Loss(NamedTuple):
    """Sums over the tokens of a batch.

    Attributes:
        smoothed: What training minimises, divided by the divisor; with gradients.
        likelihood: Negative log-likelihood without smoothing, in nats, which perplexity is made
            of; without gradients.
    """

    smoothed: Tensor
    likelihood: Tensor


def output_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    *,
    copying: Copying | None = None,
    smoothing: float = 0.0,
    divisor: float = 1.0,
    rows: int | None = None,
) -> Loss:
    """Cross-entropy of softmax(states W^T + b) against smoothed targets, in bounded memory.

    A token's loss is (1 - smoothing) * -log p(target) + smoothing * mean over the vocabulary of
    -log p (Szegedy 2016, section 7). The logits exist for a chunk of tokens at a time: their
    gradient takes their place at once, and goes into those of the states and the weights, so that
    the backward pass has nothing left to do but scale.

    With copying p(target) is e^generate softmax(...) + e^copy. Smoothing concerns what is
    generated: the mean stays that of -log softmax, whatever the share of copying.

    Args:
        states: (N, H), what the output layer multiplies.
        weight: (V, H).
        bias: (V,).
        targets: Token ids (N,).
        copying: The two parts of each target's probability.
        smoothing: The share given to the uniform distribution.
        divisor: Target tokens of the update, which this batch may be a part of.
        rows: Tokens of a chunk; by default as many as fit in a cache.

    Returns:
        The sums. Products are of autocast's type, softmax and sums float32 at least.

    Example:
        >>> states, weight, bias = torch.zeros(1, 2), torch.zeros(4, 2), torch.zeros(4)
        >>> output_loss(states, weight, bias, torch.tensor([2])).likelihood
        tensor(1.3863)
    """
    if torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active():
        # These cannot see into the fused step, and may want second derivatives.
        return _plain_loss(states, weight, bias, targets, copying, smoothing, divisor)
    if rows is None:
        rows = max(_LEAST_ROWS, _CHUNK_SCORES // len(weight))
        # Of equal size: a thin last chunk costs nearly as much as a full one.
        rows = max(1, math.ceil(len(states) / max(1, round(len(states) / rows))))
    sums = _OutputLoss.apply(  # type: ignore[no-untyped-call]
        states, weight, bias, *(copying or (None, None)), targets, smoothing, divisor, rows
    )
    return Loss(*sums)


def translation_loss(model: Seq2Seq, batch: Batch, settings: Any, divisor: int) -> Loss:
    """The loss of a batch of pairs.

    Args:
        model: On the device of the batch.
        batch: The pairs.
        settings: A `TrainingConfig`: the smoothing, and the weight of coverage.
        divisor: Target tokens of the update.
    """
    smoothing = settings.label_smoothing
    weight = settings.coverage_weight if model.covers else 0.0
    return batch_loss(model, batch, smoothing=smoothing, coverage_weight=weight, divisor=divisor)


def batch_loss(
    model: EncoderDecoder,
    batch: Batch,
    *,
    smoothing: float = 0.0,
    coverage_weight: float = 0.0,
    divisor: float = 1.0,
) -> Loss:
    """The loss of a batch of pairs, with copying and coverage where the model has them.

    Args:
        model: On the device of the batch.
        batch: The pairs.
        smoothing: See `output_loss`.
        coverage_weight: Times sum_i min(a_i, coverage_i) of each step, what attending to the same
            words again costs (See 2017, equations 12 and 13); not part of the likelihood.
        divisor: Target tokens of the update.
    """
    real = batch.target_output != PAD
    inputs = batch.source, batch.source_lengths, batch.target_input
    targets, copying = batch.target_output[real], None
    weights: Any = None
    if batch.copies is None and not coverage_weight:
        states, _ = model(*inputs)
    else:
        states, weights, gates = model(*inputs, need_weights=True, need_gates=True)
    if batch.copies is not None:
        mixed = mixture(weights, batch.copies, gates, batch.target_output, model.vocabulary_size)
        targets, copying = mixed.targets[real], Copying(mixed.generate[real], mixed.copy[real])
    factors = model.output.factors(states[real])
    loss = output_loss(*factors, targets, copying=copying, smoothing=smoothing, divisor=divisor)
    if not coverage_weight or weights is None:
        return loss
    covered = weights.cumsum(1) - weights
    overlap = torch.minimum(weights, covered).sum(-1)[real].sum()
    return loss._replace(smoothed=loss.smoothed + coverage_weight / divisor * overlap)


def classification_loss(
    logits: Tensor,
    targets: Tensor,
    weights: Tensor,
    *,
    multi_label: bool,
    smoothing: float = 0.0,
    divisor: float = 1.0,
) -> Loss:
    """Cross-entropy of labels: one of C by softmax, or each apart by sigmoid.

    Args:
        logits: (B, C).
        targets: 1 for the labels that a document has, else 0 (B, C).
        weights: How much each label counts (C,): a document of that label or, where labels are
            decided apart, its presence.
        multi_label: Whether labels are decided apart; the loss is their sum.
        smoothing: The share given to the uniform distribution, for one label.
        divisor: Documents of the update.

    Returns:
        The sums; the likelihood has neither weights nor smoothing.

    Example:
        >>> one_of_two = torch.tensor([[1.0, 0.0]])
        >>> classification_loss(
        ...     torch.zeros(1, 2), one_of_two, torch.ones(2), multi_label=False
        ... ).likelihood
        tensor(0.6931)
    """
    logits = logits.float()
    if multi_label:
        loss = functional.binary_cross_entropy_with_logits(
            logits, targets, pos_weight=weights, reduction="sum"
        )
        plain = functional.binary_cross_entropy_with_logits(
            logits.detach(), targets, reduction="sum"
        )
        return Loss(loss / divisor, plain)
    smoothed = targets * (1.0 - smoothing) + smoothing / targets.shape[-1]
    documents = -(smoothed * torch.log_softmax(logits, -1)).sum(-1) * (targets @ weights)
    plain = -(targets * torch.log_softmax(logits.detach(), -1)).sum()
    return Loss(documents.sum() / divisor, plain)


def _plain_loss(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    copying: Copying | None,
    smoothing: float,
    divisor: float,
) -> Loss:
    logits = functional.linear(states, weight, bias)
    logits = logits if logits.dtype == torch.float64 else logits.float()
    if copying is not None:
        logs = torch.log_softmax(logits, -1)
        aimed = logs.gather(-1, targets.unsqueeze(-1)).squeeze(-1)
        likelihood = -torch.logaddexp(copying.generate + aimed, copying.copy).sum()
        uniform = -logs.mean(-1).sum()
        smoothed = (1.0 - smoothing) * likelihood + smoothing * uniform
        return Loss(smoothed / divisor, likelihood.detach())
    smoothed = functional.cross_entropy(logits, targets, reduction="sum", label_smoothing=smoothing)
    likelihood = functional.cross_entropy(logits.detach(), targets, reduction="sum")
    return Loss(smoothed / divisor, likelihood)


class _OutputLoss(torch.autograd.Function):
    @staticmethod
    def forward(
        ctx: Any,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        generate: Tensor | None,
        copy: Tensor | None,
        targets: Tensor,
        smoothing: float,
        divisor: float,
        rows: int,
    ) -> tuple[Tensor, Tensor]:
        device = states.device.type
        dtype = weight.dtype
        if torch.is_autocast_enabled(device):
            dtype = torch.get_autocast_dtype(device)
        copying = None if generate is None or copy is None else Copying(generate, copy)
        gradients = _Gradients(states, weight, bias, ctx.needs_input_grad[:3], 1.0 / divisor)
        if copying is not None and any(ctx.needs_input_grad[3:5]):
            gradients.copying = Copying(*map(torch.empty_like, copying))
        with torch.autocast(device, enabled=False):
            losses = _chunked(
                states.to(dtype),
                weight.to(dtype),
                bias.to(dtype),
                targets,
                copying,
                smoothing,
                rows,
                gradients,
            )
        smoothed, likelihood = losses
        own = (gradients.states, gradients.weight, gradients.bias)
        ctx.save_for_backward(*own, *(gradients.copying or (None, None)))
        ctx.mark_non_differentiable(likelihood)
        return smoothed / divisor, likelihood

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, smoothed: Tensor, _likelihood: Tensor) -> tuple[Tensor | None, ...]:
        gradients = ctx.saved_tensors
        # The loss itself is what training differentiates: a pass over the weights is spared.
        if smoothed.device.type != "cpu" or smoothed.item() != 1.0:
            gradients = [None if g is None else g * smoothed.to(g.dtype) for g in gradients]
        return *gradients, None, None, None, None


class _Gradients:
    """Sums of what the chunks contribute, for those inputs that want a gradient."""

    def __init__(
        self,
        states: Tensor,
        weight: Tensor,
        bias: Tensor,
        wanted: tuple[bool, bool, bool],
        scale: float,
    ) -> None:
        self.copying: Copying | None = None
        self.any = any(wanted)
        self.scale = scale
        self.states = torch.empty_like(states) if wanted[0] else None
        # The first chunk overwrites the matrix; without tokens there is none.
        make = torch.empty_like if len(states) else torch.zeros_like
        self.weight = make(weight) if wanted[1] else None
        self.bias = torch.zeros_like(bias) if wanted[2] else None

    def add_copying(self, chunk: slice, generated: Tensor, copied: Tensor) -> None:
        """Note the shares (rows,) that generating and copying have in a chunk's probabilities."""
        if self.copying is not None:
            torch.mul(generated, -self.scale, out=self.copying.generate[chunk])
            torch.mul(copied, -self.scale, out=self.copying.copy[chunk])

    def add(self, chunk: slice, logits: Tensor, states: Tensor, weight: Tensor) -> None:
        """Add what the gradient of a chunk's logits gives."""
        if self.bias is not None:
            # A product is a faster sum of columns.
            self.bias += (logits.new_ones(1, len(logits)) @ logits).squeeze(0)
        if self.states is not None:
            self.states[chunk] = logits @ weight
        if self.weight is None:
            return
        if self.weight.dtype == weight.dtype:
            self.weight.addmm_(logits.t(), states, beta=1.0 if chunk.start else 0.0)
        elif chunk.start:
            # Summed in float32: rounding after each of many chunks would add up.
            kernels.accumulate(self.weight, logits.t() @ states)
        else:
            self.weight.copy_(logits.t() @ states)


def _chunked(
    states: Tensor,
    weight: Tensor,
    bias: Tensor,
    targets: Tensor,
    copying: Copying | None,
    smoothing: float,
    rows: int,
    gradients: _Gradients,
) -> tuple[Tensor, Tensor]:
    """The sums of both losses; the gradients go where they are collected."""
    uniform = smoothing / len(weight)
    wide = torch.float64 if weight.dtype == torch.float64 else torch.float32
    likelihood = torch.zeros((), dtype=wide, device=states.device)
    spread = torch.zeros_like(likelihood)
    for start in range(0, len(states), rows):
        chunk = slice(start, start + rows)
        aims = targets[chunk]
        logits = multiply(states[chunk], weight, bias)
        log_sum, aimed = kernels.softmax_sums(logits, aims)
        if smoothing:
            spread += (log_sum - logits.mean(-1, dtype=wide)).sum()
        towards = torch.full_like(log_sum, smoothing - 1.0)
        if copying is None:
            likelihood += (log_sum - aimed).sum()
        else:
            generated = aimed - log_sum + copying.generate[chunk]
            copied = copying.copy[chunk].to(wide)
            whole = torch.logaddexp(generated, copied)
            likelihood -= whole.sum()
            share = torch.exp(generated - whole)
            gradients.add_copying(
                chunk, (1.0 - smoothing) * share, (1.0 - smoothing) * torch.exp(copied - whole)
            )
            towards *= share
        if gradients.any:
            # The whole of what is wanted of a word is spread over all of them by softmax.
            factors = gradients.scale * (smoothing - towards)
            steps = gradients.scale * towards
            kernels.logit_gradients(
                logits, aims, log_sum, factors, steps, gradients.scale * uniform
            )
            gradients.add(chunk, logits, states[chunk], weight)
    return (1.0 - smoothing) * likelihood + smoothing * spread, likelihood
