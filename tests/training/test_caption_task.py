"""The task `caption` in the loop that trains translators."""

import re

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from untimed import rows

import luong
from luong.config import load_config
from luong.errors import UserError
from luong.folder import load_caption_folder, load_folder
from luong.training import train
from luong.training.captions import CaptionTask, shifted
from luong.training.page import write_run_page


def test_shapes_and_colours_are_learnt(trained_captioner):
    scores = luong.load(trained_captioner).folder.scores
    assert scores["exact_match"] == 1.0
    # Captions of two words have no n-grams of four, so BLEU is 0 here.
    assert scores["chrf"] == pytest.approx(100)


def test_a_killed_run_equals_one_that_was_not(shapes, shapes_config, console, stop_after, tmp_path):
    settings = [
        "training.save_every=2",
        "training.max_epochs=3",
        "training.log_every=1",
        "model.picture_dropout=0.2",
    ]
    whole = tmp_path / "whole"
    train(load_config(shapes / "run.toml", [f"output={whole}", *settings]), console=console)
    config = shapes_config(*settings)
    stop_after(7, kill=True)
    with pytest.raises(SystemExit, match="killed"):
        train(config, console=console)
    train(config, resume=True, console=console)
    assert rows(config.output) == rows(whole)
    for name in ("model.safetensors", "state/last.safetensors"):
        found, expected = load_file(config.output / name), load_file(whole / name)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in found), name


def test_a_folder_is_saved_whole_and_loaded(trained_captioner):
    folder = load_caption_folder(trained_captioner)
    assert folder.config.task == "caption"
    assert folder.config.grid == (4, 4)
    assert folder.source_tokenizer is folder.target_tokenizer
    card = (trained_captioner / "README.md").read_text(encoding="utf-8")
    assert "a grid of 4 by 4" in card
    assert 'luong.load("THIS_FOLDER").caption("picture.png").text' in card
    for load in (load_folder, lambda path: luong.load(path, int8=True)):
        with pytest.raises(UserError, match=r"is a captioner, (not a|and only) translator"):
            load(trained_captioner)


def test_a_bad_picture_ends_the_run_before_it_begins(shapes, shapes_config, tmp_path, console):
    text = (shapes / "train.tsv").read_text()
    manifest = tmp_path / "bad.tsv"
    manifest.write_text(re.sub("^", f"{shapes}/", text, flags=re.M)[: -len(str(shapes)) - 1])
    (tmp_path / "text.png").write_text("no picture")
    with manifest.open("a") as file:
        file.write("text.png\tred square\n")
    files = [f"data.train.file={manifest}", "training.max_epochs=1"]
    with pytest.raises(UserError, match=r"1 of 65 pictures cannot be read:\n  text\.png is not"):
        train(shapes_config(*files), console=console)
    task = CaptionTask(shapes_config(*files, "data.skip_bad=true"))
    task.prepare(None)
    lines = task.data_lines()
    assert lines[0].startswith("pictures  64 with 64 captions; left out: 1 pictures that cannot")
    assert lines[1].startswith("left out  text.png is not a picture")


def test_other_pictures_are_other_data(shapes, shapes_config, tmp_path, console):
    train(shapes_config("training.max_epochs=1"), console=console)
    Image.new("RGB", (16, 16)).save(tmp_path / "black.png")
    (tmp_path / "dev.tsv").write_text("black.png\tred square\n")
    other = shapes_config("training.max_epochs=2", f"data.valid.file={tmp_path / 'dev.tsv'}")
    with pytest.raises(UserError, match="cannot be resumed with other settings or data: valid"):
        train(other, resume=True, console=console)


def test_shifts_move_the_picture_and_keep_its_edge():
    pictures = torch.arange(2 * 3 * 5 * 6.0).view(2, 3, 5, 6)
    assert shifted(pictures, 0) is pictures
    seen = set()
    for _ in range(60):
        for picture, moved in zip(pictures, shifted(pictures, 1), strict=True):
            places = [
                (down, right)
                for down in (-1, 0, 1)
                for right in (-1, 0, 1)
                if torch.equal(
                    moved,
                    picture[:, (torch.arange(5) + down).clamp(0, 4)][
                        ..., (torch.arange(6) + right).clamp(0, 5)
                    ],
                )
            ]
            assert len(places) == 1
            seen.update(places)
    assert len(seen) == 9


def test_the_page_shows_pictures_with_attention(trained_captioner):
    page = write_run_page(trained_captioner).read_text(encoding="utf-8")
    assert "First the picture as the model saw it" in page
    assert page.count("data:image/png;base64,") > 8
    assert not re.search(r'(src|href)="(?!data:|#)|@import', page)


@pytest.mark.parametrize(
    ("override", "message"),
    [
        ("data.picture_size=8", None),
        ("model.channels=[8,8,8,8]", "a cell of the grid is 16 pixels wide"),
        ("model.encoder=recurrent", "model.encoder is not a known key"),
        ("data.mean=[1,2,3]", "data.mean"),
        ("model.backbone=resnet18", r"set data\.mean = \[0\.485"),
    ],
)
def test_settings(shapes_config, override, message):
    if message is None:
        assert shapes_config(override).grid == (2, 2)
        return
    with pytest.raises(UserError, match=message):
        shapes_config(override)
