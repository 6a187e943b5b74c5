"""Scores of character transduction: what is exactly right, and how far off the rest is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeGuard

import numpy as np
import numpy.typing as npt

from luong.evaluation.metrics import check_counts, exact_match
from luong.text.characters import CharacterTokenizer
from luong.text.encoding import Tokenizer

_PAIRS = 512
"""Pairs whose distances are computed at once."""


class TransductionScores(NamedTuple):
    """How good the output of a transducer is.

    Attributes:
        word_error_rate: Share of lines that are not exactly right, in percent, lower is better:
            what SIGMORPHON's shared tasks call so, where a line is one word or pronunciation.
        symbol_error_rate: Insertions, deletions and substitutions that would mend the lines, in
            percent of the symbols of the references, lower is better; it can exceed 100.
    """

    word_error_rate: float
    symbol_error_rate: float


def is_transducer(target: Tokenizer) -> TypeGuard[CharacterTokenizer]:
    """Whether a model writes character by character or symbol by symbol, by its target tokens."""
    return isinstance(target, CharacterTokenizer)


def transduction_scores(
    hypotheses: Sequence[str], references: Sequence[str], tokenizer: CharacterTokenizer
) -> TransductionScores:
    """Score the output of a transducer.

    Args:
        hypotheses: The output, one string per line.
        references: What it should be, as many.
        tokenizer: Parts both into symbols: of the model, phones or characters.

    Returns:
        The scores; both are 0 if there are no lines. Without a single symbol in the references
        every symbol is one too many: the symbol error rate is then 100 times their number.

    Raises:
        UserError: The two sides have different numbers of lines.

    Example:
        >>> transduction_scores(["x aː", "b"], ["x aː", "p"], phones)
        TransductionScores(word_error_rate=50.0, symbol_error_rate=33.333333333333336)
    """
    check_counts(hypotheses, references)
    # As text, since all unknown symbols have one id.
    sides = [[tokenizer.split(line) for line in lines] for lines in (hypotheses, references)]
    right = exact_match(hypotheses, references)
    edits = int(edit_distances(*sides).sum())
    return TransductionScores(
        100 * (1 - right) if hypotheses else 0.0, 100 * edits / max(1, sum(map(len, sides[1])))
    )


def edit_distances(
    hypotheses: Sequence[Sequence[str]], references: Sequence[Sequence[str]]
) -> npt.NDArray[np.int64]:
    """The fewest insertions, deletions and substitutions between pairs (Levenshtein 1966).

    Args:
        hypotheses: Sequences of symbols.
        references: As many.

    Returns:
        One distance a pair (N,).

    Example:
        >>> edit_distances(["kitten", ""], ["sitting", "ab"]).tolist()
        [3, 2]
    """
    ids: dict[str, int] = {}
    sides = [
        [np.array([ids.setdefault(symbol, len(ids)) for symbol in line], np.int64) for line in side]
        for side in (hypotheses, references)
    ]
    # Lines of like length together, so that a long one does not pad many short ones.
    order = np.argsort([max(map(len, pair)) for pair in zip(*sides, strict=True)], kind="stable")
    distances = np.zeros(len(order), np.int64)
    for start in range(0, len(order), _PAIRS):
        chosen = order[start : start + _PAIRS]
        distances[chosen] = _distances(*([side[index] for index in chosen] for side in sides))
    return distances


def _distances(
    hypotheses: list[npt.NDArray[np.int64]], references: list[npt.NDArray[np.int64]]
) -> npt.NDArray[np.int64]:
    """Row by row of the table of Wagner and Fischer (1974), for all pairs at once."""
    first, first_lengths = _padded(hypotheses, -1)
    second, second_lengths = _padded(references, -2)
    columns = np.arange(second.shape[1] + 1)
    row = np.tile(columns, (len(first), 1))
    last = np.where(first_lengths == 0, second_lengths, 0)
    for done, symbols in enumerate(first.T, 1):
        best = np.empty_like(row)
        best[:, 0] = done
        replaced = row[:, :-1] + (symbols[:, None] != second)
        best[:, 1:] = np.minimum(row[:, 1:] + 1, replaced)
        # Insertions: the least of best[k] + (j - k) over k <= j.
        row = np.minimum.accumulate(best - columns, axis=1) + columns
        ends = np.flatnonzero(first_lengths == done)
        last[ends] = row[ends, second_lengths[ends]]
    return last


def _padded(
    lines: list[npt.NDArray[np.int64]], padding: int
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    lengths = np.array([len(line) for line in lines], np.int64)
    rows = np.full((len(lines), int(lengths.max(initial=0))), padding)
    for row, line in zip(rows, lines, strict=True):
        row[: len(line)] = line
    return rows, lengths
