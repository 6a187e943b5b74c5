"""Pairs of a picture and a caption to train on, and batches of them."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from luong.config import CaptionsConfig
from luong.errors import UserError
from luong.pictures.corpus import CaptionCorpus
from luong.text.batches import Batch, padded, plan
from luong.text.encoding import Tokenizer
from luong.text.vocabulary import BEGIN, END, UNKNOWN


class CaptionDataset:
    """The pairs of a corpus that are trained on.

    Args:
        corpus: The pictures with their captions.
        tokenizer: Of the captions.
        data: The longest caption, and how colours are normalised.
        cells: Of the grid that the model makes of a picture.

    Attributes:
        rows: Which rows of the corpus are kept.
        lengths: Tokens of their captions (N,), the end symbol counted.
        too_long: How many were left out.
        unknown: Share of tokens that are not in the vocabulary, end symbols left out.

    Raises:
        UserError: No pair is left.

    Example:
        >>> dataset = CaptionDataset(corpus, tokenizer, config.data, cells=64)
        >>> dataset.batch(np.array([0, 1])).source.shape
        torch.Size([2, 3, 64, 64])
    """

    def __init__(
        self, corpus: CaptionCorpus, tokenizer: Tokenizer, data: CaptionsConfig, cells: int
    ) -> None:
        self.corpus = corpus
        self.data = data
        self.cells = cells
        encoded = [tokenizer.ids(caption) for _, caption in corpus.rows]
        kept = [row for row, ids in enumerate(encoded) if 0 < len(ids) <= data.max_length]
        self.too_long = len(encoded) - len(kept)
        if not kept:
            raise UserError(
                f"{corpus.name}: none of {len(encoded):,} captions can be trained on. Check the "
                f"file, or raise data.max_length (now {data.max_length} tokens)."
            )
        self.rows = np.array(kept)
        self.ids = [encoded[row] for row in kept]
        self.lengths = np.array([len(ids) + 1 for ids in self.ids])
        tokens = int(self.lengths.sum()) - len(kept)
        self.unknown = sum(ids.count(UNKNOWN) for ids in self.ids) / tokens

    def __len__(self) -> int:
        return len(self.rows)

    def plan(self, *, batch_tokens: int, seed: int, epoch: int) -> list[npt.NDArray[np.int64]]:
        """Group captions of like length into batches, see `luong.text.batches.plan`.

        A cell counts as a source token, so a batch holds at most four times as many of them.
        """
        cells = np.full(len(self), self.cells)
        return plan(cells, self.lengths, batch_tokens=batch_tokens, seed=seed, epoch=epoch)

    def batch(self, positions: npt.NDArray[np.int64]) -> Batch:
        """Some pairs: as `source` the pictures, (B, 3, size, size), as its lengths the cells."""
        rows = self.rows[positions]
        pictures = self.corpus.pictures[[self.corpus.rows[row].picture for row in rows]]
        captions = [self.ids[position] for position in positions]
        return Batch(
            source=normalized(pictures, self.data.mean, self.data.spread),
            source_lengths=torch.full((len(rows),), self.cells),
            target_input=padded([[BEGIN, *ids] for ids in captions]),
            target_output=padded([[*ids, END] for ids in captions]),
            indices=torch.from_numpy(rows),
        )


def normalized(
    pictures: npt.NDArray[np.uint8], mean: Sequence[float], spread: Sequence[float]
) -> Tensor:
    """Bytes as numbers: (value / 255 - mean) / spread of each colour.

    Args:
        pictures: RGB (B, height, width, 3).
        mean: Of the three colours.
        spread: Likewise.

    Returns:
        float32 (B, 3, height, width).

    Example:
        >>> normalized(np.full((1, 2, 2, 3), 255, np.uint8), (0.5,) * 3, (0.5,) * 3).unique()
        tensor([1.])
    """
    scale = 1.0 / (255.0 * np.array(spread, np.float32))
    offset = np.array(mean, np.float32) / np.array(spread, np.float32)
    values = pictures * scale - offset
    return torch.from_numpy(values.astype(np.float32)).permute(0, 3, 1, 2)
