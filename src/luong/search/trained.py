"""What search needs of a network and of a model folder."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from luong.text.shortlist import Shortlist
from luong.text.tokenizers import Tokenizer


class SearchModel(Protocol):
    """The encoder-decoder that a `Translator` drives.

    One that has `copies`, and it is true, takes what the source tokens are in the target as a
    third argument of `encode`, see `Seq2Seq.encode`.
    """

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Any, Any]:
        """Read sources (B, S), each ending with END, into (memory, state)."""
        ...

    @property
    def step(self) -> Any:
        """`step(tokens, state, memory)` predicts the next tokens, see `beam_search`."""
        ...

    def modules(self) -> Iterator[nn.Module]:
        """All layers, to put them in evaluation mode."""
        ...


class TrainedModel(Protocol):
    """What a `Translator` needs of a model folder."""

    @property
    def model(self) -> SearchModel:
        """The network."""
        ...

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Reads the source lines."""
        ...

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Writes the translations."""
        ...

    @property
    def alignment_row(self) -> str:
        """Which row of attention aligns a token, see `aligned_rows`."""
        ...

    @property
    def device(self) -> torch.device:
        """Where the network lies."""
        ...

    @property
    def shortlist(self) -> Shortlist | None:
        """Which target tokens a source is likely to need."""
        ...


@contextmanager
def evaluating(model: SearchModel) -> Iterator[None]:
    """Put layers that are in training mode in evaluation mode for a while."""
    training = [module for module in model.modules() if module.training]
    for module in training:
        module.training = False
    try:
        yield
    finally:
        for module in training:
            module.training = True
