"""Attention without parameters of its own: prepare a source, attend to it, or both at once."""

from __future__ import annotations

import logging
import math

import torch
from torch import Tensor
from torch.nn import functional

from luong import kernels
from luong.attention import masks
from luong.attention.memory import AttentionOutput, Memory
from luong.attention.scores import SCORES, Score, make_score
from luong.attention.windows import Window, make_window
from luong.kernels.dispatch import plain_torch
from luong.kernels.reference import biased, masked_softmax

logger = logging.getLogger("luong.attention")
_warned_max_length: set[int] = set()


def prepare(
    score: Score,
    keys: Tensor,
    values: Tensor | None = None,
    *,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
) -> Memory:
    """Make sources ready to be attended; see `Attention.prepare`."""
    values = keys if values is None else values
    _check_source(score, keys, values)
    batch, source_length, _ = keys.shape
    allowed = masks.combined(lengths, mask, batch, source_length, keys.device)
    if lengths is not None:
        lengths = lengths.to(keys.device)
    elif mask is not None:
        lengths = masks.last_allowed(mask)
    else:
        lengths = torch.full((batch,), source_length, device=keys.device)
    if score.max_length is not None and source_length > score.max_length:
        allowed = allowed & (torch.arange(source_length, device=keys.device) < score.max_length)
        _warn_max_length(score.max_length, source_length)
    if not score.attends:
        allowed = torch.zeros_like(allowed)
        values = values[..., :0]
    # Zeros in place of what takes no part: 0 * NaN would still be NaN, in the context and in the
    # gradients. What may be attended but is not finite is only known to matter once a call says
    # which rows see it, so the memory remembers where it stood.
    broken, seen = None, allowed
    if not _known_finite(keys, values):
        broken = allowed & ~(keys.isfinite().all(-1) & values.isfinite().all(-1))
        seen = allowed & ~broken
    hidden = ~seen.unsqueeze(-1)
    filled = keys.masked_fill(hidden, 0.0)
    return Memory(
        score.prepare(filled),
        filled if values is keys else values.masked_fill(hidden, 0.0),
        allowed,
        lengths,
        broken,
    )


def attend_memory(
    query: Tensor,
    memory: Memory,
    *,
    score: Score,
    window: Window,
    positions: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    coverage: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> AttentionOutput:
    """Attend to prepared sources; see `Attention.forward`."""
    _check_query(query, memory, score)
    batch, steps, _ = query.shape
    source_length = memory.mask.shape[1]
    full = (batch, steps, source_length)
    allowed = memory.mask.unsqueeze(1)
    if mask is not None:
        masks.check_broadcasts(mask, "mask", full)
        allowed = allowed & masks.checked(mask, "mask")
    if bias is not None:
        masks.check_broadcasts(bias, "bias", full)
        if not bias.is_floating_point():
            raise TypeError(f"bias has dtype {bias.dtype}; expected floats. Use mask= for bools.")
        # Else a row of -inf alone would be NaN.
        allowed = allowed & (bias != -torch.inf)
    if positions is None:
        positions = torch.arange(steps, device=query.device).expand(batch, steps)
    _check_positions(positions, batch, steps)
    broken = None if memory.broken is None else memory.broken.unsqueeze(1)
    located = window.locate(query, positions, memory.lengths)
    _check_coverage(coverage, score, located is None, full)
    if located is None and coverage is None and not dropout and not need_weights:
        context = score.context(query, memory.keys, memory.values, allowed, bias)
        context = _broken_where_seen(context, broken, allowed)
        weights = band_start = None
    elif located is None:
        scores = biased(_scores(score, query, memory, coverage), bias)
        scores = _broken_where_seen(scores, broken, allowed)
        context, weights = _weighed(scores, memory.values, allowed, dropout)
        band_start = None
    else:
        half_width, centres, points = located
        band_start = centres - half_width
        offsets = torch.arange(2 * half_width + 1, device=query.device)
        slots = band_start.unsqueeze(-1) + offsets
        inside = (slots >= 0) & (slots < source_length)
        scores = score.banded(query, memory.keys, centres, half_width)
        if bias is not None:
            scores = scores + _under_band(bias.to(scores.dtype), slots, source_length)
        allowed = _under_band(allowed, slots, source_length) & inside
        if broken is not None:
            broken = _under_band(broken, slots, source_length)
        scores = _broken_where_seen(scores, broken, allowed)
        weights = masked_softmax(scores, allowed)
        if points is not None:
            sigma = half_width / 2
            distance = slots - points.unsqueeze(-1)
            weights = weights * torch.exp(-(distance**2) / (2 * sigma**2))
        dropped = functional.dropout(weights, dropout)
        context = kernels.local_context(dropped, memory.values, centres)
    context = context.to(torch.promote_types(query.dtype, memory.values.dtype))
    return AttentionOutput(context, weights if need_weights else None, band_start)


def attend(
    query: Tensor,
    key: Tensor,
    value: Tensor | None = None,
    *,
    score: str | Score = "scaled-dot",
    window: str | Window = "global",
    half_width: int = 10,
    lengths: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    positions: Tensor | None = None,
    dropout: float = 0.0,
    need_weights: bool = True,
) -> AttentionOutput:
    """Attend in one call, with nothing kept.

    Args:
        query: (B, T, q).
        key: (B, S, k).
        value: (B, S, v); the keys by default.
        score: "dot" or "scaled-dot", or a `Score` that holds its own parameters.
        window: "global" or "local-m", or a `Window`.
        half_width: D of a window given by name.
        lengths: Absolute source lengths (B,), 0 allowed.
        mask: Bool, broadcastable to (B, T, S), True = may attend.
        bias: Float, added to the scores, broadcastable to (B, T, S).
        positions: The time step of each query, integers (B, T); 0..T-1 by default.
        dropout: Share of the weights dropped, after they are normalised.
        need_weights: False: `weights` of the result is None.

    Returns:
        Context (B, T, v), weights, and band_start of a local window.

    Raises:
        ValueError: Shapes do not fit, or a score or window by name would need parameters.
        TypeError: The mask is not bool.

    Example:
        >>> attend(torch.zeros(1, 1, 2), torch.ones(1, 3, 2)).weights
        tensor([[[0.3333, 0.3333, 0.3333]]])
    """
    if isinstance(score, str) and score in SCORES and score not in ("dot", "scaled-dot", "none"):
        raise ValueError(f"score '{score}' has parameters: pass a Score object, or use Attention.")
    if window == "local-p":
        raise ValueError("window 'local-p' has parameters: pass a LocalPredictive object.")
    score = make_score(score, query.shape[-1], key.shape[-1])
    memory = prepare(score, key, value, lengths=lengths)
    return attend_memory(
        query,
        memory,
        score=score,
        window=make_window(window, half_width, query.shape[-1]),
        positions=positions,
        mask=mask,
        bias=bias,
        dropout=dropout,
        need_weights=need_weights,
    )


def _scores(score: Score, query: Tensor, memory: Memory, coverage: Tensor | None) -> Tensor:
    """Scores of the whole source (B, T, S)."""
    if coverage is None:
        return score.scores(query, memory.keys)
    return score.covered(query, memory.keys, coverage)


def _weighed(
    scores: Tensor, values: Tensor, allowed: Tensor, dropout: float
) -> tuple[Tensor, Tensor]:
    """The context of a global window, and the weights before dropout."""
    if not dropout:
        return kernels.softmax_context(scores, values, allowed)
    weights = masked_softmax(scores, allowed)
    return kernels.global_context(functional.dropout(weights, dropout), values), weights


def _known_finite(keys: Tensor, values: Tensor) -> bool:
    """Whether all is finite, as far as one may look: what is broken need not be looked for then."""
    # On other devices the look would wait for the device, and what traces cannot look at all.
    plain = type(keys) is Tensor and keys.is_cpu and not torch.compiler.is_compiling()
    if not plain or plain_torch() is not None:
        return False
    # A sum of what is not finite never is; one that overflows only costs a closer look.
    tensors = (keys,) if values is keys else (keys, values)
    return all(math.isfinite(tensor.detach().sum().item()) for tensor in tensors)


def _broken_where_seen(rows: Tensor, broken: Tensor | None, allowed: Tensor) -> Tensor:
    """Rows (B, T, n), NaN where they see a broken position."""
    if broken is None:
        return rows
    seen = (broken & allowed).any(-1, keepdim=True)
    return rows + rows.new_zeros(seen.shape).masked_fill(seen, torch.nan)


def _under_band(full: Tensor, slots: Tensor, source_length: int) -> Tensor:
    """Entries (B, T, 2D+1) of a tensor that broadcasts to (B, T, S); any value outside."""
    if source_length == 0:
        return full.new_zeros(slots.shape)
    full = full.expand(*slots.shape[:-1], source_length)
    return full.gather(-1, slots.clamp(0, source_length - 1))


def _check_source(score: Score, keys: Tensor, values: Tensor) -> None:
    if keys.dim() != 3 or keys.shape[-1] != score.key_size:
        raise ValueError(
            f"keys have shape {tuple(keys.shape)}; expected (B, S, k) with k = {score.key_size}."
        )
    if values.dim() != 3 or values.shape[:2] != keys.shape[:2]:
        raise ValueError(
            f"values have shape {tuple(values.shape)}; expected (B, S, v) with "
            f"(B, S) = {tuple(keys.shape[:2])} as in keys."
        )


def _check_query(query: Tensor, memory: Memory, score: Score) -> None:
    batch = memory.mask.shape[0]
    if query.dim() != 3 or query.shape[-1] != score.query_size or query.shape[0] != batch:
        raise ValueError(
            f"query has shape {tuple(query.shape)}; expected (B, T, q) with B = {batch} and "
            f"q = {score.query_size}. One query a source is (B, 1, q)."
        )


def _check_positions(positions: Tensor, batch: int, steps: int) -> None:
    if positions.is_floating_point() or positions.dtype == torch.bool:
        raise TypeError(f"positions have dtype {positions.dtype}; expected integers (B, T).")
    if positions.shape != (batch, steps):
        raise ValueError(
            f"positions have shape {tuple(positions.shape)}; expected (B, T) = {(batch, steps)}."
        )


def _check_coverage(
    coverage: Tensor | None, score: Score, whole_source: bool, full: tuple[int, int, int]
) -> None:
    if (coverage is not None) != score.covers:
        raise ValueError(
            "a score made with coverage=True needs coverage=, and another takes none: the sum of "
            "the weights of all steps before, zeros at the first."
        )
    if coverage is None:
        return
    if not whole_source:
        raise ValueError("coverage is of the whole source: use window='global' with it.")
    if coverage.shape != full:
        raise ValueError(
            f"coverage has shape {tuple(coverage.shape)}; expected (B, T, S) = {full}."
        )


def _warn_max_length(max_length: int, source_length: int) -> None:
    if max_length not in _warned_max_length:
        _warned_max_length.add(max_length)
        logger.warning(
            "a source has %d positions, but the location score knows %d: those beyond are "
            "never attended. A larger max_length mends it.",
            source_length,
            max_length,
        )
