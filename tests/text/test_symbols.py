from hypothesis import given
from hypothesis import strategies as st

from luong.text.symbols import SymbolTokenizer
from luong.text.tokenizers import load_tokenizer, same_tokenizer

PHONES = "tʰ oː ˧˥ ￭ x͡ɣ"


def test_symbols_are_never_split_and_keep_their_order():
    tokenizer = SymbolTokenizer.train([PHONES], size=100)
    ids, spans = tokenizer.encode(PHONES)
    assert tokenizer.tokens(ids) == PHONES.split(" ") == [PHONES[a:b] for a, b in spans]
    assert tokenizer.decode_spans(ids) == (PHONES, spans)


@given(st.text(st.sampled_from("ab \t\u3000"), min_size=1))
def test_any_white_space_becomes_one_space(line):
    tokenizer = SymbolTokenizer.train([line], size=100)
    assert tokenizer.decode(tokenizer.ids(line)) == " ".join(line.split())
    assert len(tokenizer.encode(line).spans) == len(tokenizer.ids(line))


def test_an_unknown_symbol_is_one_symbol():
    tokenizer = SymbolTokenizer.train(["a b"], size=100)
    ids = tokenizer.ids("a oː b")
    assert tokenizer.decode([2, *ids, 3]) == "a <unk> b"
    assert tokenizer.decode_spans(ids, {1: "o"}) == ("a o b", [(0, 1), (2, 3), (4, 5)])


def test_it_is_loaded_as_what_it_was(tmp_path):
    tokenizer = SymbolTokenizer.train(["a b"], size=100)
    tokenizer.save(tmp_path, "target")
    loaded = load_tokenizer(tmp_path, "target")
    assert type(loaded) is SymbolTokenizer
    assert same_tokenizer(tokenizer, loaded)
