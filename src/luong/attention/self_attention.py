"""Self-attention: the positions of a sequence attend to each other."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from luong.attention import masks
from luong.attention.layer import Attention
from luong.attention.positions import RelativePositions, sinusoidal_positions
from luong.attention.scores import Score
from luong.errors import nearest

POSITIONS = ("none", "sinusoidal", "relative")


class SelfAttentionOutput(NamedTuple):
    """What self-attention gives.

    Attributes:
        states: (B, S, size), or (B, S, d2) without an output projection.
        weights: Of each head, before dropout (B, heads, S, S); row t is what position t attends
            to. None if they were not asked for.
    """

    states: Tensor
    weights: Tensor | None


class SelfAttention(nn.Module):
    """Self-attention with one or more heads and any score function (Vaswani 2017, section 3.2).

    Q = X W_Q, K = X W_K, V = X W_V, each split over the heads; every head attends with its own
    part, and W_O joins them again. With score="scaled-dot" and equal sizes this is
    `torch.nn.MultiheadAttention`. The parameters of a score, such as v of `additive`, are shared
    by the heads, which differ by their parts of W_Q and W_K.

    Args:
        size: Of the inputs (d1).
        key_size: Columns of W_Q and W_K over all heads (d3); size by default. A `Score` given as
            an object decides it.
        value_size: Columns of W_V over all heads (d2); size by default.
        heads: Number of heads.
        score: A name of `scores.SCORES`, or a `Score` for the queries and keys of one head.
        attention_size: n of `concat` and `additive`; key_size / heads by default.
        max_length: Positions that the `location` score knows.
        causal: Position t attends to s <= t only.
        positions: "none"; "sinusoidal", added to the inputs; "relative", a learned number for
            each distance up to 16, added to the scores; or a `RelativePositions` of your own.
        bias: The projections have biases.
        output_projection: W_O maps the joined heads to size; False leaves them as they are.
        dropout: Dropout on the normalised weights, in training.

    Raises:
        ValueError: A name is unknown, or sizes do not suit the heads or the score.

    Example:
        >>> layer = SelfAttention(8, key_size=4, value_size=6, heads=2, score="additive")
        >>> states, weights = layer(torch.randn(2, 5, 8), lengths=torch.tensor([5, 3]))
        >>> states.shape, weights.shape
        (torch.Size([2, 5, 8]), torch.Size([2, 2, 5, 5]))
    """

    def __init__(
        self,
        size: int,
        *,
        key_size: int | None = None,
        value_size: int | None = None,
        heads: int = 1,
        score: str | Score = "scaled-dot",
        attention_size: int | None = None,
        max_length: int | None = None,
        causal: bool = False,
        positions: str | RelativePositions = "none",
        bias: bool = True,
        output_projection: bool = True,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        key_size = size if key_size is None else key_size
        value_size = size if value_size is None else value_size
        _check_heads("value_size", value_size, heads)
        if not isinstance(score, Score):
            _check_heads("key_size", key_size, heads)
        self.attention = Attention(
            key_size // heads,
            key_size // heads,
            value_size=value_size // heads,
            score=score,
            attention_size=attention_size,
            max_length=max_length,
            dropout=dropout,
        )
        if not self.attention.score.attends:
            raise ValueError("score='none' attends to nothing, so self-attention cannot use it.")
        self.size = size
        self.heads = heads
        self.causal = causal
        self.query = nn.Linear(size, heads * self.attention.score.query_size, bias)
        self.key = nn.Linear(size, heads * self.attention.score.key_size, bias)
        self.value = nn.Linear(size, value_size, bias)
        self.output = nn.Linear(value_size, size, bias) if output_projection else nn.Identity()
        for part in (self.query, self.key, self.value, self.output):
            if isinstance(part, nn.Linear):
                nn.init.xavier_uniform_(part.weight)
                if bias:
                    nn.init.zeros_(part.bias)
        self.waves = positions == "sinusoidal"
        self.relative = _relative(positions, heads)

    def forward(
        self,
        states: Tensor,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> SelfAttentionOutput:
        """Attend.

        Positions beyond a length neither attend nor are attended. Their rows, and those of a
        position that may attend to nothing, are zeros, whatever the biases.

        Args:
            states: The sequence X (B, S, size).
            lengths: Absolute lengths, integers (B,), 0 allowed.
            mask: Bool, broadcastable to (B, T, S) with T = S, True = t may attend to s; holds
                beside lengths and causal.
            need_weights: False: `weights` is None. Dot products without relative positions and
                dropout then never store them.

        Returns:
            The new states, and the weights of each head.

        Raises:
            ValueError: Shapes do not fit; the message names them.
            TypeError: The mask is not bool, or lengths are not integers.

        Example:
            >>> layer = SelfAttention(8, heads=2, causal=True)
            >>> states, _ = layer(torch.randn(1, 5, 8), need_weights=False)
        """
        if states.dim() != 3 or states.shape[-1] != self.size:
            raise ValueError(
                f"states have shape {tuple(states.shape)}; expected (B, S, {self.size})."
            )
        batch, length, _ = states.shape
        present = masks.combined(lengths, None, batch, length, states.device)
        if lengths is not None:
            lengths = lengths.to(states.device).repeat_interleave(self.heads)
        # What stands in padding would reach the gradients of the projections.
        inputs = states.masked_fill(~present.unsqueeze(-1), 0.0)
        if self.waves:
            inputs = inputs + sinusoidal_positions(
                length, self.size, dtype=inputs.dtype, device=inputs.device
            )
        memory = self.attention.prepare(
            self._folded(self.key(inputs)), self._folded(self.value(inputs)), lengths=lengths
        )
        allowed = self._allowed(mask, batch, length, states.device)
        if allowed is not None:
            keys = memory.mask.view(batch, self.heads, length)[:, :1]
            present = present & (allowed & keys).any(-1)
            if allowed.dim() == 3 and len(allowed) > 1:
                allowed = allowed.repeat_interleave(self.heads, 0)
        result = self.attention(
            self._folded(self.query(inputs)),
            memory,
            mask=allowed,
            bias=None if self.relative is None else self.relative(length).repeat(batch, 1, 1),
            need_weights=need_weights,
        )
        joined = result.context.unflatten(0, (batch, self.heads)).transpose(1, 2).flatten(2)
        nothing = ~present
        output = self.output(joined).masked_fill(nothing.unsqueeze(-1), 0.0).to(states.dtype)
        weights = result.weights
        if weights is not None:
            weights = weights.unflatten(0, (batch, self.heads))
            weights = weights.masked_fill(nothing.view(batch, 1, length, 1), 0.0)
        return SelfAttentionOutput(output, weights)

    def _folded(self, projected: Tensor) -> Tensor:
        """Heads become rows of the batch: (B, S, heads * n) to (B * heads, S, n)."""
        batch, length, width = projected.shape
        parts = projected.view(batch, length, self.heads, width // self.heads)
        return parts.transpose(1, 2).flatten(0, 1)

    def _allowed(
        self, mask: Tensor | None, batch: int, length: int, device: torch.device
    ) -> Tensor | None:
        """What mask and causality leave, broadcastable to (B, T, S); None: all."""
        allowed = None
        if self.causal:
            allowed = torch.ones(length, length, dtype=torch.bool, device=device).tril()
        if mask is not None:
            masks.check_broadcasts(mask, "mask", (batch, length, length))
            masks.checked(mask, "mask")
            allowed = mask if allowed is None else allowed & mask
        return allowed


def _relative(positions: str | RelativePositions, heads: int) -> RelativePositions | None:
    if isinstance(positions, RelativePositions):
        if positions.heads != heads:
            raise ValueError(f"positions are for {positions.heads} heads, but heads is {heads}.")
        return positions
    if positions not in POSITIONS:
        raise ValueError(f"'{positions}' are no positions.{nearest(positions, POSITIONS)}")
    return RelativePositions(heads) if positions == "relative" else None


def _check_heads(name: str, size: int, heads: int) -> None:
    if heads < 1 or size % heads:
        raise ValueError(
            f"{name} is {size}, which cannot be split over {heads} heads. Choose a multiple."
        )
