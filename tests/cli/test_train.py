import os
import shlex
import signal
import subprocess
import sys
import time

import pytest

from luong.training.report import Report, read_metrics


@pytest.fixture
def options(tmp_path):
    return [f"--set=output={tmp_path / 'run'}", "--set", "training.max_epochs=1"]


def test_training_says_where_things_lie(luong, toy, options, tmp_path):
    ended = luong("train", toy / "run.toml", *options)
    assert ended.code == 0
    assert ended.error == ""
    assert "\x1b" not in ended.out
    lines = ended.out.splitlines()
    assert lines[0].startswith("pairs     100 of 100 kept; left out: none")
    assert lines[-3].startswith("1 epochs done; best validation BLEU ")
    assert lines[-3].endswith(" at update 5")
    assert lines[-2] == f"report:     {tmp_path / 'run' / 'report.html'}"
    assert lines[-1] == f"translate:  luong translate {tmp_path / 'run'} < in > out"
    assert (tmp_path / "run" / "report.html").exists()
    assert luong("translate", tmp_path / "run", stdin=b"eins\n").code == 0

    again = luong("train", toy / "run.toml", *options)
    assert again.code == 1
    assert "holds a run already. Go on with it by --resume" in again.error

    resumed = luong("train", toy / "run.toml", *options, "--resume")
    assert resumed.code == 0
    assert "\nalready finished: 1 epochs done; best validation" in resumed.out
    assert resumed.out.splitlines()[-3].endswith(lines[-3].partition("best")[2])


def test_ctrl_c_saves_and_prints_how_to_resume(luong, toy, tmp_path, monkeypatch):
    training = Report.training

    def interrupted(self, row, seconds_left):
        training(self, row, seconds_left)
        if row["step"] == 3:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Report, "training", interrupted)
    output = tmp_path / "a folder" / "it's"
    options = ["--set", f"output={output}", "--set=training.max_epochs=2"]
    ended = luong("train", toy / "run.toml", *options)
    assert ended.code == 130
    assert ended.error == ""
    assert "\nInterrupted and saved. Go on with:\n  luong train " in ended.out
    assert read_metrics(output)[-1]["step"] == 3
    monkeypatch.setattr(Report, "training", training)
    # The printed line works as it stands, in a shell.
    program, *arguments = shlex.split(ended.out.splitlines()[-1])
    assert program == "luong"
    again = luong(*arguments)
    assert again.code == 0
    assert "resumed   after update 3" in again.out
    assert [row["step"] for row in read_metrics(output) if row["kind"] == "train"] == [
        *range(1, 11)
    ]


def test_ctrl_c_from_outside(toy, tmp_path):
    output = tmp_path / "run"
    options = ["--set", f"output={output}", "--set", "training.max_epochs=100000"]
    process = subprocess.Popen(
        [sys.executable, "-m", "luong", "train", str(toy / "run.toml"), *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        # An output that cannot hold the letters of the samples does not stop a run.
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONIOENCODING": "ascii"},
    )
    try:
        limit = time.monotonic() + 120
        while not any(row["kind"] == "validation" for row in read_whole_rows(output)):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < limit
            time.sleep(0.05)
        process.send_signal(signal.SIGINT)
        out, error = process.communicate(timeout=60)
    finally:
        process.kill()
        process.communicate()
    assert error == b""
    assert process.returncode == 130
    assert b"Interrupted and saved. Go on with:\n  luong train " in out
    assert (output / "state" / "last.safetensors").exists()


def read_whole_rows(output):
    """The rows of a run that may be writing one just now."""
    try:
        return read_metrics(output)
    except ValueError:
        return []


def test_a_second_ctrl_c_leaves_without_a_traceback(luong, toy, options, monkeypatch):
    def impatient(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(Report, "training", impatient)
    ended = luong("train", toy / "run.toml", *options)
    assert ended.code == 130
    assert "Traceback" not in ended.error
