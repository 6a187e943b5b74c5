from itertools import islice

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from luong.errors import UserError
from luong.text.subwords import SubwordTokenizer
from luong.text.vocabulary import SPECIAL_TOKENS, UNKNOWN

ALGORITHMS = pytest.mark.parametrize("algorithm", ["unigram", "bpe"])
LINES = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"], exclude_characters="▁")),
    st.text("aeinst日😀\u0301▅ \t\u00a0\u3000"),
    st.lists(st.sampled_from(["Tom", "<s>", "</s>", "<unk>", " ", "ß", "☃"])).map("".join),
)


@ALGORITHMS
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(line=LINES)
@example(line="  Tom   sagte  ☃☃日本 😀x ")
@example(line="a\0b")
def test_text_comes_back_when_unknown_pieces_are_replaced(tokenizers, algorithm, line):
    tokenizer = tokenizers[algorithm]
    ids, spans = tokenizer.encode(line)
    raw = [line[start:end] for start, end in spans]
    assert "".join(raw) == "".join(line.split())
    unknown = {at: raw[at] for at, id in enumerate(ids) if id == UNKNOWN}
    text, decoded = tokenizer.decode_spans(ids, unknown)
    assert text == " ".join(line.split())
    assert [text[start:end] for start, end in decoded] == raw
    assert not {0, 2, 3} & set(ids)


@ALGORITHMS
def test_special_tokens_have_their_ids_and_text_never_gets_them(algorithm):
    # The trainer skips the special tokens themselves, so it must see their signs elsewhere.
    lines = ["<s> <pad> </s> <unk>", "a<s>b</s>c<pad>", "< s p a d u n k / >"] * 50
    tokenizer = SubwordTokenizer.train(lines, 200, algorithm)
    assert tuple(tokenizer.tokens(range(4))) == SPECIAL_TOKENS
    for line in lines[:2]:
        ids = tokenizer.encode(line).ids
        assert min(ids) > 3
        assert tokenizer.decode(ids) == line


def test_spans_skip_spaces():
    tokenizer = SubwordTokenizer.train(["ab cd"] * 20, 50)
    line = "  ab \t cd "
    ids, spans = tokenizer.encode(line)
    assert "▁" in tokenizer.tokens(ids)[0]
    assert {line[start:end] for start, end in spans} <= {"ab", "cd", "a", "b", "c", "d", ""}
    assert spans[0][0] == 2
    assert spans[-1][1] == 9


@ALGORITHMS
def test_the_same_lines_give_the_same_model(corpus, tmp_path, algorithm):
    for name in ("one", "two"):
        lines = islice(corpus.source_lines(), 1000)
        SubwordTokenizer.train(lines, 500, algorithm).save(tmp_path, name)
    assert (tmp_path / "one.model").read_bytes() == (tmp_path / "two.model").read_bytes()


@ALGORITHMS
@pytest.mark.parametrize("size", [100, 10_000])
def test_size_is_an_upper_bound(corpus, algorithm, size):
    lines = [corpus[index][0] for index in range(300)]
    tokenizer = SubwordTokenizer.train(lines, size, algorithm)
    assert 60 < tokenizer.size <= size


def test_a_size_below_the_characters_is_refused_with_the_size_that_works(corpus):
    lines = list(islice(corpus.source_lines(), 500))
    with pytest.raises(UserError, match=r"vocabulary_size = 20 is too small.*need \d+") as error:
        SubwordTokenizer.train(lines, 20)
    needed = int(str(error.value).split("need ")[1].split(".")[0])
    assert SubwordTokenizer.train(lines, needed).size == needed


def test_errors_of_the_lines_come_through():
    def lines():
        yield "a line"
        raise UserError("line 2 is broken")

    with pytest.raises(UserError, match="line 2 is broken"):
        SubwordTokenizer.train(lines(), 100)


def test_lines_that_the_trainer_would_drop_are_learnt_from():
    lines = ["qz " * 2000, "vw ▅ vw " * 10]
    tokenizer = SubwordTokenizer.train(lines, 100)
    assert UNKNOWN not in tokenizer.encode("qz vw").ids


def test_training_is_silent(corpus, capfd):
    SubwordTokenizer.train(corpus.source_lines(), 200, "bpe")
    with pytest.raises(UserError):
        SubwordTokenizer.train(corpus.source_lines(), 10)
    assert capfd.readouterr() == ("", "")


def test_unknown_pieces_and_control_symbols(tokenizers):
    tokenizer = tokenizers["unigram"]
    ids = tokenizer.encode("Tom ☃").ids
    assert tokenizer.decode([2, *ids, 3, 0]) == "Tom <unk>"


@pytest.mark.parametrize("model", [b"", b"junk", b"\x00" * 100])
def test_junk_is_no_model(model):
    with pytest.raises(ValueError):
        SubwordTokenizer(model)
