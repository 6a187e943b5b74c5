from __future__ import annotations

import pytest
import torch

from luong.search import aligned_rows, pharaoh, word_links, words_of_tokens


def test_rows() -> None:
    attention = torch.arange(6.0).view(3, 2)
    assert aligned_rows(attention, "predicted").tolist() == [[0, 1], [2, 3]]
    assert aligned_rows(attention, "fed").tolist() == [[2, 3], [4, 5]]
    with pytest.raises(ValueError, match="Did you mean 'predicted'"):
        aligned_rows(attention, "predicte")


def test_empty_words_count() -> None:
    line = " a  b"
    assert line.split(" ") == ["", "a", "", "b"]
    assert words_of_tokens(line, [(1, 2), (4, 5)]) == [1, 3]


def test_only_the_ascii_space_parts_words() -> None:
    line = "a\u00a0b\tc d"
    assert words_of_tokens(line, [(0, 1), (2, 3), (4, 5), (6, 7)]) == [0, 0, 0, 1]


def test_tokens_with_and_of_spaces() -> None:
    assert words_of_tokens("ab cd", [(0, 2), (2, 5), (2, 3), (3, 3)]) == [0, 1, None, None]


def test_subwords_are_summed_on_the_source_side() -> None:
    # The best single token is "Hund", but the two halves of "Haustier" together have more.
    attention = torch.tensor([[0.3, 0.3, 0.4, 0.0]])
    links = word_links(attention, "Haustier Hund", [(0, 4), (4, 8), (9, 13)], "pet", [(0, 3)])
    assert links == [(0, 0)]


def test_subwords_are_taken_together_on_the_target_side() -> None:
    attention = torch.tensor([[0.6, 0.4], [0.1, 0.9], [0.9, 0.1]])
    links = word_links(attention, "a b", [(0, 1), (2, 3)], "xy z", [(0, 1), (1, 2), (3, 4)])
    assert links == [(0, 1), (1, 0)]


def test_end_column_is_never_linked() -> None:
    attention = torch.tensor([[0.1, 0.9], [0.0, 1.0]])
    links = word_links(attention, "a", [(0, 1)], "x y", [(0, 1), (2, 3)])
    assert links == [(0, 0)]  # y attends to nothing but the end


def test_empty_words_on_both_sides() -> None:
    attention = torch.tensor([[0.1, 0.9], [0.8, 0.2]])
    links = word_links(attention, " a  b", [(1, 2), (4, 5)], "x  y", [(0, 1), (3, 4)])
    assert links == [(1, 2), (3, 0)]


def test_nothing_to_link() -> None:
    assert word_links(torch.zeros(0, 3), "a b", [(0, 1), (2, 3)], "", []) == []
    assert word_links(torch.ones(1, 1), "", [], "x", [(0, 1)]) == []


def test_pharaoh() -> None:
    assert pharaoh([(0, 0), (1, 2)]) == "0-0 1-2"
    assert pharaoh([]) == ""
