"""The toy corpus as an experiment sees it, and a clock-free budget."""

import shutil
from io import StringIO
from pathlib import Path

import pytest
from rich.console import Console

from luong.reproduce import budget
from luong.reproduce.corpus import Corpus, open_corpus


@pytest.fixture
def console() -> Console:
    """Not a terminal; `console.file.getvalue()` is what was printed."""
    return Console(file=StringIO(), width=200, force_terminal=False)


@pytest.fixture
def data(toy, tmp_path) -> Path:
    """The toy corpus with two pairs that people have aligned."""
    folder = tmp_path / "data"
    folder.mkdir()
    for path in toy.glob("*.??"):
        shutil.copy(path, folder)
    (folder / "gold.de").write_text("eins zwei\nzehn\n", encoding="utf-8")
    (folder / "gold.en").write_text("one two\nten\n", encoding="utf-8")
    (folder / "gold.align").write_text("0-0 1?1\n0-0\n", encoding="utf-8")
    return folder


@pytest.fixture
def corpus(data) -> Corpus:
    return open_corpus(data, "de-en")


@pytest.fixture
def quick(monkeypatch):
    """Every update takes 1.5 seconds, so that a minute has 24 updates of one system."""
    timed = []

    def seconds(config):
        timed.append(config.output.name)
        return 1.5

    monkeypatch.setattr(budget, "seconds_per_update", seconds)
    return timed
