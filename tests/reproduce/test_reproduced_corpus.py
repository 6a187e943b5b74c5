import shutil

import pytest

from luong.config import PairFiles
from luong.errors import UserError
from luong.reproduce.corpus import count_words, open_corpus


def test_files_are_found(data, toy):
    (data / "dev.de").rename(data / "val.de")
    (data / "dev.en").rename(data / "val.en")
    shutil.copy(toy / "dev.de", data / "x.de")
    shutil.copy(toy / "dev.en", data / "x.en")
    corpus = open_corpus(data, "en-de", "x")
    assert corpus.train.source == data / "train.en"
    assert corpus.valid.target == data / "val.de"
    assert corpus.sources == (toy / "dev.en").read_text("utf-8").splitlines()
    assert corpus.gold is not None
    assert corpus.gold.links[0].sure == {(0, 0)}
    (data / "gold.align").unlink()
    assert open_corpus(data, "en-de").gold is None


def test_mistakes_are_named(data, tmp_path):
    with pytest.raises(UserError, match="--languages de: expected"):
        open_corpus(data, "de")
    with pytest.raises(UserError, match="is not a folder"):
        open_corpus(tmp_path / "none", "de-en")
    with pytest.raises(UserError, match=r"test\.fr does not exist"):
        open_corpus(data, "fr-en")
    (data / "gold.align").write_text("0-0\n")
    with pytest.raises(UserError, match=r"have 2 lines and gold\.align has 1"):
        open_corpus(data, "de-en")


def test_the_vocabulary_leaves_rare_words_unknown(tmp_path):
    # Of the target a is 97 of 100 words, so it alone is known.
    for side, text in (("s", "x y\n" * 50), ("t", "a " * 97 + "b c d\n" + "\n" * 49)):
        (tmp_path / f"train.{side}").write_text(text)
    files = PairFiles(source=tmp_path / "train.s", target=tmp_path / "train.t")
    words = count_words(files)
    assert words == (2.0, 5, 0.5, 0.03)
    assert count_words(files, 6).source_unknown == 0.0
