"""Where the time of a call goes, in rooms that a person understands, by torch's profiler.

While a call is profiled, functions of luong run under labels. An operation belongs to the label
that it runs under; one of the backward pass to that of the operation it differentiates. The time
between operations, which is Python's, belongs to the label, too.
"""

from __future__ import annotations

import functools
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

import torch
from torch.autograd.profiler_util import FunctionEvent
from torch.profiler import ProfilerActivity, profile, record_function

from luong import kernels
from luong.attention import Attention
from luong.models import Seq2Seq
from luong.models.cells import Cell
from luong.models.decoder import Bridge
from luong.models.encoders.recurrent import RecurrentEncoder
from luong.models.output import OutputLayer
from luong.models.quantized_matrix import QuantizedMatrix
from luong.models.shared_weight import SharedWeight
from luong.training import loss, update

OUTPUT = "output layer, softmax, loss"
PRODUCTS = "decoder's products"
ELEMENTS = "LSTM's element-wise part"
ATTENTION = "attention"
ENCODER = "encoder"
OPTIMISER = "clipping and optimiser"
BEAMS = "beam search's bookkeeping"
OTHER = "embeddings, dropout, copies, rest"

_ENCLOSING = (OTHER, BEAMS)
"""Rooms within which a label opens another; inside the others all belongs to them."""

_LABELS: tuple[tuple[Any, str, str], ...] = (
    (Seq2Seq, "forward", OTHER),
    (Seq2Seq, "step", OTHER),
    (RecurrentEncoder, "forward", ENCODER),
    (Attention, "prepare", ATTENTION),
    (Attention, "forward", ATTENTION),
    (Bridge, "forward", PRODUCTS),
    (Cell, "project", PRODUCTS),
    (SharedWeight, "__init__", PRODUCTS),
    (SharedWeight, "product", PRODUCTS),
    (QuantizedMatrix, "product", PRODUCTS),
    (kernels, "lstm_update", ELEMENTS),
    (OutputLayer, "forward", OUTPUT),
    (kernels, "log_softmax", OUTPUT),
    (kernels, "best_continuations", OUTPUT),
    (loss, "output_loss", OUTPUT),
    (update, "clipped_step", OPTIMISER),
    (torch.nn.utils, "get_total_norm", OPTIMISER),
    (torch.optim.Optimizer, "zero_grad", OPTIMISER),
)
_PREFIX = "room: "
_BACKWARD = "autograd::engine::evaluate_function"


def shares(call: Callable[[], object], room: str) -> dict[str, float]:
    """The share of each room in the time of a call; `room` has what has no label."""
    cpu = [ProfilerActivity.CPU]
    with _labelled(room), profile(activities=cpu) as profiler, record_function(_PREFIX + room):
        call()
    events = [event for event in profiler.events() if event.device_type.name == "CPU"]
    forward = _creators(events)
    seconds: dict[str, float] = defaultdict(float)
    for event in events:
        found = _room(event, forward)
        if found is not None:
            seconds[found] += event.self_cpu_time_total
    total = sum(seconds.values())
    return {name: time / total for name, time in seconds.items()}


@contextmanager
def _labelled(room: str) -> Iterator[None]:
    opened = [room]

    def within(function: Callable[..., Any], label: str) -> Callable[..., Any]:
        @functools.wraps(function)
        def labelled(*arguments: Any, **options: Any) -> Any:
            if opened[-1] not in _ENCLOSING:
                return function(*arguments, **options)
            opened.append(label)
            try:
                with record_function(_PREFIX + label):
                    return function(*arguments, **options)
            finally:
                opened.pop()

        return labelled

    patches = [
        mock.patch.object(owner, name, within(getattr(owner, name), label))
        for owner, name, label in _LABELS
    ]
    for patch in patches:
        patch.start()
    try:
        yield
    finally:
        for patch in patches:
            patch.stop()


def _creators(events: list[FunctionEvent]) -> dict[int, FunctionEvent]:
    """By its number, the forward operation that made a node of the graph: the last to bear it."""
    creators: dict[int, FunctionEvent] = {}
    for event in sorted(events, key=lambda event: event.time_range.start):
        if event.sequence_nr >= 0 and not _in_backward(event):
            creators[event.sequence_nr] = event
    return creators


def _in_backward(event: FunctionEvent | None) -> bool:
    while event is not None:
        if event.name.startswith(_BACKWARD):
            return True
        event = event.cpu_parent
    return False


def _room(event: FunctionEvent | None, creators: dict[int, FunctionEvent]) -> str | None:
    while event is not None:
        if event.name.startswith(_PREFIX):
            return event.name.removeprefix(_PREFIX)
        if event.name.startswith(_BACKWARD) and event.sequence_nr in creators:
            return _room(creators[event.sequence_nr], {})
        event = event.cpu_parent
    return None
