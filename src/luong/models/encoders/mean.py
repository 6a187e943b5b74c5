"""The mean encoder: averages, the simplest thing that can be attended to."""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional
from typing_extensions import override

from luong.config import ModelConfig
from luong.models.encoders.encoder import ParallelEncoder


class MeanEncoder(ParallelEncoder):
    """Averages over the words around each position (Gehring 2016, section 3.1).

    State s is the average of the inputs at the `kernel_width` positions around s, as far as they
    lie in the source; the decoder starts from the average of all. Nothing is recurrent and
    nothing is gated: words, where they stand, and one matrix.

    Args:
        config: Sizes, kernel_width, positions and dropout.

    Example:
        >>> encoder = MeanEncoder(ModelConfig(encoder="mean", embedding_size=4, hidden_size=6))
        >>> encoder(torch.randn(2, 5, 4), torch.tensor([5, 3])).final.shape
        torch.Size([2, 1, 6])
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__(config)
        self.kernel_width = config.kernel_width

    @override
    def transform(self, states: Tensor, lengths: Tensor, valid: Tensor) -> Tensor:
        """See `ParallelEncoder.transform`."""
        share = self._averaged(valid.to(states.dtype))
        return self._averaged(states) / share.masked_fill(~valid, 1.0)

    def _averaged(self, states: Tensor) -> Tensor:
        """Over kernel_width positions, those outside counting as zeros."""
        width = self.kernel_width
        pooled = functional.avg_pool1d(states.transpose(1, 2), width, 1, width // 2)
        return pooled.transpose(1, 2)
