"""A quiet console, a trainer that dies or is interrupted, and a clock that only updates move."""

import signal
from io import StringIO
from types import SimpleNamespace

import pytest
from rich.console import Console

from luong.training import loop
from luong.training.report import Report
from luong.training.update import Updater


@pytest.fixture
def console() -> Console:
    """Not a terminal; `console.file.getvalue()` is what was printed."""
    return Console(file=StringIO(), width=200, force_terminal=False)


@pytest.fixture
def stop_after(monkeypatch):
    """Makes the next run end right after the row of an update: killed, or by Ctrl-C."""

    def arrange(step: int, *, kill: bool) -> None:
        write = Report.training
        done = []

        def training(self, row, seconds_left):
            write(self, row, seconds_left)
            if row["step"] == step and not done:
                done.append(step)
                if kill:
                    raise SystemExit("killed")  # as with SIGKILL, nothing is saved after it
                signal.raise_signal(signal.SIGINT)

        monkeypatch.setattr(Report, "training", training)

    return arrange


@pytest.fixture
def clock(monkeypatch):
    """Time as the loop sees it: `clock.step` seconds for each update, none for anything else."""
    # Powers of two, so that sums of seconds are exact.
    clock = SimpleNamespace(now=1024.0, step=0.125)
    update = Updater.update

    def timed(self, *arguments):
        clock.now += clock.step
        return update(self, *arguments)

    monkeypatch.setattr(Updater, "update", timed)
    monkeypatch.setattr(loop, "time", SimpleNamespace(monotonic=lambda: clock.now))
    return clock
