"""Alignment error rate, against numbers worked out by hand."""

from pathlib import Path

import pytest

from luong.errors import UserError
from luong.evaluation import GoldAlignment, alignment_scores, read_gold


def gold(tmp_path: Path, text: str) -> list[GoldAlignment]:
    path = tmp_path / "gold.align"
    path.write_text(text, encoding="utf-8")
    return read_gold(path)


def test_links_are_read(tmp_path):
    first, second, third = gold(tmp_path, "0-0 1?2 10-3\n\n2?2 2-2\n")
    assert first.sure == {(0, 0), (10, 3)}
    assert first.possible == {(0, 0), (10, 3), (1, 2)}
    assert second == (set(), set())
    assert third == ({(2, 2)}, {(2, 2)})


@pytest.mark.parametrize("link", ["1:2", "1-", "a-b", "1-2-3", "-1-2"])
def test_what_is_no_link_is_named(tmp_path, link):
    with pytest.raises(UserError, match=f"line 2: '{link}' is no link"):
        gold(tmp_path, f"0-0\n0-0 {link}\n")


def test_by_hand(tmp_path):
    answers = [[(0, 0), (1, 1), (2, 2)], [(0, 1)], []]
    truth = gold(tmp_path, "0-0 1?1 3-3\n0-0\n5-5\n")
    # |A| = 4, |S| = 4, of A one is sure and two are possible.
    scores = alignment_scores(answers, truth)
    assert scores.precision == 2 / 4
    assert scores.recall == 1 / 4
    assert scores.error_rate == 1 - (1 + 2) / (4 + 4)


def test_where_all_links_are_sure_it_is_one_minus_f(tmp_path):
    scores = alignment_scores([[(0, 0), (1, 1), (2, 1)]], gold(tmp_path, "0-0 1-1\n"))
    f_score = 2 * scores.precision * scores.recall / (scores.precision + scores.recall)
    assert scores.error_rate == pytest.approx(1 - f_score)


def test_the_extremes(tmp_path):
    truth = gold(tmp_path, "0-0 1?1\n")
    assert alignment_scores([[(0, 0)]], truth).error_rate == 0
    assert alignment_scores([[(0, 0), (1, 1)]], truth).error_rate == 0
    assert alignment_scores([[(4, 4)]], truth).error_rate == 1
    assert alignment_scores([[]], truth).error_rate == 1
    assert alignment_scores([], []).error_rate == 0


def test_unequal_numbers_are_refused(tmp_path):
    with pytest.raises(UserError, match="2 sentence pairs and 1 lines"):
        alignment_scores([[], []], gold(tmp_path, "0-0\n"))
