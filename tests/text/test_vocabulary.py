import pytest

from luong.text.vocabulary import BEGIN, END, PAD, SPECIAL_TOKENS, UNKNOWN, Vocabulary


def test_order_is_by_frequency_then_text():
    vocabulary = Vocabulary.build({"b": 2, "c": 2, "a": 1, "d": 9})
    assert vocabulary.to_json() == [*SPECIAL_TOKENS, "d", "b", "c", "a"]
    assert [vocabulary.id(token) for token in SPECIAL_TOKENS] == [PAD, UNKNOWN, BEGIN, END]


def test_size_counts_special_tokens_and_rare_tokens_are_left_out():
    counts = {"a": 3, "b": 2, "c": 1}
    assert len(Vocabulary.build(counts, size=5)) == 5
    assert Vocabulary.build(counts, minimum_count=2).to_json()[4:] == ["a", "b"]


def test_text_cannot_be_a_special_token():
    vocabulary = Vocabulary.build({"<s>": 9, "a": 1})
    assert vocabulary.to_json() == [*SPECIAL_TOKENS, "a"]


def test_unseen_tokens_are_unknown_and_wrong_ids_are_errors():
    vocabulary = Vocabulary.build({"a": 1})
    assert vocabulary.id("never seen") == UNKNOWN
    for id in (-1, 5):
        with pytest.raises(ValueError, match="5 tokens"):
            vocabulary.token(id)


@pytest.mark.parametrize(
    "tokens", [None, {"a": 1}, ["a"], [*SPECIAL_TOKENS, "a", "a"], [*SPECIAL_TOKENS, 7]]
)
def test_from_json_refuses_what_is_no_vocabulary(tokens):
    with pytest.raises(ValueError):
        Vocabulary.from_json(tokens)


def test_json_round_trip():
    tokens = Vocabulary.build({"ä": 1, "￭,": 2}).to_json()
    assert Vocabulary.from_json(tokens).to_json() == tokens
