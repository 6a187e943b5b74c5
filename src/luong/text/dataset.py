"""The pairs of a corpus that a model trains on, and what was left out."""

from __future__ import annotations

from typing import NamedTuple, cast

import numpy as np
import numpy.typing as npt

from luong.errors import UserError
from luong.text.copying import copies_of
from luong.text.corpus import ParallelCorpus
from luong.text.encoding import PieceTokenizer, Tokenizer
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
    sources_cut: int = 0
    """Kept pairs whose source was cut to the tokens that it may have."""


class TokenPair(NamedTuple):
    """A pair as ids, without end symbols."""

    source: list[int]
    target: list[int]
    """What the decoder is fed."""
    output: list[int]
    """What it is to predict: as `target`, but for tokens that only copying the source can give."""
    copies: list[int]
    """The extended target id of each source token, see `copies_of`; none without copying."""


class Dataset:
    """The pairs of a corpus fit to train on; one pass over the corpus finds them.

    Beside the index of the corpus it holds at most 8 bytes for each line.

    Args:
        corpus: The pairs.
        source_tokenizer: The tokenizer of the source side.
        target_tokenizer: The tokenizer of the target side.
        max_length: The most tokens of a side, end symbol not counted.
        max_source_length: Sources are cut to so many tokens first; 0: never.
        copies: Whether the model can copy source tokens.

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
        max_source_length: int = 0,
        copies: bool = False,
    ) -> None:
        self.corpus = corpus
        self.source_tokenizer = source_tokenizer
        self.target_tokenizer = target_tokenizer
        self.copies = copies
        self._source_end = max_source_length or None
        longest = min(max_length, _LONGEST)
        lines = np.empty(len(corpus), np.uint32)
        lengths = np.empty((2, len(corpus)), np.uint16)
        left_out = dict.fromkeys(REASONS, 0)
        unknown = [0, 0]
        kept = cut = 0
        for line, (source, target) in enumerate(corpus):
            source_ids = source_tokenizer.ids(source) if source.strip() else []
            target_ids = target_tokenizer.ids(target) if target.strip() else []
            whole = len(source_ids)
            source_ids = source_ids[: self._source_end]
            reason = _reason(len(source_ids), len(target_ids), longest)
            if reason is not None:
                left_out[reason] += 1
                continue
            lines[kept] = line
            lengths[:, kept] = len(source_ids) + 1, len(target_ids) + 1
            cut += whole > len(source_ids)
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
            sources_cut=cut,
        )

    def __len__(self) -> int:
        return len(self.lines)

    def read(self, line: int) -> TokenPair:
        """The tokens of a line of the corpus."""
        source_line, target_line = self.corpus[line]
        source = self.source_tokenizer.ids(source_line)[: self._source_end]
        target = self.target_tokenizer.ids(target_line)
        if not self.copies:
            return TokenPair(source, target, target, [])
        reader = cast(PieceTokenizer, self.source_tokenizer)
        writer = cast(PieceTokenizer, self.target_tokenizer)
        copies = copies_of(reader.pieces(source_line), writer, len(source))
        aimed = copies.targets(writer.pieces(target_line), writer)
        return TokenPair(source, target, aimed, copies.ids)

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
