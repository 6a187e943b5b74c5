import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from luong.text.words import WordTokenizer, split_words

TRICKY = "a1é\u0301'’-_.,\"(&;￭☃😀\u200d\u200c\ufe0f日本हि \t\u00a0\u3000\r\x1c"
LINES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.text(TRICKY),
    st.lists(st.sampled_from(["&joiner;", "￭", "<unk>", "don't", " ", "\\￭"])).map("".join),
)


@given(LINES)
@example("￭")
@example("a￭b ￭ c￭ ￭￭")
@example("&joiner;￭")
def test_round_trip_restores_spacing(line):
    tokenizer = WordTokenizer.train([line], size=10**6)
    ids = tokenizer.encode(line).ids
    assert tokenizer.decode(ids) == " ".join(line.split())
    assert min(ids, default=4) > 3


@given(LINES)
@example("a" * 99 + "!" + " b" * 3)
def test_ids_alone_are_those_of_encode(line):
    tokenizer = WordTokenizer.train([line[: len(line) // 2]], size=10**6)
    for _ in range(2):  # the second time from memory
        assert tokenizer.ids(line) == tokenizer.encode(line).ids


@given(LINES)
def test_spans_cover_all_but_white_space(line):
    tokens, spans = split_words(line)
    assert "".join(line[start:end] for start, end in spans) == "".join(line.split())
    assert all(start < end for start, end in spans)
    assert len(tokens) == len(spans)


@given(LINES)
def test_decoded_spans_hold_the_tokens(line):
    tokenizer = WordTokenizer.train([line], size=10**6)
    ids, raw = tokenizer.encode(line)
    text, spans = tokenizer.decode_spans(ids)
    assert [text[a:b] for a, b in spans] == [line[a:b] for a, b in raw]


@pytest.mark.parametrize(
    ("line", "tokens"),
    [
        ("Hello, world!", ["Hello", "￭,", "world", "￭!"]),
        ("(a-b)", ["(￭", "a", "￭-￭", "b", "￭)"]),
        ("don't l’ami rock'n'roll", ["don't", "l’ami", "rock'n'roll"]),
        ("'tis dogs'", ["'￭", "tis", "dogs", "￭'"]),
        ("e\u0301te\u0301 हिन्दी", ["e\u0301te\u0301", "हिन्दी"]),
        ("می\u200cخواهم", ["می\u200cخواهم"]),
        ("❤\ufe0f!!", ["❤\ufe0f", "￭!", "￭!"]),
        ("snake_case", ["snake", "￭_￭", "case"]),
        ("", []),
        ("  \t ", []),
    ],
)
def test_words_and_signs(line, tokens):
    assert split_words(line)[0] == tokens


def test_unknown_words_are_shown_or_replaced():
    tokenizer = WordTokenizer.train(["a , a,"], size=100)
    ids = tokenizer.encode("a Zürich, a").ids
    assert tokenizer.decode(ids) == "a <unk>, a"
    assert tokenizer.decode(ids, {1: "Zürich", 0: "not unknown"}) == "a Zürich, a"
    text, spans = tokenizer.decode_spans(ids, {1: "St. Gallen"})
    assert text == "a St. Gallen, a"
    assert text[slice(*spans[1])] == "St. Gallen"


def test_control_symbols_give_no_text():
    tokenizer = WordTokenizer.train(["a b"], size=100)
    a, b = tokenizer.encode("a b").ids
    text, spans = tokenizer.decode_spans([2, a, 0, b, 3])
    assert text == "a b"
    assert [text[start:end] for start, end in spans] == ["", "a", "", "b", ""]


def test_a_joiner_at_the_edge_of_a_prediction_is_harmless():
    tokenizer = WordTokenizer.train(["(a, b)"], size=100)
    ids = {token: tokenizer.vocabulary.id(token) for token in ("(￭", "￭,", "a")}
    assert tokenizer.decode([ids["￭,"], ids["a"], ids["(￭"]]) == ", a ("


def test_size_is_an_upper_bound_and_rare_words_are_unknown():
    lines = ["a a a b b c"]
    assert WordTokenizer.train(lines, size=6).size == 6
    rare = WordTokenizer.train(lines, size=100, minimum_count=2)
    assert rare.encode("a b c").ids == [4, 5, 1]
