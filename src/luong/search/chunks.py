"""Source lines on their way to the model: read, cut, and gathered in chunks and batches."""

from __future__ import annotations

import logging
import re
from collections.abc import Generator, Iterable, Iterator
from typing import NamedTuple

from luong.search.settings import SearchSettings
from luong.text.tokenizers import Tokenizer

logger = logging.getLogger("luong")

_BATCHES_AHEAD = 64  # lines are read and sorted by length in chunks of so many batches
_CHUNK_CELLS = 2**25  # and a chunk's attention holds at most about so many numbers
_BATCH_POSITIONS = 64  # source positions of a batch, padding counted, per sentence of its size
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


class Source(NamedTuple):
    """A line as the model reads it.

    Attributes:
        line: The line without its line break.
        ids: Its tokens; none for a line that is not to be shown to the model.
        spans: Where each token lies in the line.
        cut: Whether it had more tokens than allowed.
    """

    line: str
    ids: list[int]
    spans: list[tuple[int, int]]
    cut: bool


def read_chunks(
    lines: Iterable[str], tokenizer: Tokenizer, settings: SearchSettings
) -> Generator[list[Source], None, None]:
    r"""Tokenise a stream of lines and gather it in chunks whose results fit in memory.

    Lines that had to be cut are counted in one warning when the iterator ends or is closed.

    Args:
        lines: Lines, with or without their line breaks.
        tokenizer: Reads them.
        settings: Of the translation that is to follow.

    Example:
        >>> [[source.line for source in chunk] for chunk in read_chunks(["a\n", "b"], *rest)]
        [['a', 'b']]
    """
    chunk: list[Source] = []
    cells = cut = 0
    try:
        for line in lines:
            source = _read(line, tokenizer, settings.max_source_length)
            cut += source.cut
            chunk.append(source)
            length = len(source.ids)
            cells += settings.n_best * length * settings.max_length(length)
            if len(chunk) >= _BATCHES_AHEAD * settings.sentences or cells >= _CHUNK_CELLS:
                yield chunk
                chunk, cells = [], 0
        if chunk:
            yield chunk
    finally:
        if cut:
            logger.warning(
                "%d source line%s had more than %d tokens and %s cut to that length. Raise "
                "max_source_length, or split long lines into sentences.",
                *(cut, "" if cut == 1 else "s"),
                *(settings.max_source_length, "was" if cut == 1 else "were"),
            )


def _read(line: str, tokenizer: Tokenizer, max_length: int) -> Source:
    line = _LONE_SURROGATE.sub("\ufffd", line.removesuffix("\n").removesuffix("\r"))
    if not line.strip():
        return Source(line, [], [], cut=False)
    ids, spans = tokenizer.encode(line)
    return Source(line, ids[:max_length], spans[:max_length], cut=len(ids) > max_length)


def batch_places(chunk: list[Source], size: int) -> Iterator[list[int]]:
    """Group the places of lines that have tokens, longest first, so that batches fit in memory.

    Args:
        chunk: Lines.
        size: Most sentences in a batch.

    Returns:
        For each batch the places of its lines in the chunk.

    Example:
        >>> list(batch_places(chunk_of_lengths_3_0_5, size=1))
        [[2], [0]]
    """
    lengths = [len(source.ids) for source in chunk]
    batch: list[int] = []
    for place in sorted(
        filter(lengths.__getitem__, range(len(lengths))), key=lambda x: -lengths[x]
    ):
        longest = lengths[batch[0]] if batch else 0
        if len(batch) == size or (len(batch) + 1) * longest > size * _BATCH_POSITIONS:
            yield batch
            batch = []
        batch.append(place)
    if batch:
        yield batch
