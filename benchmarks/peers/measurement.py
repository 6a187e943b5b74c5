"""Running a toolkit's command, to its end or by turns with others, and reading its log."""

from __future__ import annotations

import fcntl
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from itertools import pairwise
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

    def finish(self, *, expected: bool = False) -> None:
        """Wait for its end, which must be good, unless it was interrupted as `expected`."""
        if self._process.wait() and not expected:
            raise RuntimeError(f"{' '.join(self.command.words)} failed:\n{self.text()[-2000:]}")

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

    def processor_seconds(self) -> float:
        """Processor time of the command and all it started; its sleep and its waits not counted."""
        ticks = 0
        for path in Path("/proc").glob("[0-9]*/stat"):
            with suppress(OSError):
                # The name, in brackets, may hold anything; after it come the state and numbers.
                numbers = path.read_text().rpartition(")")[2].split()
                if int(numbers[3]) == self._process.pid:
                    ticks += int(numbers[11]) + int(numbers[12])
        return ticks / os.sysconf("SC_CLK_TCK")

    def turn(self, seconds: float) -> list[float]:
        """Go on for so long, then pause again; the rates of the intervals that lie within."""
        before = len(self.rates())
        self.signal(signal.SIGCONT)
        time.sleep(seconds)
        self.signal(signal.SIGSTOP)
        # The first interval began before the pause.
        return self.rates()[before + 1 :]


def train(
    toolkit: Toolkit, command: Command, log: Path, done: Callable[[], bool]
) -> list[tuple[float, float]]:
    """Run a training to its end, or interrupt it once it is done.

    Returns:
        Of each interval of its log but the first two: target tokens a second of wall-clock time,
        and a second of processor time.
    """
    marks: list[tuple[int, float, float]] = []
    with Process(toolkit, command, log) as process:
        while process.running and not done():
            count = len(process.rates())
            if count > (marks[-1][0] if marks else 0):
                marks.append((count, time.monotonic(), process.processor_seconds()))
            time.sleep(0.05)
        rates = process.rates()
        if interrupted := process.running:
            process.signal(signal.SIGINT)
        process.finish(expected=interrupted)
    found = []
    for (before, start, spent), (count, end, total) in pairwise(marks):
        if count == before + 1 and count > 2:
            rate = rates[count - 1]
            found.append((rate, rate * (end - start) / (total - spent)))
    return found


def run(toolkit: Toolkit, command: Command, log: Path) -> tuple[str, float]:
    """Run a command to its end.

    Returns:
        What it wrote, and its processor time in seconds.
    """
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    with Process(toolkit, command, log) as process:
        process.finish()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return process.text(), spent
