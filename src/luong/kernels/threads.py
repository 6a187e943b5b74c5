"""A small pool of threads for functions that run without the interpreter lock.

It uses as many threads as torch does (`torch.set_num_threads`), counts the calling thread as one
of them, and is made anew in the child after a fork.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import torch

_lock = threading.Lock()
_pool: ThreadPoolExecutor | None = None
_size = 0


def _forget() -> None:
    """Drop the parent's threads, which do not live in a forked child, and its lock's state."""
    global _lock, _pool, _size
    _lock = threading.Lock()
    _pool = None
    _size = 0


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget)


def share(task: Callable[[int], object], count: int, *, inline: bool = False) -> None:
    """Call task(0) to task(count - 1), shared between threads, and wait for them all.

    Which thread runs a task, and how many there are, is left to chance: a task must write only
    what is its own.

    Args:
        task: Called with its number; it must not call `share` again.
        count: How many tasks.
        inline: Stay on the calling thread, for work that is not worth waking another.

    Raises:
        Exception: Whatever a task raised.

    Example:
        >>> squares = [0] * 3
        >>> share(lambda i: squares.__setitem__(i, i * i), 3)
        >>> squares
        [0, 1, 4]
    """
    helpers = 0 if inline else min(torch.get_num_threads(), count) - 1
    if helpers <= 0:
        for number in range(count):
            task(number)
        return
    numbers = iter(range(count))  # One `next` of it is atomic, so no number is taken twice.
    futures = _submit(lambda: _work(task, numbers), helpers)
    try:
        _work(task, numbers)
    finally:
        # Helpers that were never started, because others keep the pool busy, are not waited for.
        started = [future for future in futures if not future.cancel()]
        errors = [future.exception() for future in started]
    for error in errors:
        if error is not None:
            raise error


def _work(task: Callable[[int], object], numbers: Iterator[int]) -> None:
    for number in numbers:
        task(number)


def _submit(work: Callable[[], None], helpers: int) -> list[Future[None]]:
    global _pool, _size
    with _lock:
        if _pool is None or _size < helpers:
            if _pool is not None:
                _pool.shutdown(wait=False)
            _pool = ThreadPoolExecutor(helpers, thread_name_prefix="luong")
            _size = helpers
        try:
            return [_pool.submit(work) for _ in range(helpers)]
        except RuntimeError:  # The interpreter is shutting down; the caller does it all.
            return []
