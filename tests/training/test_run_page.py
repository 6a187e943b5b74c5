import re
import shutil

import pytest

import luong
from luong.errors import UserError
from luong.training.page import write_run_page


def test_the_page_shows_the_run(trained_copy):
    page = write_run_page(trained_copy)
    assert page == trained_copy / "report.html"
    text = page.read_text(encoding="utf-8")
    assert '<h1 dir="auto">de to en</h1>' in text
    assert text.count('<td data-name="Source"') == 8
    assert "nrefs:1|case:mixed" in text
    assert "Trained for 140 updates" in text
    assert "training.learning_rate" in text
    assert re.search(r"float32( by oneDNN)? \(measured: ", text)
    assert re.search(r"waited for data.{0,60}\d\.\d% of the time", text, re.DOTALL)
    assert not re.search(r'(src|href)="(?!#)(?!data:)', text)


def test_given_samples_and_scores(trained_copy):
    sample = luong.load(trained_copy).translate("eins zwei")
    page = write_run_page(trained_copy, [sample], ["one two"], {"bleu": 98.76})
    text = page.read_text(encoding="utf-8")
    assert text.count('<td data-name="Source"') == 1
    assert "98.8" in text


def test_without_its_validation_data_a_page_cannot_be_made(toy, toy_config, trained, tmp_path):
    copy = shutil.copytree(trained, tmp_path / "copy")
    settings = copy / "config.json"
    moved = settings.read_text().replace("dev.de", "gone.de")
    settings.write_text(moved)
    with pytest.raises(UserError, match=r"gone\.de does not exist"):
        write_run_page(copy)
