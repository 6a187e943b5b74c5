"""Batches of pairs: planned by length, padded, and loaded ahead of the model."""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from luong.text.copying import NOT_COPIED
from luong.text.dataset import Dataset
from luong.text.vocabulary import BEGIN, END, PAD

_SOURCE_BUDGET = 4
"""Padded source positions of a batch, as a multiple of its padded target positions."""

# Wide steps pad targets more and sources less; which is best depends on how many batches there
# are and how closely the lengths of both sides agree.
_LENGTH_STEPS = (1.05, 1.15, 1.3)


class TrainingBatch(Protocol):
    """What the loop needs of a batch of any task."""

    @property
    def source_tokens(self) -> int:
        """Tokens read."""

    @property
    def target_tokens(self) -> int:
        """What the loss is a mean over: target tokens, or documents."""

    @property
    def examples(self) -> int:
        """Pairs or documents."""

    @property
    def noun(self) -> str:
        """What an example is called."""

    def halves(self) -> Sequence[TrainingBatch]:
        """Two batches of half the examples; this one if it has only one."""


class Batch(NamedTuple):
    """Pairs as padded ids, teacher forcing prepared; B pairs, S and T the longest sides."""

    source: Tensor
    """(B, S) int64: tokens, `END`, then `PAD`."""
    source_lengths: Tensor
    """(B,) int64: source tokens, `END` counted."""
    target_input: Tensor
    """(B, T) int64: `BEGIN`, tokens, then `PAD`."""
    target_output: Tensor
    """(B, T) int64: tokens, `END`, then `PAD`; ids from the vocabulary's size on are copies."""
    indices: Tensor
    """(B,) int64: the line numbers of the corpus, from 0 on."""
    copies: Tensor | None = None
    """(B, S) int64: source tokens as target tokens, else `NOT_COPIED`; None without copying."""

    @property
    def source_tokens(self) -> int:
        """Source tokens of all pairs, end symbols counted, padding not."""
        return int(self.source_lengths.sum())

    @property
    def target_tokens(self) -> int:
        """Target tokens of all pairs, end symbols counted, padding not."""
        return int((self.target_output != PAD).sum())

    @property
    def examples(self) -> int:
        """Pairs."""
        return len(self.source)

    @property
    def noun(self) -> str:
        """What an example is called."""
        return "pair"

    def to(self, device: torch.device | str) -> Batch:
        """The same batch on a device."""
        return Batch(
            *(None if part is None else part.to(device, non_blocking=True) for part in self)  # type: ignore[arg-type]
        )

    def halves(self) -> list[Batch]:
        """Two batches of half the pairs; this one if there is only one pair."""
        middle = len(self.source) // 2
        parts = [slice(0, middle), slice(middle, None)] if middle else [slice(None)]
        return [
            Batch(*(None if tensor is None else tensor[part] for tensor in self))  # type: ignore[arg-type]
            for part in parts
        ]


def plan(
    source_lengths: npt.NDArray[np.integer],
    target_lengths: npt.NDArray[np.integer],
    *,
    batch_tokens: int,
    seed: int,
    epoch: int,
) -> list[npt.NDArray[np.int64]]:
    """Group pairs of like length into batches, in random order.

    Pairs are sorted by target length in coarse steps, then by source length; ties are random. A
    batch takes the next pairs while its padded target positions are at most `batch_tokens` and
    its padded source positions at most four times that; a pair beyond these is a batch of its
    own. Of a few widths of the steps, the one that pads least is taken.

    Args:
        source_lengths: (N,) source tokens of each pair, end symbol counted.
        target_lengths: (N,) target tokens of each pair, end symbol counted.
        batch_tokens: Padded target positions of a batch, at most.
        seed: Seed of the run.
        epoch: The epoch; the plan is a function of the arguments alone.

    Returns:
        For each batch, positions of its pairs in the arrays; each pair is in one batch.

    Example:
        >>> plan(np.array([3, 4]), np.array([2, 9]), batch_tokens=9, seed=1, epoch=0)
        [array([0]), array([1])]
    """
    random = np.random.default_rng([seed, epoch])
    targets = target_lengths.astype(np.int64)
    sources = source_lengths.astype(np.int64)
    ties = random.permutation(len(targets))
    plans = []
    for step in _LENGTH_STEPS:
        _, bucket = np.unique(np.log(targets) // np.log(step), return_inverse=True)
        # Sources rise in one bucket and fall in the next: a batch that spans two buckets then
        # holds neighbours on both sides.
        rising_or_falling = np.where(bucket % 2, -sources, sources)
        order = np.lexsort((ties, targets, rising_or_falling, bucket))
        plans.append(_cut(order, sources[order], targets[order], batch_tokens))
    _, batches = min(plans, key=lambda positions_and_batches: positions_and_batches[0])
    return [batches[index] for index in random.permutation(len(batches))]


def _cut(
    order: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int64],
    targets: npt.NDArray[np.int64],
    batch_tokens: int,
) -> tuple[int, list[npt.NDArray[np.int64]]]:
    """Cut ordered pairs into the largest batches allowed; padded positions, and the batches."""
    batches = []
    positions = start = 0
    while start < len(order):
        # No batch that starts here can hold more pairs than this.
        near = slice(start, start + max(1, batch_tokens // int(targets[start])))
        sizes = np.arange(1, len(targets[near]) + 1)
        target_positions = sizes * np.maximum.accumulate(targets[near])
        source_positions = sizes * np.maximum.accumulate(sources[near])
        fits = target_positions <= batch_tokens
        fits &= source_positions <= _SOURCE_BUDGET * batch_tokens
        # Both counts grow with every pair, so those that fit come first.
        size = max(1, int(np.count_nonzero(fits)))
        positions += int(target_positions[size - 1] + source_positions[size - 1])
        batches.append(order[start : start + size])
        start += size
    return positions, batches


def collate(dataset: Dataset, positions: Sequence[int] | npt.NDArray[np.integer]) -> Batch:
    """Read, tokenise and pad pairs of a data set.

    Args:
        dataset: The data set.
        positions: Positions in the data set, as `plan` gives them.
    """
    lines = [int(dataset.lines[position]) for position in positions]
    pairs = [dataset.read(line) for line in lines]
    copies = [[*pair.copies, NOT_COPIED] for pair in pairs]
    return Batch(
        source=padded([[*pair.source, END] for pair in pairs]),
        source_lengths=torch.tensor([len(pair.source) + 1 for pair in pairs]),
        target_input=padded([[BEGIN, *pair.target] for pair in pairs]),
        target_output=padded([[*pair.output, END] for pair in pairs]),
        indices=torch.tensor(lines),
        copies=padded(copies, NOT_COPIED) if dataset.copies else None,
    )


def padded(rows: list[list[int]], filler: int = PAD) -> Tensor:
    """Ids of unequal lengths as one tensor, int64.

    Example:
        >>> padded([[5, 3], [3]])
        tensor([[5, 3],
                [3, 0]])
    """
    width = max(map(len, rows))
    # One array at once: a tensor for each row costs more than the tokenising.
    array = np.array([row + [filler] * (width - len(row)) for row in rows], np.int64)
    return torch.from_numpy(array)


class BatchLoader:
    """Iterates over the batches of a plan while a thread prepares the next ones.

    Use it in a `with` block, or close it; the thread stops at the end of the plan, too. An
    error in the thread is raised from the iteration.

    Args:
        make: Makes a batch of some positions, in the thread.
        batches: The plan of its batches.
        position: The first batch of the plan to load.
        prefetch: The most batches that wait for the model.

    Attributes:
        waited: Seconds that the iteration has waited for batches.

    Example:
        >>> with BatchLoader(partial(collate, dataset), plan(...)) as batches:
        ...     for batch in batches:
        ...         train(batch)
    """

    def __init__(
        self,
        make: Callable[[npt.NDArray[np.int64]], Any],
        batches: Sequence[npt.NDArray[np.int64]],
        position: int = 0,
        prefetch: int = 4,
    ) -> None:
        if not 0 <= position <= len(batches):
            raise ValueError(f"position {position} is not in a plan of {len(batches)} batches")
        self.waited = 0.0
        self._make = make
        self._batches = batches[position:]
        self._ready: queue.Queue[Any] = queue.Queue(prefetch)
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._prepare, name="batches", daemon=True)
        self._thread.start()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Any:
        if self._closed.is_set():
            raise StopIteration
        start = time.perf_counter()
        ready = self._ready.get()
        self.waited += time.perf_counter() - start
        if ready is not None and not isinstance(ready, BaseException):
            return ready
        self.close()
        if ready is None:
            raise StopIteration
        raise ready

    def close(self) -> None:
        """Stop the thread and wait until it has ended."""
        self._closed.set()
        self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    def _prepare(self) -> None:
        last: BaseException | None = None
        try:
            for positions in self._batches:
                if not self._put(self._make(positions)):
                    return
        except BaseException as error:
            last = error
        self._put(last)

    def _put(self, ready: Any) -> bool:
        """Hand over what is ready; False if nobody wants it any more."""
        while not self._closed.is_set():
            try:
                self._ready.put(ready, timeout=0.05)
                return True
            except queue.Full:
                continue
        return False
