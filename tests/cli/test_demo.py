import builtins
import signal
from importlib import resources
from pathlib import Path

import pytest

from luong import presets
from luong.cli.demo import _converse
from luong.training.report import Report

TINY = """
output = "runs/demo"
[data]
train = { source = "train.de", target = "train.en" }
valid = { source = "dev.de", target = "dev.en" }
source_language = "de"
target_language = "en"
[tokens]
kind = "character"
shared = false
[model]
embedding_size = 4
hidden_size = 4
attention.score = "dot"
attention.input_feeding = false
[training]
max_epochs = 1
batch_tokens = 400
precision = "float32"
device = "cpu"
log_every = 2
"""


@pytest.fixture
def small_demo(monkeypatch, tmp_path):
    """The demo on the first lines of its corpus with a model that learns nothing."""
    data = tmp_path / "data"
    data.mkdir()
    files = Path(str(resources.files("luong"))) / "data"
    for path in files.glob("*.de"):
        for side in ("de", "en"):
            lines = (files / f"{path.stem}.{side}").read_bytes().splitlines(keepends=True)
            # Blank lines cost nothing, and keep the numbers of the lines that the demo shows.
            kept = lines[:40] + [b"\n"] * 460 if path.stem == "test" else lines[:40]
            (data / f"{path.stem}.{side}").write_bytes(b"".join(kept))
    monkeypatch.setattr(presets, "preset_text", lambda name: {"demo": TINY}[name])
    files = resources.files
    monkeypatch.setattr(
        resources, "files", lambda name: data if name == "luong.data" else files(name)
    )


@pytest.mark.usefixtures("small_demo")
def test_the_demo(luong, tmp_path):
    output = tmp_path / "a run"
    ended = luong("demo", "--output", output)
    assert ended.code == 0
    assert ended.error == ""
    lines = ended.out.splitlines()
    assert "step 2 " in ended.out
    assert any(line.startswith("test BLEU: 0.0") for line in lines)
    assert lines[-1] == f"report: {output / 'report.html'}"
    assert "Kannst du mir bitte helfen?" in lines
    for name in ("report.html", "learning-curves.png", "attention-1.png", "model.safetensors"):
        assert (output / name).stat().st_size > 1000

    # Once more: it is not trained again, but shown again.
    weights = (output / "model.safetensors").stat()
    again = luong("demo", "--output", output)
    assert again.code == 0
    assert "step 2 " not in again.out
    assert "test BLEU: " in again.out
    assert (output / "model.safetensors").stat().st_mtime_ns == weights.st_mtime_ns


@pytest.mark.usefixtures("small_demo")
def test_an_interrupted_demo_says_how_to_go_on(luong, tmp_path, monkeypatch):
    training = Report.training

    def interrupted(self, row, seconds_left):
        training(self, row, seconds_left)
        signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Report, "training", interrupted)
    ended = luong("demo", "--output", tmp_path / "a run")
    assert ended.code == 130
    assert ended.out.endswith(
        f"Interrupted and saved. Go on with:\n  luong demo --output '{tmp_path / 'a run'}'\n"
    )


def test_talking_to_the_demo_ends_at_an_empty_line_or_at_the_end(translator, monkeypatch, capsys):
    expected = [result.text for result in translator.translate(["eins zwei", "drei"])]
    for end in ("", EOFError()):
        typed = iter(["eins zwei", " drei ", end])

        def answer(_prompt, typed=typed):
            line = next(typed)
            if isinstance(line, Exception):
                raise line
            return line

        monkeypatch.setattr(builtins, "input", answer)
        _converse(translator)
        assert capsys.readouterr().out.splitlines()[-2:] == expected


def test_the_corpus_of_the_package_is_whole():
    data = Path(str(resources.files("luong"))) / "data"
    for name, lines in (("train", 7909), ("dev", 500), ("test", 500)):
        for side in ("de", "en"):
            assert len((data / f"{name}.{side}").read_text("utf-8").splitlines()) == lines
