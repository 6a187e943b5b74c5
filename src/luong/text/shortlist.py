"""Lexical shortlists: which target tokens a source sentence is likely to need.

A sentence may use the most frequent target tokens and the best translations of its own tokens. The
translation probabilities p(t | s) come from IBM model 1 (Brown et al. 1993, section 4.1) with an
empty source word, fitted to token pairs by expectation maximisation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import numpy as np
import numpy.typing as npt

from luong.text.vocabulary import BEGIN, END, PAD, UNKNOWN

Ids = npt.NDArray[np.int64]

_CELLS = 2**21  # pairs of tokens that are worked on at once
_EMPTY = PAD  # the id that stands for the empty source word
_ALWAYS = (PAD, UNKNOWN, BEGIN, END)


class Shortlist:
    """The target tokens that each source token brings, and those that every sentence has.

    Args:
        frequent: Target ids that every sentence may use (N,), int32.
        translations: For each source id its best target ids (V, M), int32; PAD fills free places.

    Example:
        >>> shortlist = learn_shortlist([([4, 5], [6, 7])], 8, 8, frequent=1, translations=1)
        >>> tokens, allowed = shortlist.candidates([[4, 5], [5]])
    """

    def __init__(
        self, frequent: npt.NDArray[np.int32], translations: npt.NDArray[np.int32]
    ) -> None:
        self.frequent = frequent
        self.translations = translations

    def candidates(self, sources: Sequence[Sequence[int]]) -> tuple[Ids, npt.NDArray[np.bool_]]:
        """What a batch may use.

        Args:
            sources: The token ids of each sentence.

        Returns:
            The target ids that any of the sentences may use, ascending (n,), the special ones
            first; and which of them each sentence may use itself (B, n).
        """
        size = 1 + max(int(self.frequent.max(initial=END)), int(self.translations.max(initial=END)))
        allowed = np.zeros((len(sources), size), np.bool_)
        allowed[:, self.frequent] = True
        for row, ids in enumerate(sources):
            allowed[row, self.translations[np.asarray(ids, np.int64)]] = True
        allowed[:, _ALWAYS] = True
        tokens = np.flatnonzero(allowed.any(0))
        return tokens, allowed[:, tokens]


def learn_shortlist(
    pairs: Iterable[tuple[Sequence[int], Sequence[int]]],
    source_size: int,
    target_size: int,
    *,
    frequent: int = 200,
    translations: int = 50,
    iterations: int = 4,
) -> Shortlist:
    """Fit IBM model 1 to pairs of sentences and keep its best translations.

    Memory is taken for the pairs, and for each pair of tokens that ever meet in a sentence pair.

    Args:
        pairs: Token ids of both sides.
        source_size: Source tokens, special ones included.
        target_size: Target tokens, special ones included.
        frequent: How many of the most frequent target tokens every sentence may use.
        translations: How many translations a source token brings, frequent tokens not counted.
        iterations: Of expectation maximisation.
    """
    sides = [
        (np.asarray([_EMPTY, *source], np.int64), np.asarray(target, np.int64))
        for source, target in pairs
    ]
    counts = np.zeros(target_size, np.int64)
    keys = np.zeros(0, np.int64)
    for cells, _ in _chunks(sides, target_size):
        keys = np.union1d(keys, cells)
    for _, target in sides:
        np.add.at(counts, target, 1)
    sources, targets = np.divmod(keys, target_size)
    probabilities = np.ones(len(keys))
    for _ in range(iterations):
        expected = np.zeros(len(keys))
        for cells, words in _chunks(sides, target_size):
            places = np.searchsorted(keys, cells)
            found = probabilities[places]
            share = found / np.bincount(words, found)[words]
            expected += np.bincount(places, share, len(keys))
        totals = np.bincount(sources, expected, source_size)
        probabilities = expected / totals[sources]
    common = np.argsort(-counts, kind="stable")
    common = common[counts[common] > 0][:frequent]
    best = np.full((source_size, translations), PAD, np.int32)
    rare = ~np.isin(targets, common) & (sources != _EMPTY)
    sources, targets, probabilities = sources[rare], targets[rare], probabilities[rare]
    order = np.lexsort((targets, -probabilities, sources))
    sources, targets = sources[order], targets[order]
    ranks = np.arange(len(sources)) - np.searchsorted(sources, sources)
    kept = ranks < translations
    best[sources[kept], ranks[kept]] = targets[kept]
    return Shortlist(common.astype(np.int32), best)


def _chunks(sides: list[tuple[Ids, Ids]], target_size: int) -> Iterator[tuple[Ids, Ids]]:
    """Each meeting of two tokens as one number, and the number of the target word it is of."""
    cells: list[Ids] = []
    words: list[Ids] = []
    held = number = 0
    for source, target in sides:
        cells.append((source * target_size + target[:, None]).ravel())
        words.append(np.repeat(np.arange(number, number + len(target)), len(source)))
        number += len(target)
        held += len(source) * len(target)
        if held >= _CELLS:
            yield np.concatenate(cells), np.concatenate(words)
            cells, words, held, number = [], [], 0, 0
    if cells:
        yield np.concatenate(cells), np.concatenate(words)
