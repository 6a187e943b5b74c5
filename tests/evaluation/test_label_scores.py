import pytest

from luong.evaluation.classification import classification_scores


def test_one_label_a_document():
    expected = ["a", "a", "a", "b", "b", "c"]
    found = ["a", "a", "b", "b", "c", "c"]
    scores = classification_scores([[x] for x in found], [[x] for x in expected], "abc")
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.confusion == [[2, 1, 0], [0, 1, 1], [0, 0, 1]]
    # a: P 1, R 2/3; b: P 1/2, R 1/2; c: P 1/2, R 1.
    assert scores.macro_f1 == pytest.approx((0.8 + 0.5 + 2 / 3) / 3)


def test_labels_that_the_model_does_not_know_are_wrong():
    scores = classification_scores([["a"], ["a"]], [["a"], ["z"]], ["a", "b"])
    assert scores.labels == ["a", "b", "z"]
    assert scores.accuracy == 0.5
    assert scores.confusion == [[1, 0, 0], [0, 0, 0], [1, 0, 0]]
    # b is neither expected nor found, and does not count.
    assert scores.macro_f1 == pytest.approx((2 / 3 + 0) / 2)


def test_several_labels_a_document():
    found = [["a", "b"], [], ["b"]]
    expected = [["b", "a"], [], ["a", "b"]]
    scores = classification_scores(found, expected, ["a", "b"], multi_label=True)
    assert scores.accuracy == pytest.approx(2 / 3)
    assert scores.confusion == [[[1, 0], [1, 1]], [[1, 0], [0, 2]]]
    assert scores.macro_f1 == pytest.approx((2 / 3 + 1) / 2)


def test_nothing_to_score():
    with pytest.raises(ValueError, match="0 documents against 0"):
        classification_scores([], [], ["a"])
    with pytest.raises(ValueError, match="1 documents against 2"):
        classification_scores([["a"]], [["a"], ["b"]], ["a", "b"])
