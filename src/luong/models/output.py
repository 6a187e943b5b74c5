"""The output layer: from attentional states to a score for every word of the target."""

from __future__ import annotations

from torch import Tensor, nn

from luong.models.quantized_matrix import linear


class OutputLayer(nn.Module):
    """p(y_t) = softmax(W_s h~_t) (Luong 2015, equation 6).

    With tied embeddings W_s = E P: E the target embeddings (V, e), P from hidden to embedding
    size (Press and Wolf 2017), so the logits are E (P h~) + b.

    Args:
        hidden_size: H.
        vocabulary_size: V.
        embedding: The embedding to share, or None.
    """

    def __init__(
        self, hidden_size: int, vocabulary_size: int, embedding: nn.Embedding | None
    ) -> None:
        super().__init__()
        if embedding is None:
            self.projection = None
            self.logits = nn.Linear(hidden_size, vocabulary_size)
        else:
            self.projection = nn.Linear(hidden_size, embedding.embedding_dim, bias=False)
            self.logits = nn.Linear(embedding.embedding_dim, vocabulary_size)
            self.logits.weight = embedding.weight

    def forward(self, attentional: Tensor) -> Tensor:
        """Logits (..., V) from attentional states (..., H)."""
        return linear(*self.factors(attentional))

    def factors(self, attentional: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What the logits are made of, for a loss that never holds them all.

        Args:
            attentional: (..., H).

        Returns:
            States x (..., H, or e where embeddings are tied), weight W and bias b: the logits
            are x W^T + b.
        """
        if self.projection is not None:
            attentional = linear(attentional, self.projection.weight)
        return attentional, self.logits.weight, self.logits.bias
