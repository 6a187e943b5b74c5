"""Running a toolkit's command, to its end or by turns with others, and reading its log."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Self

from benchmarks.peers.toolkit import Command, Toolkit


@contextmanager
def locked(lock: Path | None, *, alone: bool) -> Iterator[None]:
    """Hold a lock file, exclusively or with others; without a file, nothing."""
    if lock is None:
        yield
        return
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX if alone else fcntl.LOCK_SH)
        yield


class Process:
    """A command under way, with everything it started; killed at the end of the block.

    Args:
        toolkit: Whose command it is.
        command: What to run, in the toolkit's environment.
        log: Where its two outputs go.
    """

    def __init__(self, toolkit: Toolkit, command: Command, log: Path) -> None:
        self.toolkit, self.command, self.log = toolkit, command, log

    def __enter__(self) -> Self:
        environment = {**os.environ, **self.toolkit.variables(), **self.command.environment}
        with self.log.open("wb") as file:
            self._process = subprocess.Popen(
                self.command.words,
                stdout=file,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=self.toolkit.work,
                start_new_session=True,
            )
        return self

    def __exit__(self, *_: object) -> None:
        if self.running:
            self.signal(signal.SIGKILL)
        self._process.wait()

    @property
    def running(self) -> bool:
        return self._process.poll() is None

    def wait(self) -> int:
        """The exit status, once it ends."""
        return self._process.wait()

    def signal(self, number: signal.Signals) -> None:
        os.killpg(self._process.pid, number)

    def text(self) -> str:
        return self.log.read_text(errors="replace")

    def wait_until(self, condition: Callable[[], bool]) -> None:
        """Wait for a condition; the process must not end before."""
        while not condition():
            if not self.running:
                words = " ".join(self.command.words)
                raise RuntimeError(f"{words} ended; its log does so:\n{self.text()[-2000:]}")
            time.sleep(0.1)

    def rates(self) -> list[float]:
        """Target tokens a second of all intervals so far."""
        return self.toolkit.rates(self.text())

    def turn(self, seconds: float) -> list[float]:
        """Go on for so long, then pause again; the rates of the intervals that lie within."""
        before = len(self.rates())
        self.signal(signal.SIGCONT)
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)
        # The first interval began before the pause.
        return self.rates()[before + 1 :]


def run(
    toolkit: Toolkit, command: Command, log: Path, done: Callable[[], bool] = lambda: False
) -> str:
    """Run a command to its end, which must be good, or interrupt it once it is done.

    Returns:
        What it wrote.
    """
    with Process(toolkit, command, log) as process:
        while process.running and not done():
            time.sleep(0.1)
        interrupted = process.running
        if interrupted:
            process.signal(signal.SIGINT)
        status = process.wait()
    if status and not interrupted:
        end = process.text()[-2000:]
        raise RuntimeError(f"{' '.join(command.words)} failed; the end of {log}:\n{end}")
    return process.text()
