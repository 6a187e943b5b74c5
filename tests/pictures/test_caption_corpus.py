import re

import numpy as np
import pytest
import torch
from PIL import Image

from luong.config import CaptionFiles, CaptionsConfig
from luong.errors import UserError
from luong.pictures import CaptionCorpus, CaptionDataset, normalized
from luong.text.vocabulary import BEGIN, END, PAD
from luong.text.words import WordTokenizer


@pytest.fixture
def folder(tmp_path):
    """Three pictures of one colour each."""
    (tmp_path / "sub").mkdir()
    for number, name in enumerate(["a.png", "sub/b.png", "c.png"]):
        Image.new("RGB", (8, 8), (number, 0, 0)).save(tmp_path / name)
    return tmp_path


def opened(folder, text, **options):
    (folder / "rows.tsv").write_text(text, encoding="utf-8")
    return CaptionCorpus.open(CaptionFiles(file=folder / "rows.tsv"), 8, **options)


def test_rows_of_a_picture_are_captions_of_it(folder):
    corpus = opened(folder, "c.png\ta cat\nsub/b.png\ta bird\nc.png\tone\tcat\n\na.png\t \n")
    assert corpus.names == ["c.png", "sub/b.png"]
    assert corpus.captions() == [["a cat", "one\tcat"], ["a bird"]]
    assert corpus.pictures[:, 0, 0, 0].tolist() == [2, 1]
    assert corpus.blank == 2


def test_bad_pictures_are_all_named_before_training(folder):
    (folder / "bad.png").write_text("text")
    text = "a.png\ta\nbad.png\tb\ngone.png\tc\nbad.png\td\n"
    with pytest.raises(UserError) as error:
        opened(folder, text)
    message = str(error.value)
    assert "2 of 3 pictures cannot be read" in message
    assert re.search(r"\n  bad\.png is not a picture", message)
    assert re.search(r"\n  gone\.png does not exist\n", message)
    assert "data.skip_bad = true" in message
    corpus = opened(folder, text, skip_bad=True)
    assert corpus.names == ["a.png"]
    assert corpus.rows == [(0, "a")]
    assert list(corpus.bad) == ["bad.png", "gone.png"]
    with pytest.raises(UserError, match=r"no picture to learn from \(1 cannot be read"):
        opened(folder, "gone.png\ta\n", skip_bad=True)


def test_a_row_without_a_tab_is_named(folder):
    with pytest.raises(UserError, match=r"rows\.tsv, line 2: expected a picture, a tab"):
        opened(folder, "a.png\ta\na.png a\n")


def test_changed_pictures_are_noticed(folder):
    first = opened(folder, "a.png\ta\n").fingerprint
    assert opened(folder, "a.png\ta\n").fingerprint == first
    Image.new("RGB", (8, 8), (9, 0, 0)).save(folder / "a.png")
    assert opened(folder, "a.png\ta\n").fingerprint != first


def test_pictures_in_an_array(tmp_path):
    images = np.zeros((3, 16, 16, 3), np.uint8)
    images[2] = 200
    np.savez_compressed(tmp_path / "images.npz", images=images)
    (tmp_path / "rows.tsv").write_text("2\tgrey\n0\tblack\n")
    files = CaptionFiles(file=tmp_path / "rows.tsv", images=tmp_path / "images.npz")
    corpus = CaptionCorpus.open(files, 8)
    assert corpus.pictures.shape == (2, 8, 8, 3)
    assert corpus.pictures[:, 0, 0, 0].tolist() == [200, 0]
    (tmp_path / "rows.tsv").write_text("3\ta\nx\tb\n")
    with pytest.raises(UserError, match="2 of 2") as error:
        CaptionCorpus.open(files, 8)
    assert "3 is beyond the 3 pictures" in str(error.value)
    assert "x is not a number" in str(error.value)


@pytest.mark.parametrize(
    ("arrays", "reason"),
    [
        ({"pictures": np.zeros((1, 8, 8, 3), np.uint8)}, "is unfit"),
        ({"images": np.zeros((1, 8, 8), np.uint8)}, r"holds uint8 \(1, 8, 8\)"),
        ({"images": np.zeros((1, 8, 8, 3))}, "holds float64"),
        ({"images": np.array([{}])}, "is unfit"),
    ],
)
def test_arrays_of_another_form(tmp_path, arrays, reason):
    np.savez(tmp_path / "images.npz", **arrays)
    (tmp_path / "rows.tsv").write_text("0\ta\n")
    files = CaptionFiles(file=tmp_path / "rows.tsv", images=tmp_path / "images.npz")
    with pytest.raises(UserError, match=rf"{reason}.*Expected an \.npz file"):
        CaptionCorpus.open(files, 8)
    (tmp_path / "images.npz").write_bytes(b"PK\x03\x04 cut")
    with pytest.raises(UserError, match=r"images\.npz is unfit"):
        CaptionCorpus.open(files, 8)


def test_a_batch(folder):
    corpus = opened(folder, "a.png\tred\nc.png\tvery very red\na.png\ta b c d e f\n")
    tokenizer = WordTokenizer.train(["red very"], 100)
    files = CaptionFiles(file=folder / "rows.tsv")
    data = CaptionsConfig(train=files, valid=files, max_length=5)
    dataset = CaptionDataset(corpus, tokenizer, data, cells=4)
    assert len(dataset) == 2
    assert dataset.too_long == 1
    batch = dataset.batch(np.array([1, 0]))
    red, very = tokenizer.ids("red very")
    assert batch.source.shape == (2, 3, 8, 8)
    assert batch.source_lengths.tolist() == [4, 4]
    assert batch.target_input.tolist() == [[BEGIN, very, very, red], [BEGIN, red, PAD, PAD]]
    assert batch.target_output.tolist() == [[very, very, red, END], [red, END, PAD, PAD]]
    expected = (2 / 255 - data.mean[0]) / data.spread[0]
    assert batch.source[0, 0].unique().tolist() == pytest.approx([expected])
    # A batch holds at most four cells for each of its padded tokens.
    sizes = [len(some) for some in dataset.plan(batch_tokens=1, seed=1, epoch=1)]
    assert sizes == [1, 1]


def test_normalized_colours():
    pictures = np.zeros((1, 2, 1, 3), np.uint8)
    pictures[0, 1] = 51, 102, 255
    found = normalized(pictures, (0.1, 0.2, 0.5), (0.5, 0.25, 2.0))
    expected = [[[-0.2], [0.2]], [[-0.8], [0.8]], [[-0.25], [0.25]]]
    assert torch.allclose(found, torch.tensor([expected]))
