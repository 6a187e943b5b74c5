"""The attention layer: any score function, any window, and nothing kept between calls."""

from __future__ import annotations

from torch import Tensor, nn

from luong.attention.functional import attend_memory, prepare
from luong.attention.memory import AttentionOutput, Memory
from luong.attention.scores import Score, make_score
from luong.attention.windows import Window, make_window


class Attention(nn.Module):
    """Attention of queries to a source (Bahdanau 2015; Luong 2015).

    The layer holds parameters and nothing else: what depends on a source is the `Memory` that
    `prepare` gives and the caller passes on.

    Args:
        query_size: q, the size of a query.
        key_size: k, the size of a key.
        value_size: v, the size of a value; key_size by default.
        score: A name of `scores.SCORES`, or a `Score`.
        attention_size: n of `concat` and `additive` and of the predictor of local-p; query_size
            by default.
        max_length: Source positions that the `location` score knows.
        window: "global", "local-m", "local-p", or a `Window`.
        half_width: D of the local windows, which span 2D+1 positions.
        dropout: Dropout on the normalised weights, in training.
        coverage: The score knows what was attended before (See 2017, equation 11); for `additive`
            and `concat`, and a global window.

    Raises:
        ValueError: A name is unknown, or the sizes do not suit the score.

    Example:
        >>> attention = Attention(4, 6, score="additive", attention_size=8)
        >>> memory = attention.prepare(torch.randn(2, 5, 6), lengths=torch.tensor([5, 3]))
        >>> context, weights, _ = attention(torch.randn(2, 1, 4), memory)
        >>> context.shape, weights.shape
        (torch.Size([2, 1, 6]), torch.Size([2, 1, 5]))
    """

    def __init__(
        self,
        query_size: int,
        key_size: int,
        *,
        value_size: int | None = None,
        score: str | Score = "general",
        attention_size: int | None = None,
        max_length: int | None = None,
        window: str | Window = "global",
        half_width: int = 10,
        dropout: float = 0.0,
        coverage: bool = False,
    ) -> None:
        super().__init__()
        self.score = make_score(
            score,
            query_size,
            key_size,
            attention_size=attention_size,
            max_length=max_length,
            coverage=coverage,
        )
        self.window = make_window(window, half_width, query_size, attention_size)
        value_size = key_size if value_size is None else value_size
        self.value_size = value_size if self.score.attends else 0
        """Size of the context."""
        self.dropout = dropout

    def prepare(
        self,
        keys: Tensor,
        values: Tensor | None = None,
        *,
        lengths: Tensor | None = None,
        mask: Tensor | None = None,
    ) -> Memory:
        """Make sources ready, once for all their queries.

        Args:
            keys: (B, S, k).
            values: (B, S, v); the keys by default.
            lengths: Absolute lengths, integers (B,), 0 allowed.
            mask: Bool (B, S), True = may attend; holds beside lengths.

        Returns:
            An immutable memory; `.select(rows)` reorders or drops sources.

        Raises:
            ValueError: Shapes do not fit; the message names them.
            TypeError: The mask is not bool, or lengths are not integers.
        """
        return prepare(self.score, keys, values, lengths=lengths, mask=mask)

    def forward(
        self,
        query: Tensor,
        memory: Memory,
        *,
        positions: Tensor | None = None,
        mask: Tensor | None = None,
        bias: Tensor | None = None,
        coverage: Tensor | None = None,
        need_weights: bool = True,
    ) -> AttentionOutput:
        """Attend.

        A row with nothing to attend gets zero weights and a zero context. A masked key takes no
        part at all: NaN in it changes nothing.

        Args:
            query: (B, T, q). In beam search the beams of a source are its T query rows.
            memory: From `prepare`.
            positions: The time step of each query row, integers (B, T), which local-m goes by;
                0..T-1 by default.
            mask: Bool, broadcastable to (B, T, S), True = may attend.
            bias: Float, added to the scores, broadcastable to (B, T, S).
            coverage: The sum of the weights of all steps before (B, T, S), for a score that knows
                coverage.
            need_weights: False: `weights` of the result is None, and a global window need not
                make them.

        Returns:
            Context (B, T, v); weights before dropout, (B, T, S) or the band (B, T, 2D+1) of a
            local window; band_start (B, T) of a local window.
        """
        return attend_memory(
            query,
            memory,
            score=self.score,
            window=self.window,
            positions=positions,
            mask=mask,
            bias=bias,
            coverage=coverage,
            dropout=self.dropout if self.training else 0.0,
            need_weights=need_weights,
        )
