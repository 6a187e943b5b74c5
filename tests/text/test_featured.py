import pytest

from luong.config import PairTokensConfig
from luong.errors import UserError
from luong.text.featured import FeaturedTokenizer, features_of, first_feature
from luong.text.tokenizers import (
    load_tokenizer,
    load_tokenizers,
    same_tokenizer,
    save_tokenizers,
    train_tokenizers,
)

LINES = ["gehen\tV;PST;1;SG", "V1\tV;PST", "Haus\tN; PL"]


def train(kind="character", separator=";"):
    tokens = PairTokensConfig(kind=kind, shared=False)
    return train_tokenizers(tokens, lambda: LINES, lambda: ["ging", "V1"], separator)


def test_features_have_ids_that_no_letter_has():
    source, target = train()
    assert source.features == ("PST", "V", "1", "N", "PL", "SG")
    letters = source.base.size
    assert first_feature(source) == letters
    assert first_feature(target) is None
    ids = source.ids("V1\tV;1")
    assert [id < letters for id in ids] == [True, True, False, False]
    assert 1 not in ids
    assert ids[2:] == [letters + 2, letters + 3]
    assert source.tokens(ids) == ["V", "1", "V", "1"]
    assert source.size == letters + 7
    # The tab and the features are no letters.
    assert source.base.ids("\tP;") == [1, 1, 1]


@pytest.mark.parametrize("kind", ["character", "decomposed", "symbol", "word"])
def test_spans_and_text(kind):
    source, _ = train(kind)
    for line in [*LINES, "gehen", "gehen\t", "\tV;PST"]:
        ids, spans = source.encode(line)
        assert len(ids) == len(spans)
        text, _, features = line.partition("\t")
        stripped = [name.strip() for name in features.split(";") if name.strip()]
        found = [line[start:end] for start, end in spans][len(source.base.ids(text)) :]
        assert found == stripped
        decoded = source.decode_spans(ids)
        assert decoded[0] == (f"{text}\t{';'.join(stripped)}" if stripped else text)
        assert len(decoded[1]) == len(ids)


def test_an_unknown_feature_is_no_unknown_letter():
    source, _ = train()
    assert source.ids("gehen\tV;DUAL")[-1] == source.first_feature
    assert source.tokens([source.first_feature]) == ["<unk>"]


def test_another_separator():
    assert features_of(["a\tb, c", "d\tc"], ",") == ["c", "b"]
    source = FeaturedTokenizer(train()[0].base, ["b", "c"], ", ")
    ids, spans = source.encode("en\tb, c")
    assert [id - source.first_feature for id in ids[2:]] == [1, 2]
    assert spans[2:] == [(3, 4), (6, 7)]


def test_round_trip(tmp_path):
    source, target = train("decomposed")
    save_tokenizers(tmp_path, source, target)
    loaded, _ = load_tokenizers(tmp_path)
    assert isinstance(loaded, FeaturedTokenizer)
    assert loaded.base.kind == "decomposed"
    assert loaded.size == source.size
    assert same_tokenizer(loaded, source)
    assert not same_tokenizer(loaded, train()[0])
    assert not same_tokenizer(FeaturedTokenizer(source.base, ["V"], ";"), source)
    for line in LINES:
        assert loaded.encode(line) == source.encode(line)


def test_a_broken_file_is_named(tmp_path):
    text = '{"kind": "featured", "tokens": ["<pad>", "<unk>", "<s>", "</s>"]}'
    (tmp_path / "source.json").write_text(text)
    with pytest.raises(UserError, match=r"source\.json is not a tokenizer of luong"):
        load_tokenizer(tmp_path, "source")
