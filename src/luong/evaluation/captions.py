"""How good captions are, of which a picture may have several right ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from luong.evaluation.metrics import validation_scores


class CaptionScores(NamedTuple):
    """How captions compare with what they could be.

    Attributes:
        bleu: Corpus BLEU, 0 to 100; with several references n-grams of any of them count.
        chrf: Character n-gram F-score, 0 to 100; of the best reference.
        exact_match: Share of pictures whose caption is one of the references, 0 to 1.
        signatures: The settings of the first two, as sacreBLEU writes them.
    """

    bleu: float
    chrf: float
    exact_match: float
    signatures: dict[str, str]


def caption_scores(
    captions: Sequence[str],
    references: Sequence[Sequence[str]],
    *,
    target_language: str | None = None,
) -> CaptionScores:
    """Score the captions of some pictures.

    Args:
        captions: One of each picture.
        references: One or more of each picture.
        target_language: Chooses the tokenisation, see `corpus_scores`.

    Raises:
        UserError: There are not as many pictures in both.

    Example:
        >>> caption_scores(["a dog"], [["one dog", "a dog"]]).exact_match
        1.0
    """
    found = validation_scores(captions, references, target_language=target_language)
    right = sum(
        caption.rstrip("\r\n") in {one.rstrip("\r\n") for one in several}
        for caption, several in zip(captions, references, strict=True)
    )
    exact = right / max(1, len(captions))
    return CaptionScores(found.bleu, found.chrf, exact, found.signatures)
