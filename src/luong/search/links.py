"""From attention between tokens to links between words."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from luong.errors import nearest

ALIGNMENT_ROWS = ("predicted", "fed")
"""Which step's attention aligns a token: the one that predicts it, or the one it is fed to."""


def aligned_rows(attention: Tensor, alignment_row: str) -> Tensor:
    """Take the row of attention that aligns each token of an output.

    Args:
        attention: One row per step, the step that predicts the end symbol last, (T + 1, S).
        alignment_row: "predicted": row t, the step that predicts token t; "fed": row t + 1, the
            step that token t is fed to.

    Returns:
        One row per token, (T, S).

    Raises:
        ValueError: The name is neither.

    Example:
        >>> aligned_rows(torch.eye(3), "fed").argmax(1).tolist()
        [1, 2]
    """
    if alignment_row not in ALIGNMENT_ROWS:
        raise ValueError(
            f"{alignment_row!r} is no alignment row.{nearest(alignment_row, ALIGNMENT_ROWS)}"
        )
    return attention[1:] if alignment_row == "fed" else attention[:-1]


def words_of_tokens(line: str, spans: Sequence[tuple[int, int]]) -> list[int | None]:
    """Give the word that each token lies in; words are `line.split(" ")`, empty ones count.

    Args:
        line: The text that the spans point into.
        spans: First character and the one after the last, of each token.

    Returns:
        For each token the index of the word of its first character that is no space; None for a
        token without one.

    Example:
        >>> words_of_tokens("a  dog", [(0, 1), (1, 2), (2, 6)])
        [0, None, 2]
    """
    word, word_at = 0, []
    for character in line[: max((end for _, end in spans), default=0)]:
        word_at.append(word)
        word += character == " "
    return [
        next((word_at[at] for at in range(start, end) if line[at] != " "), None)
        for start, end in spans
    ]


def word_links(
    attention: Tensor,
    source_line: str,
    source_spans: Sequence[tuple[int, int]],
    target_line: str,
    target_spans: Sequence[tuple[int, int]],
) -> list[tuple[int, int]]:
    """Link each target word to the source word that it attends to most.

    Attention is summed over the tokens of both words: for the choice that a target word makes,
    the sum over its own tokens is as good as their mean. The end symbol of the source takes no
    part.

    Args:
        attention: One row per target token, see `aligned_rows`, (T, S or more); columns beyond
            the source spans are left out.
        source_line: The raw source line.
        source_spans: Character spans of the S source tokens in it, the end symbol left out.
        target_line: The target text.
        target_spans: Character spans of the T target tokens in it.

    Returns:
        Pairs (source word, target word), sorted; words are counted as `words_of_tokens` does. A
        word without tokens, or one that attends to nothing, has no link. Of equally attended
        words the first is linked.

    Example:
        >>> attention = torch.tensor([[0.1, 0.8, 0.1], [0.7, 0.1, 0.2]])
        >>> word_links(attention, "der Hund", [(0, 3), (4, 8)], "dog the", [(0, 3), (4, 7)])
        [(0, 1), (1, 0)]
    """
    source_words, source_tokens, columns = _words_with_tokens(source_line, source_spans)
    target_words, target_tokens, rows = _words_with_tokens(target_line, target_spans)
    if not source_words or not target_words:
        return []
    tokens = attention.cpu().double()[target_tokens][:, source_tokens]
    summed = tokens.new_zeros(len(tokens), len(source_words)).index_add_(1, columns, tokens)
    words = tokens.new_zeros(len(target_words), len(source_words)).index_add_(0, rows, summed)
    matrix = words.numpy()  # whose argmax promises the first of equals
    best = enumerate(matrix.argmax(axis=1).tolist())
    return sorted((source_words[s], target_words[t]) for t, s in best if matrix[t, s] > 0)


def pharaoh(links: Sequence[tuple[int, int]]) -> str:
    """Write links as "source-target" pairs, the format of word aligners.

    Example:
        >>> pharaoh([(0, 0), (1, 2)])
        '0-0 1-2'
    """
    return " ".join(f"{source}-{target}" for source, target in links)


def _words_with_tokens(
    line: str, spans: Sequence[tuple[int, int]]
) -> tuple[list[int], Tensor, Tensor]:
    """The words that have tokens, those tokens, and for each of them its place in the words."""
    pairs = [(at, word) for at, word in enumerate(words_of_tokens(line, spans)) if word is not None]
    words = sorted({word for _, word in pairs})
    places = {word: place for place, word in enumerate(words)}
    tokens = torch.tensor([token for token, _ in pairs], dtype=torch.int64)
    return words, tokens, torch.tensor([places[word] for _, word in pairs], dtype=torch.int64)
