"""The settings of a translation: width, lengths, batches."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypedDict


class SearchOptions(TypedDict, total=False):
    """The keyword arguments of `Translator`; see `SearchSettings` for what they mean."""

    beam_size: int
    batch_size: int | None
    max_length_ratio: float
    max_length_offset: int
    max_source_length: int
    normalization: str
    alpha: float
    replace_unknown: bool
    shortlist: bool
    min_length: int
    block_ngrams: int


@dataclass(frozen=True)
class SearchSettings:
    """How to translate.

    Attributes:
        beam_size: Hypotheses kept per sentence; 1 is greedy search.
        n_best: How many translations to give per line, at most beam_size.
        batch_size: Most sentences in a batch, 64 by default. A batch also holds at most 64 times
            as many source tokens, so that long lines do not fill the memory.
        max_length_ratio: A translation has at most this many tokens per source token,
        max_length_offset: plus so many.
        max_source_length: Lines of more source tokens are cut, with a warning.
        normalization: "average", "gnmt" or "none", see `length_divisor`.
        alpha: The strength of the length normalisation.
        replace_unknown: Put the source token that it attends to most in place of an unknown one.
        shortlist: Choose each sentence's tokens from its lexical shortlist, see `luong shortlist`.
        min_length: Fewest tokens of a translation, as far as its longest length allows.
        block_ngrams: No so many tokens in a row come twice in a translation; 0: they may.

    Raises:
        ValueError: A number is out of range.

    Example:
        >>> SearchSettings(beam_size=8, n_best=8).batch_size is None
        True
    """

    beam_size: int = 5
    n_best: int = 1
    batch_size: int | None = None
    max_length_ratio: float = 2.0
    max_length_offset: int = 10
    max_source_length: int = 1000
    normalization: str = "average"
    alpha: float = 1.0
    replace_unknown: bool = True
    shortlist: bool = False
    min_length: int = 0
    block_ngrams: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.n_best <= self.beam_size:
            raise ValueError(
                f"n_best must lie between 1 and beam_size ({self.beam_size}), not {self.n_best}"
            )
        if self.sentences < 1 or self.max_source_length < 1:
            raise ValueError("batch_size and max_source_length must be 1 or more")
        if self.max_length_ratio < 0 or self.max_length_offset < 0:
            raise ValueError("max_length_ratio and max_length_offset must be 0 or more")
        if self.min_length < 0 or self.block_ngrams < 0:
            raise ValueError("min_length and block_ngrams must be 0 or more")

    @property
    def sentences(self) -> int:
        """Most sentences in a batch."""
        return 64 if self.batch_size is None else self.batch_size

    def max_length(self, source_length: int) -> int:
        """Most tokens of a translation of so many source tokens, ends not counted."""
        return int(self.max_length_ratio * source_length) + self.max_length_offset
