from hypothesis import given
from hypothesis import strategies as st

from luong.text.characters import CharacterTokenizer


@given(st.text(st.characters(exclude_categories=["Cs"])))
def test_round_trip_is_exact(line):
    tokenizer = CharacterTokenizer.train([line], size=10**7)
    ids, spans = tokenizer.encode(line)
    assert tokenizer.decode_spans(ids) == (line, spans)
    assert [line[start:end] for start, end in spans] == list(line)


def test_a_space_is_a_token_that_can_be_seen():
    tokenizer = CharacterTokenizer.train(["a b"], size=10)
    assert tokenizer.tokens(tokenizer.encode("b a").ids) == ["b", "␣", "a"]


def test_unknown_characters_are_shown_or_replaced():
    tokenizer = CharacterTokenizer.train(["ab"], size=10)
    ids = tokenizer.encode("a☃b").ids
    assert tokenizer.decode(ids) == "a<unk>b"
    assert tokenizer.decode_spans([2, *ids, 3], {2: "**"}) == (
        "a**b",
        [(0, 0), (0, 1), (1, 3), (3, 4), (4, 4)],
    )
