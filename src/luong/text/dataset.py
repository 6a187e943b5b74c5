"""The pairs of a corpus that a model trains on, and what was left out."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from luong.errors import UserError
from luong.text.corpus import ParallelCorpus
from luong.text.encoding import Tokenizer
from luong.text.vocabulary import UNKNOWN

REASONS = ("blank source", "blank target", "source too long", "target too long")
"""Why a pair is left out; the first that holds is counted."""

# Lengths are kept in two bytes, with the end symbol.
_LONGEST = np.iinfo(np.uint16).max - 1


class DatasetSummary(NamedTuple):
    """What a data set keeps and leaves out. Token counts include end symbols."""

    lines: int
    """Pairs in the corpus."""
    kept: int
    """Pairs in the data set."""
    left_out: dict[str, int]
    """Pairs left out, by each of `REASONS`."""
    extra_columns: int
    """Lines of tab-separated files with columns that are not read."""
    source_tokens: int
    """Source tokens of the kept pairs."""
    target_tokens: int
    """Target tokens of the kept pairs."""
    source_unknown_rate: float
    """The share of kept source tokens, without end symbols, that are unknown."""
    target_unknown_rate: float
    """The share of kept target tokens, without end symbols, that are unknown."""
    source_histogram: list[int]
    """Entry n: kept pairs whose source has n tokens."""
    target_histogram: list[int]
    """Entry n: kept pairs whose target has n tokens."""


class Dataset:
    """The pairs of a corpus fit to train on; one pass over the corpus finds them.

    Beside the index of the corpus it holds at most 8 bytes for each line.

    Args:
        corpus: The pairs.
        source_tokenizer: The tokenizer of the source side.
        target_tokenizer: The tokenizer of the target side.
        max_length: The most tokens of a side, end symbol not counted.

    Attributes:
        lines: (N,) uint32; the line numbers, from 0 on, of the pairs that are kept.
        source_lengths: (N,) uint16; their source tokens, end symbol counted.
        target_lengths: (N,) uint16; their target tokens, end symbol counted.
        summary: What was kept and left out.

    Raises:
        UserError: No pair is left.

    Example:
        >>> dataset = Dataset(corpus, source_tokenizer, target_tokenizer, max_length=250)
        >>> dataset.summary.left_out["blank source"]
        0
    """

    def __init__(
        self,
        corpus: ParallelCorpus,
        source_tokenizer: Tokenizer,
        target_tokenizer: Tokenizer,
        max_length: int,
    ) -> None:
        self.corpus = corpus
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        longest = min(max_length, _LONGEST)
        lines = np.empty(len(corpus), np.uint32)
        lengths = np.empty((2, len(corpus)), np.uint16)
        left_out = dict.fromkeys(REASONS, 0)
        unknown = [0, 0]
        kept = 0
        for line, (source, target) in enumerate(corpus):
            source_ids = source_tokenizer.ids(source) if source.strip() else []
            target_ids = target_tokenizer.ids(target) if target.strip() else []
            reason = _reason(len(source_ids), len(target_ids), longest)
            if reason is not None:
                left_out[reason] += 1
                continue
            lines[kept] = line
            lengths[:, kept] = len(source_ids) + 1, len(target_ids) + 1
            unknown[0] += source_ids.count(UNKNOWN)
            unknown[1] += target_ids.count(UNKNOWN)
            kept += 1
        if not kept:
            counts = ", ".join(f"{count:,} {reason}" for reason, count in left_out.items() if count)
            raise UserError(
                f"{corpus.name}: none of {len(corpus):,} pairs can be trained on ({counts}). "
                f"Check the files, or raise data.max_length (now {max_length} tokens)."
            )
        self.lines: npt.NDArray[np.uint32] = lines[:kept].copy()
        self.source_lengths: npt.NDArray[np.uint16] = lengths[0, :kept].copy()
        self.target_lengths: npt.NDArray[np.uint16] = lengths[1, :kept].copy()
        source_tokens, target_tokens = map(int, lengths[:, :kept].sum(axis=1, dtype=np.int64))
        self.summary = DatasetSummary(
            lines=len(corpus),
            kept=kept,
            left_out=left_out,
            extra_columns=corpus.extra_columns,
            source_tokens=source_tokens,
            target_tokens=target_tokens,
            source_unknown_rate=unknown[0] / (source_tokens - kept),
            target_unknown_rate=unknown[1] / (target_tokens - kept),
            source_histogram=np.bincount(self.source_lengths).tolist(),
            target_histogram=np.bincount(self.target_lengths).tolist(),
        )

    def __len__(self) -> int:
        return len(self.lines)

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes, the corpus's included."""
        own = self.lines.nbytes + self.source_lengths.nbytes + self.target_lengths.nbytes
        return own + self.corpus.nbytes


def _reason(source_length: int, target_length: int, longest: int) -> str | None:
    """Why a pair of so many tokens is left out, or None."""
    left_out = (
        source_length == 0,
        target_length == 0,
        source_length > longest,
        target_length > longest,
    )
    return REASONS[left_out.index(True)] if any(left_out) else None
