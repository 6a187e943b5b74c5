"""ROUGE against the package's own tokens where it has some, and for scripts where it has none."""

import pytest
from rouge_score.rouge_scorer import RougeScorer

from luong.errors import UserError
from luong.evaluation import rouge
from luong.evaluation.rouge import rouge_scores

HYPOTHESES = [
    "A plug-in for pytest_cov: don't panic",
    "the cat sat on the mat",
    "",
    "word",
    "C++ (version 1.5) library, GTK+2",
]
REFERENCES = [
    "pytest plugin that doesn't panic",
    "on the mat the cat sat",
    "nothing",
    "Word.",
    "library for C++ version 1.5",
]


def test_ascii_scores_are_those_of_the_package():
    names = ["rouge1", "rouge2", "rougeL"]
    scorer = RougeScorer(names)
    each = [scorer.score(r, h) for h, r in zip(HYPOTHESES, REFERENCES, strict=True)]
    expected = [100 * sum(one[name].fmeasure for one in each) / len(each) for name in names]
    assert list(rouge_scores(HYPOTHESES, REFERENCES)) == pytest.approx(expected)


@pytest.mark.parametrize(
    "text",
    [
        "שָׁלוֹם לְכֻלָּם",
        "東京スカイツリーは高い。",
        "पुस्तकालय में किताबें",
        "Größe für Ångström",
        "ภาษาไทย",
        "한국어 요약 문장",
    ],
)
def test_a_text_in_any_script_is_like_itself(text):
    assert list(rouge_scores([text], [text])) == pytest.approx([100, 100, 100])
    assert rouge_scores(["other words"], [text]).rouge1 == 0.0


def test_scripts_without_spaces_are_compared_by_character():
    # 4 of 5 characters are shared, in pairs 東京, 京は and 青い of 4.
    scores = rouge_scores(["東京は高い"], ["東京は青い"])
    assert scores.rouge1 == pytest.approx(80)
    assert scores.rouge2 == pytest.approx(50)
    assert scores.rouge_l == pytest.approx(80)


def test_marks_stay_with_their_words():
    assert rouge_scores(["मेंढक"], ["में"]).rouge1 == 0.0
    assert rouge_scores(["cafe\u0301"], ["café"]).rouge1 == pytest.approx(100)


def test_no_lines_and_unequal_lines():
    assert rouge_scores([], []) == (0.0, 0.0, 0.0)
    with pytest.raises(UserError, match="2 hypotheses and 1 references"):
        rouge_scores(["a", "b"], ["a"])


def test_without_the_package_it_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(rouge.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'luong\[summary\]'"):
        rouge_scores(["a"], ["a"])
