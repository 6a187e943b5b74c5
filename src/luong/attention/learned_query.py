"""Learned-query attention: what is looked for is a parameter, not a state."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from luong.attention import masks
from luong.attention.layer import Attention
from luong.attention.scores import Score
from luong.errors import nearest

QUERIES = ("shared", "per-step")


class LearnedQueryOutput(NamedTuple):
    """What learned queries found.

    Attributes:
        context: (B, views, size) of shared queries; all s_t (B, S, size) of per-step ones.
        weights: Before dropout, (B, views, S) or (B, S, S). None if they were not asked for.
        last: s_t of the last position of each sequence (B, size), for per-step queries; else None.
    """

    context: Tensor
    weights: Tensor | None
    last: Tensor | None


class LearnedQueryAttention(nn.Module):
    """Attention of learned queries to a sequence.

    With u_i = tanh(W h_i + b), the weights are a softmax over i of score(u, u_i), and the context
    is their sum over the states h_i.

    - queries="shared": one u pools a sequence to a vector (Yang 2016, equations 5 to 7). With r
      views there are r of them (Lin 2017), which `orthogonality_penalty` keeps apart. The context
      is (B, r, size) for every r; `context.flatten(1)` is the vector of a sequence.
    - queries="per-step": a vector u_t for each step. Step t attends to the states i <= t, and its
      context is s_t.

    Args:
        size: Of a state h_i.
        queries: "shared" or "per-step".
        views: Number r of shared queries.
        score: A name of `scores.SCORES`, or a `Score` that takes u for a query and u_i for keys.
        attention_size: Size n of u_i; size by default. A `Score` given as an object decides it.
        max_length: Steps that have a query, for "per-step"; positions that the `location` score
            knows.
        dropout: Dropout on the normalised weights, in training.

    Raises:
        ValueError: A name is unknown, or the settings contradict each other.

    Example:
        >>> pool = LearnedQueryAttention(6, views=2)
        >>> context, weights, _ = pool(torch.randn(3, 5, 6), lengths=torch.tensor([5, 2, 0]))
        >>> context.shape, weights.shape
        (torch.Size([3, 2, 6]), torch.Size([3, 2, 5]))
    """

    def __init__(
        self,
        size: int,
        *,
        queries: str = "shared",
        views: int = 1,
        score: str | Score = "dot",
        attention_size: int | None = None,
        max_length: int | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        count = _count(queries, views, max_length)
        attention_size = attention_size or size
        self.attention = Attention(
            attention_size,
            attention_size,
            value_size=size,
            score=score,
            max_length=max_length,
            dropout=dropout,
        )
        score = self.attention.score
        if not score.attends:
            raise ValueError("score='none' attends to nothing, so it cannot use a learned query.")
        self.size = size
        self.per_step = queries == "per-step"
        self.hidden = nn.Linear(size, score.key_size)
        self.queries = nn.Parameter(torch.empty(count, score.query_size))
        nn.init.xavier_uniform_(self.hidden.weight)
        nn.init.zeros_(self.hidden.bias)
        bound = score.query_size**-0.5
        nn.init.uniform_(self.queries, -bound, bound)

    def forward(
        self,
        states: Tensor,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
        need_weights: bool = True,
    ) -> LearnedQueryOutput:
        """Attend.

        An empty sequence gives zeros. With "per-step", so do the rows beyond the last position
        of a sequence.

        Args:
            states: h (B, S, size).
            lengths: Absolute lengths, integers (B,), 0 allowed.
            mask: Bool (B, S), True = may be attended; holds beside lengths.
            need_weights: False: `weights` is None.

        Returns:
            The context, its weights, and the last s_t of per-step queries.

        Raises:
            ValueError: Shapes do not fit, or a sequence has more steps than there are queries.
            TypeError: The mask is not bool, or lengths are not integers.

        Example:
            >>> layer = LearnedQueryAttention(6, queries="per-step", max_length=10)
            >>> layer(torch.randn(3, 5, 6), lengths=torch.tensor([5, 2, 0])).last.shape
            torch.Size([3, 6])
        """
        if states.dim() != 3 or states.shape[-1] != self.size:
            raise ValueError(
                f"states have shape {tuple(states.shape)}; expected (B, S, {self.size})."
            )
        batch, length, _ = states.shape
        if self.per_step and length > len(self.queries):
            raise ValueError(
                f"states have S = {length} steps, but there are queries for max_length = "
                f"{len(self.queries)}. Cut the sequences, or make the layer with a larger one."
            )
        present = masks.combined(lengths, mask, batch, length, states.device)
        # What stands in padding would reach the gradient of W.
        states = states.masked_fill(~present.unsqueeze(-1), 0.0)
        memory = self.attention.prepare(torch.tanh(self.hidden(states)), states, mask=present)
        if not self.per_step:
            query = self.queries.expand(batch, -1, -1)
            result = self.attention(query, memory, need_weights=need_weights)
            return LearnedQueryOutput(result.context, result.weights, None)
        prefix = torch.ones(length, length, dtype=torch.bool, device=states.device).tril()
        query = self.queries[:length].expand(batch, -1, -1)
        result = self.attention(query, memory, mask=prefix, need_weights=need_weights)
        beyond = ~masks.from_lengths(memory.lengths, length).unsqueeze(-1)
        context = result.context.masked_fill(beyond, 0.0)
        weights = None if result.weights is None else result.weights.masked_fill(beyond, 0.0)
        # A row of zeros before the first step is what an empty sequence ends with.
        ends = memory.lengths.view(batch, 1, 1)
        last = functional.pad(context, (0, 0, 1, 0)).take_along_dim(ends, 1).squeeze(1)
        return LearnedQueryOutput(context, weights, last)


def orthogonality_penalty(weights: Tensor) -> Tensor:
    """How far the views of a sequence are from attending to different places.

    P = ||A A^T - I||_F^2 with the weights of the r views as the rows of A (Lin 2017, equation 8).
    It is 0 when every view looks at one position of its own. Added to a loss, usually its mean
    over the batch times a small coefficient, it drives the views apart.

    Args:
        weights: A (..., r, S), as `LearnedQueryAttention` gives them.

    Returns:
        (...), one number a sequence; r for an empty one, whose weights are zeros.

    Example:
        >>> orthogonality_penalty(torch.tensor([[1.0, 0.0], [1.0, 0.0]]))
        tensor(2.)
    """
    views = torch.eye(weights.shape[-2], dtype=weights.dtype, device=weights.device)
    return (weights @ weights.transpose(-1, -2) - views).square().sum((-1, -2))


def _count(queries: str, views: int, max_length: int | None) -> int:
    """How many query vectors the settings ask for."""
    if queries not in QUERIES:
        raise ValueError(f"queries='{queries}' is not known.{nearest(queries, QUERIES)}")
    if views < 1:
        raise ValueError(f"views is {views}; expected at least 1.")
    if queries == "shared":
        return views
    if views > 1:
        raise ValueError(f"views is {views}, but per-step queries have one view. Leave it at 1.")
    if max_length is None:
        raise ValueError("queries='per-step' needs max_length, the steps that have a query.")
    return max_length
