import os
import subprocess
import sys

import pytest

VERBS = ["init", "train", "translate", "evaluate", "demo", "bench"]


def test_help_names_every_verb(luong):
    ended = luong("--help")
    assert ended.code == 0
    for verb in VERBS:
        assert verb in ended.out


@pytest.mark.parametrize("verb", VERBS)
def test_every_verb_has_help(luong, verb):
    ended = luong(verb, "-h")
    assert ended.code == 0
    assert "Usage:" in ended.out


@pytest.mark.parametrize(
    "arguments",
    [
        ["trane"],
        ["train"],
        ["train", "run.toml", "--sett", "seed=1"],
        ["translate"],
        ["translate", "model", "--beam-size", "0"],
        ["translate", "model", "--beam-size", "five"],
        ["translate", "model", "--n-best", "0"],
        ["evaluate", "model", "--source", "a"],
        ["init", "extra"],
    ],
)
def test_wrong_options_are_code_2(luong, arguments):
    ended = luong(*arguments)
    assert ended.code == 2
    assert ended.out == ""
    assert "Traceback" not in ended.error
    assert "Usage:" in ended.error


def test_init_writes_a_file_to_start_from(luong, tmp_path):
    from luong.config import load_config

    ended = luong("init")
    assert ended.code == 0
    (tmp_path / "run.toml").write_text(ended.out)
    assert load_config(tmp_path / "run.toml").training.max_epochs == 20
    (tmp_path / "run.toml").write_text(luong("init", "--preset", "multi30k").out)
    assert load_config(tmp_path / "run.toml").data.target_language == "de"


def test_an_unknown_preset(refused):
    assert "There is no preset 'multi'. " in refused("init", "--preset", "multi")


def test_python_m_luong_and_a_reader_that_has_gone():
    # The reader closes the pipe at once: no complaint, whatever the exit code.
    process = subprocess.Popen(
        [sys.executable, "-m", "luong", "init"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    process.stdout.close()
    error = process.stderr.read()
    process.stderr.close()
    process.wait()
    assert error == b""
