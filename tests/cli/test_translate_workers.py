"""`--workers`: the same output from several processes, none of which stays behind."""

import os
import signal
import subprocess
import sys
from contextlib import suppress

import pytest

LINES = "".join(f"eins zwei {word}\n" for word in ["drei", "", "vier fünf", "sechs"] * 5)


def test_the_output_is_that_of_one_process(luong, trained, tmp_path):
    def run(*options):
        path = tmp_path / "links"
        ended = luong(
            *("translate", trained, "--int8", "--n-best", 2, "--batch-size", 3),
            *("--alignments", path, *options),
            stdin=LINES.encode(),
        )
        return ended, path.read_text()

    assert run("--workers", 2) == run()


def test_a_folder_that_is_none_is_told_once(refused, tmp_path):
    message = refused("translate", tmp_path, "--workers", 2, stdin=b"eins\n")
    assert "is not a model folder" in message


def test_no_workers_are_a_wrong_option(luong, trained):
    assert luong("translate", trained, "--workers", 0).code == 2


@pytest.fixture
def started(trained):
    """`luong translate --workers 2` amid an endless input, as a shell starts it."""
    process = subprocess.Popen(
        [sys.executable, "-m", "luong", "translate", trained, "--workers", "2", "--batch-size=1"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        start_new_session=True,
    )
    # As much as two chunks and less than a pipe holds; the end of the input never comes.
    process.stdin.write(b"eins zwei drei vier\n" * 130)
    process.stdin.flush()
    assert process.stdout.readline().endswith(b"\n")
    yield process
    process.stdin.close()
    process.stdout.close()
    process.stderr.close()


@pytest.mark.slow
def test_ctrl_c_ends_all_processes(started):
    os.killpg(started.pid, signal.SIGINT)
    # The error stream ends with the last process that holds it.
    assert started.stderr.read().strip() in (b"", b"Aborted!", b"Aborted.")
    assert started.wait() == 130


@pytest.mark.slow
def test_a_reader_that_has_gone_ends_all_processes(started):
    started.stdout.close()
    with suppress(BrokenPipeError):  # It may have noticed already.
        started.stdin.write(b"eins\n" * 500)
        started.stdin.close()
    assert started.stderr.read() == b""
    assert started.wait() == 1


@pytest.mark.slow
def test_workers_end_with_a_translator_that_is_killed(started):
    started.kill()
    assert started.stderr.read() == b""
