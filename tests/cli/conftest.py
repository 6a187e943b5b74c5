"""The command line, called in this process."""

import io
import logging
import sys
from typing import NamedTuple

import pytest

from luong.cli import main


class Ended(NamedTuple):
    """How a verb ended."""

    code: int
    out: str
    error: str


@pytest.fixture
def luong(monkeypatch, capsys):
    """Calls `luong` with arguments and the bytes of its standard input; a traceback fails."""
    for name in ("FORCE_COLOR", "TTY_COMPATIBLE", "TTY_INTERACTIVE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("COLUMNS", "200")
    monkeypatch.setattr(logging, "basicConfig", lambda **_: None)

    def run(*arguments, stdin=b""):
        monkeypatch.setattr(sys, "argv", ["luong", *map(str, arguments)])
        monkeypatch.setattr(sys, "stdin", io.TextIOWrapper(io.BytesIO(stdin)))
        code = 0
        try:
            main()
        except SystemExit as end:
            if isinstance(end.code, str):  # as the interpreter does with a message
                print(end.code, file=sys.stderr)
                code = 1
            else:
                code = end.code or 0
        sys.stdout.flush()
        return Ended(code, *capsys.readouterr())

    return run


@pytest.fixture
def refused(luong):
    """Calls `luong` with a mistake: exit code 1, nothing on stdout, one line on stderr."""

    def run(*arguments, stdin=b""):
        ended = luong(*arguments, stdin=stdin)
        assert ended.code == 1
        assert ended.out == ""
        (line,) = ended.error.splitlines()
        assert line.startswith("luong: ")
        assert "Traceback" not in line
        assert line.endswith((".", "?", "luong", ".utf8"))
        return line.removeprefix("luong: ")

    return run
