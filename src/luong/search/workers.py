"""A translator that shares its batches between several processes."""

from __future__ import annotations

import signal
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection
from queue import SimpleQueue
from types import TracebackType
from typing import Any, NamedTuple, Self

import torch

from luong.errors import UserError
from luong.search.chunks import Source, batch_places
from luong.search.ensemble import FolderPaths, load_folders
from luong.search.settings import SearchSettings
from luong.search.translation import Translation, blank_translation
from luong.search.translator import Translator

_CHUNKS_AHEAD = 1  # chunks in work behind the one whose results are given out

_Plain = list[list[dict[str, Any]]]  # translations as they travel between processes


@contextmanager
def open_translator(
    path: FolderPaths, *, workers: int = 1, device: str = "cpu", int8: bool = False
) -> Iterator[Translator]:
    """A translator in this process, or a `TranslatorPool` of several, for a `with` block.

    Args:
        path: The model folder, or those of an ensemble.
        workers: How many processes; 1 translates in this one.
        device: Where to compute.
        int8: Put the weights in int8.

    Raises:
        UserError: As `TranslatorPool`.

    Example:
        >>> with open_translator("runs/de-en", workers=2) as translator:
        ...     translator.translate("ein Hund").text
        'a dog'
    """
    if workers == 1:
        yield Translator(load_folders(path, device, int8=int8))
        return
    with TranslatorPool(path, workers=workers, device=device, int8=int8) as pool:
        yield pool


class _Worker(NamedTuple):
    process: Any  # of the context "spawn"
    channel: Connection[Any, Any]


class TranslatorPool(Translator):
    """Translates with several processes, each with the model and its share of the threads.

    Batches are cut as `Translator` cuts them, so results are the same. A stream keeps its order,
    and is read at most one chunk ahead of those that are being translated. Use it in a `with`
    block, at whose end the processes end; a script that makes one needs the usual
    `if __name__ == "__main__":`, since each process imports it.

    Args:
        path: The model folder, or those of an ensemble.
        workers: How many processes; each gets 1 / workers of torch's threads, one at least.
        device: Where to compute.
        int8: Put the weights in int8.

    Raises:
        UserError: The folder or the device cannot be used, or a process has died.

    Example:
        >>> with TranslatorPool("runs/de-en", workers=2) as translator:
        ...     with open("test.de", encoding="utf-8") as file:
        ...         texts = [result.text for result in translator.translate_lines(file)]
    """

    def __init__(
        self, path: FolderPaths, *, workers: int, device: str = "cpu", int8: bool = False
    ) -> None:
        if workers < 1:
            raise ValueError(f"workers must be 1 or more, not {workers}")
        threads = max(1, torch.get_num_threads() // workers)
        self._workers: list[_Worker] = []
        self._idle: SimpleQueue[_Worker] = SimpleQueue()
        self._threads = ThreadPoolExecutor(workers, thread_name_prefix="luong-worker")
        try:
            for _ in range(workers):
                self._workers.append(_start(path, device, int8, threads))
            # Reads the lines here, and tells of a damaged folder while the workers still start.
            super().__init__(load_folders(path))
            for worker in self._workers:
                _receive(worker)
                self._idle.put(worker)
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the processes, whatever they are doing."""
        for process, _ in self._workers:
            process.kill()
        self._threads.shutdown(cancel_futures=True)
        for process, channel in self._workers:
            process.join()
            channel.close()

    def translate_batch(
        self, batch: list[Source], settings: SearchSettings
    ) -> list[list[Translation]]:
        """As `Translator.translate_batch`, by a worker that has nothing to do."""
        worker = self._idle.get()
        try:
            found = _ask(worker, batch, settings)
        finally:
            self._idle.put(worker)
        return [[_unpacked(fields) for fields in group] for group in found]

    def _stream(
        self, lines: Iterable[str], settings: SearchSettings
    ) -> Iterator[list[Translation]]:
        """As of `Translator`, with the batches of two chunks in work at once."""
        ahead: deque[_Chunk] = deque()
        try:
            with closing(self._chunks(lines, settings)) as chunks:
                for chunk in chunks:
                    ahead.append(self._submit(chunk, settings))
                    if len(ahead) > _CHUNKS_AHEAD:
                        yield from _results(ahead[0])
                        ahead.popleft()
                while ahead:
                    yield from _results(ahead[0])
                    ahead.popleft()
        finally:
            for left in ahead:
                for future, _ in left.places.values():
                    future.cancel()

    def _submit(self, chunk: list[Source], settings: SearchSettings) -> _Chunk:
        places = {}
        for batch in batch_places(chunk, settings.sentences):
            sources = [chunk[place] for place in batch]
            future = self._threads.submit(self.translate_batch, sources, settings)
            places.update({place: (future, row) for row, place in enumerate(batch)})
        return _Chunk([source.line for source in chunk], places)


class _Chunk(NamedTuple):
    """Lines in work, and for the place of each that the model reads its batch and row therein."""

    lines: list[str]
    places: dict[int, tuple[Future[list[list[Translation]]], int]]


def _results(chunk: _Chunk) -> Iterator[list[Translation]]:
    """The translations of each line as soon as it and all lines before it are done."""
    for place, line in enumerate(chunk.lines):
        if place in chunk.places:
            future, row = chunk.places[place]
            yield future.result()[row]
        else:
            yield [blank_translation(line)]


def _start(path: FolderPaths, device: str, int8: bool, threads: int) -> _Worker:
    """Start a process; Ctrl-C, which reaches all processes of a terminal, must not reach it."""
    context = get_context("spawn")  # Threads of torch do not survive a fork.
    resource_tracker.ensure_running()  # Its start unblocks Ctrl-C.
    channel, theirs = context.Pipe()
    process = context.Process(
        target=_work, args=(theirs, path, device, int8, threads), daemon=True, name="luong-worker"
    )
    with theirs, _without_interrupts():
        process.start()
    return _Worker(process, channel)


@contextmanager
def _without_interrupts() -> Iterator[None]:
    """Block Ctrl-C, also for processes that start meanwhile; where the system can."""
    if not hasattr(signal, "pthread_sigmask"):
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGINT])
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _ask(worker: _Worker, *request: Any) -> _Plain:
    with suppress(OSError):  # Of one that has died: receiving says how.
        worker.channel.send(request)
    return _receive(worker)


def _receive(worker: _Worker) -> _Plain:
    """What a worker says; what it raised is raised here."""
    try:
        answer = worker.channel.recv()
    except (EOFError, OSError):
        worker.process.join(10)
        code = worker.process.exitcode
        how = f"was killed by signal {-code}" if code and code < 0 else f"ended with code {code}"
        raise UserError(
            f"A worker process {how}, most likely for want of memory. Fewer workers or a smaller "
            "batch size need less."
        ) from None
    if isinstance(answer, Exception):
        raise answer
    return answer  # type: ignore[no-any-return]


def _work(
    channel: Connection[Any, Any], path: FolderPaths, device: str, int8: bool, threads: int
) -> None:
    """A worker: says None when it is ready, then answers batches until the channel ends."""
    torch.set_num_threads(threads)
    try:
        try:
            translator = Translator(load_folders(path, device, int8=int8))
        except UserError as error:
            channel.send(error)
            return
        channel.send(None)
        while True:
            channel.send(_answer(translator, *channel.recv()))
    except (EOFError, BrokenPipeError, ConnectionResetError):
        return  # The process that asks has gone.


def _answer(
    translator: Translator, batch: list[Source], settings: SearchSettings
) -> _Plain | Exception:
    try:
        found = translator.translate_batch(batch, settings)
    except (UserError, ValueError) as error:
        return error
    return [[_packed(item) for item in group] for group in found]


def _packed(translation: Translation) -> dict[str, Any]:
    """A translation without tensors, which would travel as a file in shared memory each."""
    return vars(translation) | {"attention": translation.attention.numpy()}


def _unpacked(fields: dict[str, Any]) -> Translation:
    return Translation(**fields | {"attention": torch.from_numpy(fields["attention"])})
