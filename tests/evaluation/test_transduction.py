import random
from functools import cache

import pytest

from luong.errors import UserError
from luong.evaluation import edit_distances, transduction_scores
from luong.evaluation import transduction as transduction_module
from luong.text.characters import CharacterTokenizer
from luong.text.symbols import SymbolTokenizer


def brute_force(first, second):
    """The definition: the last symbols are equal, or one of three edits makes them so."""

    @cache
    def distance(i, j):
        if not i or not j:
            return i + j
        return min(
            distance(i - 1, j) + 1,
            distance(i, j - 1) + 1,
            distance(i - 1, j - 1) + (first[i - 1] != second[j - 1]),
        )

    return distance(len(first), len(second))


@pytest.mark.parametrize(
    ("first", "second", "distance"),
    [
        ("kitten", "sitting", 3),
        ("", "", 0),
        ("", "ab", 2),
        ("ab", "", 2),
        ("ab", "ba", 2),
        ("abc", "abc", 0),
        ("intention", "execution", 5),
        ("a", "bcdae", 4),
    ],
)
def test_distances_by_hand(first, second, distance):
    assert edit_distances([first], [second]).tolist() == [distance]


@pytest.mark.parametrize("pairs", [1, 7, 512])
def test_distances_are_those_of_the_definition(monkeypatch, pairs):
    monkeypatch.setattr(transduction_module, "_PAIRS", pairs)
    dice = random.Random(4)
    texts = ["".join(dice.choices("abc", k=dice.choice([0, 1, 2, 5, 9]))) for _ in range(80)]
    others = dice.sample(texts, k=80)
    truth = [brute_force(a, b) for a, b in zip(texts, others, strict=True)]
    assert edit_distances(texts, others).tolist() == truth


def test_no_pairs_have_no_distances():
    assert edit_distances([], []).tolist() == []


def test_rates_by_hand():
    phones = SymbolTokenizer.train(["x aː j"], size=100)
    # Of 10 symbols one is missing, one is replaced and one too many; unknown ones differ, too.
    # A space too many makes a line wrong, but is no symbol.
    hypotheses = ["x aː", "x aː j", "q", "j j", "x aː"]
    references = ["x aː j", "x aː j", "k", "j", " x aː"]
    scores = transduction_scores(hypotheses, references, phones)
    assert scores.word_error_rate == 80
    assert scores.symbol_error_rate == pytest.approx(100 * 3 / 10)


def test_characters_count_where_they_are_the_tokens():
    characters = CharacterTokenizer.train(["ab c"], size=100)
    scores = transduction_scores(["ab c", "abc"], ["ab c", "ab c"], characters)
    assert (scores.word_error_rate, scores.symbol_error_rate) == (50, 100 / 8)


def test_ends():
    characters = CharacterTokenizer.train(["ab"], size=100)
    assert transduction_scores([], [], characters) == (0, 0)
    assert transduction_scores(["ab"], [""], characters) == (100, 200)
    with pytest.raises(UserError, match="1 hypotheses and 2 references"):
        transduction_scores(["a"], ["a", "b"], characters)
