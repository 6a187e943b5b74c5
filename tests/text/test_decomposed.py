import unicodedata

from hypothesis import given
from hypothesis import strategies as st

from luong.text.decomposed import DecomposedTokenizer


def test_hangul_and_accents_in_parts():
    tokenizer = DecomposedTokenizer.train(["한ắa"], size=100)
    ids, spans = tokenizer.encode("한ắa")
    assert "".join(tokenizer.tokens(ids)) == unicodedata.normalize("NFD", "한ắa")
    assert spans == [(0, 1)] * 3 + [(1, 2)] * 3 + [(2, 3)]
    assert tokenizer.decode_spans(ids) == ("한ắa", spans)


@given(st.text(st.sampled_from("aéắ한각\u0301\u0323 "), min_size=1))
def test_decoding_composes(line):
    tokenizer = DecomposedTokenizer.train([line], size=100)
    ids, spans = tokenizer.encode(line)
    text, found = tokenizer.decode_spans([2, *ids, 3])
    assert text == unicodedata.normalize("NFC", line)
    assert len(ids) == len(spans) == len(found) - 2
    assert all(0 <= start <= end <= len(text) for start, end in found)
