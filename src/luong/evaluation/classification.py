"""How good labels are: accuracy, F1 and the confusion matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple


class ClassificationScores(NamedTuple):
    """How labels compare with what they should be.

    Attributes:
        accuracy: Share of documents whose labels are exactly right, 0 to 1.
        macro_f1: Mean over labels of F1 = 2 TP / (2 TP + FP + FN), 0 to 1; a label that is
            neither expected nor found anywhere does not count.
        labels: The rows and columns of the confusion matrix.
        confusion: Entry [i][j]: documents of label i that were given label j. Where a document
            may have several labels: for each label [[TN, FP], [FN, TP]].
    """

    accuracy: float
    macro_f1: float
    labels: list[str]
    confusion: list[list[int]] | list[list[list[int]]]


def classification_scores(
    found: Sequence[Sequence[str]],
    expected: Sequence[Sequence[str]],
    labels: Sequence[str],
    *,
    multi_label: bool = False,
) -> ClassificationScores:
    """Score the labels of some documents.

    Args:
        found: The labels given to each document.
        expected: Those it should have.
        labels: The labels that the model knows; others that are expected come after them.
        multi_label: Whether a document may have none or several.

    Raises:
        ValueError: There are not as many documents in both, or none.

    Example:
        >>> scores = classification_scores([["a"], ["b"]], [["a"], ["a"]], ["a", "b"])
        >>> scores.accuracy, scores.confusion
        (0.5, [[1, 1], [0, 0]])
    """
    if len(found) != len(expected) or not found:
        raise ValueError(f"{len(found)} documents against {len(expected)}, expected as many, not 0")
    names = list(dict.fromkeys([*labels, *(name for row in expected for name in row)]))
    pairs = [(set(one), set(other)) for one, other in zip(found, expected, strict=True)]
    tables = [_table(name, pairs) for name in names]
    f1 = [
        2 * right / (2 * right + extra + missed)
        for (_, extra), (missed, right) in tables
        if right + extra + missed
    ]
    confusion: list[list[int]] | list[list[list[int]]]
    if multi_label:
        confusion = [[[*row] for row in table] for table in tables]
    else:
        confusion = [
            [sum(row in other and column in one for one, other in pairs) for column in names]
            for row in names
        ]
    return ClassificationScores(
        accuracy=sum(one == other for one, other in pairs) / len(pairs),
        macro_f1=sum(f1) / len(f1) if f1 else 1.0,
        labels=names,
        confusion=confusion,
    )


def _table(
    name: str, pairs: Sequence[tuple[set[str], set[str]]]
) -> tuple[tuple[int, int], tuple[int, int]]:
    """((TN, FP), (FN, TP)) of a label."""
    right = sum(name in found and name in expected for found, expected in pairs)
    extra = sum(name in found for found, _ in pairs) - right
    missed = sum(name in expected for _, expected in pairs) - right
    return (len(pairs) - right - extra - missed, extra), (missed, right)
