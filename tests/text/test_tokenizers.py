import json

import pytest

from luong.config import PairTokensConfig
from luong.errors import UserError
from luong.text.tokenizers import (
    load_tokenizer,
    load_tokenizers,
    save_tokenizers,
    train_tokenizers,
)

KINDS = pytest.mark.parametrize("kind", ["word", "character", "subword", "symbol", "decomposed"])
SOURCE = ["ein Haus, zwei Häuser"] * 5
TARGET = ["a house, two houses"] * 5


def train(kind, shared):
    tokens = PairTokensConfig(kind=kind, shared=shared, vocabulary_size=60)
    return train_tokenizers(tokens, lambda: SOURCE, lambda: TARGET)


def file_names(folder):
    return sorted(path.name for path in folder.iterdir())


@KINDS
def test_a_shared_tokenizer_is_one_object_that_knows_both_sides(kind, tmp_path):
    source, target = train(kind, shared=True)
    assert source is target
    save_tokenizers(tmp_path, source, target)
    assert file_names(tmp_path) == ["tokenizer.model" if kind == "subword" else "tokenizer.json"]
    loaded, other = load_tokenizers(tmp_path)
    assert loaded is other
    assert (loaded.kind, loaded.size) == (kind, source.size)
    for line in (SOURCE[0], TARGET[0], "unseen ☃"):
        assert loaded.encode(line) == source.encode(line)
        assert loaded.ids(line) == loaded.encode(line).ids
    assert 1 not in loaded.encode(SOURCE[0]).ids + loaded.encode(TARGET[0]).ids


@KINDS
def test_separate_tokenizers_know_their_own_side(kind, tmp_path):
    source, target = train(kind, shared=False)
    save_tokenizers(tmp_path, source, target)
    loaded_source, loaded_target = load_tokenizers(tmp_path)
    assert loaded_source.decode(loaded_source.encode(SOURCE[0]).ids) == SOURCE[0]
    assert loaded_target.decode(loaded_target.encode(TARGET[0]).ids) == TARGET[0]
    assert 1 in loaded_target.encode("Häuser").ids


def test_files_of_another_kind_are_removed(tmp_path):
    (tmp_path / "config.json").write_text("{}")
    for kind, shared in [("word", False), ("subword", False), ("character", True)]:
        save_tokenizers(tmp_path, *train(kind, shared))
    assert file_names(tmp_path) == ["config.json", "tokenizer.json"]
    assert load_tokenizers(tmp_path)[0].kind == "character"


@KINDS
def test_a_blank_corpus_is_refused(kind):
    tokens = PairTokensConfig(kind=kind, shared=False)
    with pytest.raises(UserError, match="target side of the corpus has only blank lines"):
        train_tokenizers(tokens, lambda: SOURCE, lambda: ["", " \t"])


def test_a_missing_tokenizer_names_the_folder(tmp_path):
    with pytest.raises(UserError, match=r"has no tokenizer source\.json or source\.model"):
        load_tokenizers(tmp_path)


@pytest.mark.parametrize(
    ("name", "data"),
    [
        ("x.json", b'{"kind": "word", "tok'),
        ("x.json", b"\xff\xfe"),
        ("x.json", b"[]"),
        ("x.json", b'{"kind": "word", "tokens": ["a"]}'),
        ("x.model", b"junk"),
        ("x.model", b""),
    ],
)
def test_a_broken_file_is_named(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=f"{name} is not a tokenizer of luong"):
        load_tokenizer(tmp_path, "x")


def test_an_unknown_kind_is_named(tmp_path):
    train("word", shared=True)[0].save(tmp_path, "x")
    path = tmp_path / "x.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"kind": "syllable"}))
    with pytest.raises(UserError, match="'syllable'"):
        load_tokenizer(tmp_path, "x")


def test_a_cut_model_is_refused(tmp_path):
    train("subword", shared=True)[0].save(tmp_path, "x")
    path = tmp_path / "x.model"
    path.write_bytes(path.read_bytes()[:-100])
    with pytest.raises(UserError, match=r"x\.model is not a tokenizer"):
        load_tokenizer(tmp_path, "x")


def test_each_side_has_tokens_of_its_own_kind(tmp_path):
    tokens = PairTokensConfig(
        kind="word", shared=False, source={"kind": "character"}, target={"minimum_count": 6}
    )
    source, target = train_tokenizers(tokens, lambda: SOURCE, lambda: [*TARGET, "a barn"])
    assert (source.kind, target.kind) == ("character", "word")
    assert target.ids("a barn") == [4, 1]
    save_tokenizers(tmp_path, source, target)
    loaded = load_tokenizers(tmp_path)
    assert [tokenizer.kind for tokenizer in loaded] == ["character", "word"]
    assert loaded[0].ids("Haus") == source.ids("Haus")
