"""ROUGE (Lin 2004) for text in any script: the package rouge-score, on tokens of our own.

Its own tokens are what is left of the lower-cased text without all but a-z and 0-9. Those here are
the same for such text, and keep the letters, digits and marks of all others; where a script puts
no spaces between words (Chinese, Japanese, Thai, Lao, Khmer, Burmese) each character is a token.
"""

from __future__ import annotations

import importlib.util
import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache
from typing import NamedTuple

from luong.errors import UserError

_UNSPACED = re.compile(
    "([々〆\u3040-\u30ff\u31f0-\u31ff\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\uff66-\uff9f"
    "\u0e00-\u0eff\u1000-\u109f\u1780-\u17ff\U00020000-\U0003ffff])"
)


class RougeScores(NamedTuple):
    """Mean F1 over the lines, 0 to 100.

    Attributes:
        rouge1: Of words.
        rouge2: Of pairs of words that follow each other.
        rouge_l: Of the longest common subsequence.
    """

    rouge1: float
    rouge2: float
    rouge_l: float


def check_rouge() -> None:
    """Refuse to go on without the package.

    Raises:
        UserError: rouge-score is not installed.
    """
    if importlib.util.find_spec("rouge_score") is None:
        raise UserError(
            "ROUGE needs the package rouge-score. Install it with: pip install 'luong[summary]'"
        )


def rouge_scores(hypotheses: Sequence[str], references: Sequence[str]) -> RougeScores:
    """Score summaries against one reference each, without stemming.

    Args:
        hypotheses: The output, one string a line.
        references: As many.

    Returns:
        The scores; all are 0 if there are no lines.

    Raises:
        UserError: The two sides have different numbers of lines, or rouge-score is not installed.

    Example:
        >>> rouge_scores(["the small cat"], ["The cat"]).rouge1
        80.0
    """
    check_rouge()
    from rouge_score.rouge_scorer import RougeScorer

    if len(hypotheses) != len(references):
        raise UserError(
            f"There are {len(hypotheses)} hypotheses and {len(references)} references: line n of "
            "one is compared with line n of the other, so both must have as many lines."
        )
    names = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(names, tokenizer=_Tokenizer())
    sums = [0.0, 0.0, 0.0]
    for hypothesis, reference in zip(hypotheses, references, strict=True):
        found = scorer.score(reference, hypothesis)
        sums = [total + found[name].fmeasure for total, name in zip(sums, names, strict=True)]
    return RougeScores(*(100 * total / max(1, len(hypotheses)) for total in sums))


class _Tokenizer:
    """What rouge-score asks for tokens."""

    def tokenize(self, text: str) -> list[str]:
        text = unicodedata.normalize("NFC", text.lower())
        kept = "".join(character if _is_kept(character) else " " for character in text)
        return _UNSPACED.sub(r" \1 ", kept).split()


@lru_cache(maxsize=10_000)
def _is_kept(character: str) -> bool:
    return unicodedata.category(character)[0] in "LNM"
