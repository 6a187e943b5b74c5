"""`luong shortlist` and `luong translate --shortlist`."""

import pytest

from luong import load
from luong.folder import load_folder


@pytest.fixture
def listed(luong, trained_copy):
    """A folder with a shortlist of one frequent token and two translations of each."""
    ended = luong("shortlist", trained_copy, "--frequent", 1, "--translations", 2)
    assert ended.code == 0
    assert "learnt from 100 pairs" in ended.out
    return trained_copy


def test_it_is_learnt_from_the_training_data(listed, luong, toy, trained_copy):
    learnt = load_folder(listed).shortlist
    assert learnt.frequent.shape == (1,)
    folder = load_folder(listed)
    for source, target in (("eins", "one"), ("acht", "eight")):
        (word,) = folder.source_tokenizer.encode(source).ids
        (translation,) = folder.target_tokenizer.encode(target).ids
        assert translation in [*learnt.translations[word], *learnt.frequent]
    arguments = ["--source", toy / "dev.de", "--target", toy / "dev.en"]
    ended = luong("shortlist", listed, *arguments)
    assert "learnt from 20 pairs" in ended.out


@pytest.mark.parametrize("int8", [False, True])
def test_translations_are_of_the_shortlist_whatever_the_batch(listed, toy, int8):
    lines = (toy / "test.de").read_text(encoding="utf-8").splitlines()
    translator = load(listed, int8=int8)
    folder = translator.folder
    together = translator.translate(lines, shortlist=True, n_best=3)
    for line, results in zip(lines, together, strict=True):
        alone = translator.translate(line, shortlist=True, n_best=3)
        assert [result.text for result in alone] == [result.text for result in results]
        for one, other in zip(alone, results, strict=True):
            assert abs(one.score - other.score) < 1e-5
        tokens, _ = folder.shortlist.candidates([folder.source_tokenizer.encode(line).ids])
        for result in results:
            assert set(folder.target_tokenizer.encode(result.text).ids) <= set(tokens.tolist())


def test_a_shortlist_of_everything_changes_nothing(listed, luong, toy):
    luong("shortlist", listed, "--frequent", 16)
    lines = (toy / "test.de").read_bytes()
    whole = luong("translate", listed, "--scores", stdin=lines).out
    short = luong("translate", listed, "--scores", "--shortlist", stdin=lines).out
    assert [row.split("\t")[1] for row in short.splitlines()] == [
        row.split("\t")[1] for row in whole.splitlines()
    ]


def test_it_goes_with_the_quantised_folder(listed, luong, toy, tmp_path):
    luong("quantize", listed, tmp_path / "int8")
    lines = (toy / "test.de").read_bytes()
    found = luong("translate", tmp_path / "int8", "--shortlist", stdin=lines).out
    assert found == luong("translate", listed, "--int8", "--shortlist", stdin=lines).out


def test_what_is_refused(refused, trained, trained_copy, toy):
    message = refused("translate", trained, "--shortlist", stdin=b"eins\n")
    assert message.startswith("The model folder has no shortlist. Make one with")
    message = refused("shortlist", trained, "--source", toy / "dev.de")
    assert message == "--source and --target belong together: name both files, or neither."
    arguments = ["--source", toy / "dev.de", "--target", toy / "train.en"]
    assert "dev.de has 20 lines" in refused("shortlist", trained_copy, *arguments)
    (toy / "blank").write_text("\n \n")
    arguments = ["--source", toy / "blank", "--target", toy / "blank"]
    assert "no pair has 1 to 100 tokens" in refused("shortlist", trained_copy, *arguments)
