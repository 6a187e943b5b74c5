"""Where the time of a training step and of a decoding step goes, and what products alone need.

    python -m benchmarks.step_profile [--only training greedy ...] [--output docs/performance.md]

In each round a step is timed, then profiled, then each of its products is timed by itself: by the
faster of luong's product and torch's, and in its best grouping, so that all weight gradients of a
loop are one product. Their sum is the limit. Times of rooms are their shares in the profile times
the unprofiled time of the same round.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

import torch
from benchmarks import rooms
from benchmarks.page import put_section, table
from benchmarks.synthetic import encoded, make_batch, make_model, make_updater, search
from torch import Tensor, nn

from luong.benchmark.machine import description
from luong.benchmark.timing import PAUSE, timed
from luong.kernels import products
from luong.models.quantized import quantize
from luong.models.quantized_matrix import QuantizedMatrix
from luong.training.precision import autocast

CHAPTER = "One step"
PAIRS, SOURCE, TARGET = 64, 16, 17
EMBEDDING, HIDDEN, VOCABULARY = 256, 512, 8000
GATES = 4 * HIDDEN
SEARCHES = {
    "greedy": ("Decoding: greedy, 1 sentence", 1, 1),
    "beam": ("Decoding: beam 5, 1 sentence", 5, 1),
    "batch": ("Decoding: beam 5, 32 sentences", 5, 32),
}
ORDER = (
    rooms.OUTPUT,
    rooms.PRODUCTS,
    rooms.ELEMENTS,
    rooms.ATTENTION,
    rooms.ENCODER,
    rooms.OPTIMISER,
    rooms.BEAMS,
    rooms.OTHER,
)

Call = Callable[[], object]


class Product(NamedTuple):
    """A product of a step: its room, and the ways to compute it."""

    room: str
    ways: Sequence[Call]


class Measured(NamedTuple):
    """Milliseconds, one number a round: of the step, and of each room; medians of products."""

    step: list[float]
    rooms: dict[str, list[float]]
    products: dict[str, float]

    @property
    def limit(self) -> float:
        return sum(self.products.values())


def measure(call: Call, room: str, parts: Sequence[Product], rounds: int, steps: int) -> Measured:
    """Time, profile and compare, in turn, `rounds` times; a call makes `steps` steps."""
    call()
    rooms.shares(call, room)
    ways = [(number, way) for number, part in enumerate(parts) for way in part.ways]
    for _, way in ways:
        way()
    found = Measured([], {name: [] for name in ORDER}, {})
    seconds: list[list[float]] = [[] for _ in ways]
    for _ in range(rounds):
        time.sleep(PAUSE)
        found.step.append(1e3 * timed(call)[0] / steps)
        shares = rooms.shares(call, room)
        for name, times in found.rooms.items():
            times.append(shares.get(name, 0.0) * found.step[-1])
        for times, (_, way) in zip(seconds, ways, strict=True):
            times.append(1e3 * timed(way)[0] / steps)
    best: dict[int, float] = {}
    for times, (number, _) in zip(seconds, ways, strict=True):
        best[number] = min(best.get(number, float("inf")), statistics.median(times))
    for number, milliseconds in best.items():
        name = parts[number].room
        found.products[name] = found.products.get(name, 0.0) + milliseconds
    return found


def training_products(dtype: torch.dtype) -> list[Product]:
    """All products of an update, forward and backward, with the encoder's LSTMs as they are."""
    tokens = PAIRS * TARGET

    def layer(room: str, rows: int, inputs: int, outputs: int, times: int = 1) -> list[Product]:
        """Forward, to the inputs and to the weights; the last is one product of all `times`."""
        x, y = torch.randn(rows, inputs).to(dtype), torch.randn(rows, outputs).to(dtype)
        weight = torch.randn(outputs, inputs).to(dtype)
        all_x = torch.randn(rows * times, inputs).to(dtype)
        all_y = torch.randn(rows * times, outputs).to(dtype)
        return [
            Product(room, _ways(x, weight, times)),
            Product(room, _ways(y, weight.t(), times)),
            Product(room, [lambda: all_y.t() @ all_x]),
        ]

    return [
        *layer(rooms.OUTPUT, tokens, HIDDEN, VOCABULARY),
        *layer(rooms.PRODUCTS, tokens, EMBEDDING, GATES),
        *layer(rooms.PRODUCTS, PAIRS, 2 * HIDDEN, GATES, TARGET),
        *layer(rooms.PRODUCTS, PAIRS, 2 * HIDDEN, HIDDEN, TARGET),
        *layer(rooms.PRODUCTS, PAIRS, HIDDEN, 2 * HIDDEN),  # the bridge
        *layer(rooms.ATTENTION, PAIRS * SOURCE, HIDDEN, HIDDEN),
        *_attention(PAIRS, 1, TARGET, backward=True),
        Product(rooms.ENCODER, [_encoder(dtype)]),
    ]


def _ways(inputs: Tensor, weight: Tensor, times: int) -> list[Call]:
    """The product inputs W^T so many times, by luong's choice of library and by torch's."""

    def repeated(product: Callable[[Tensor, Tensor], Tensor], factor: Tensor) -> Call:
        def call() -> None:
            for _ in range(times):
                product(inputs, factor)

        return call

    return [repeated(products.multiply, weight), repeated(torch.mm, weight.t())]


def _attention(sentences: int, rows: int, times: int, *, backward: bool) -> list[Product]:
    """Scores and contexts, `times` steps; backward, keys and values get theirs in one product."""
    query, memory = torch.randn(sentences, rows, HIDDEN), torch.randn(sentences, SOURCE, HIDDEN)
    weights = torch.randn(sentences, rows, SOURCE)
    turned = memory.transpose(1, 2)

    def forward() -> None:
        for _ in range(times):
            torch.bmm(query, turned)
            torch.bmm(weights, memory)

    found = [Product(rooms.ATTENTION, [forward])]
    if backward:
        # To the weights and to the query: the same two products; then, once, to keys and values.
        found.append(Product(rooms.ATTENTION, [forward]))
        left = torch.randn(sentences, SOURCE, times)
        right = torch.randn(sentences, times, HIDDEN)
        once = [lambda: torch.bmm(left, right)]
        found += [Product(rooms.ATTENTION, once), Product(rooms.ATTENTION, once)]
    return found


def _encoder(dtype: torch.dtype) -> Call:
    lstms = [nn.LSTM(EMBEDDING, HIDDEN // 2, batch_first=True) for _ in range(2)]
    inputs = torch.randn(PAIRS, SOURCE, EMBEDDING, requires_grad=True)
    incoming = torch.randn(PAIRS, SOURCE, HIDDEN // 2).to(dtype)

    def call() -> None:
        for lstm in lstms:
            with autocast(torch.device("cpu"), dtype):
                outputs = lstm(inputs)[0]
            outputs.backward(incoming)

    return call


def decoding_products(sentences: int, beam: int, steps: int, int8: bool) -> list[Product]:
    """All products of `steps` steps of a search."""
    rows = sentences * beam

    def layer(room: str, inputs: int, outputs: int) -> Product:
        x, weight = torch.randn(rows, inputs), torch.randn(outputs, inputs)
        if not int8:
            return Product(room, _ways(x, weight, steps))
        matrix = QuantizedMatrix(weight)

        def call() -> None:
            for _ in range(steps):
                matrix.product(x)

        return Product(room, [call])

    return [
        layer(rooms.OUTPUT, HIDDEN, VOCABULARY),
        layer(rooms.PRODUCTS, 2 * HIDDEN, GATES),
        layer(rooms.PRODUCTS, 2 * HIDDEN, HIDDEN),
        *_attention(sentences, beam, steps, backward=False),
    ]


def training(rounds: int) -> tuple[str, str]:
    """Title and text of the training step."""
    batch = make_batch(PAIRS, SOURCE, TARGET, VOCABULARY)
    ways = {"float32": torch.float32}
    if torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported():
        ways["bfloat16"] = torch.bfloat16
    found, rates = {}, []
    for name, dtype in ways.items():
        torch.manual_seed(1)
        updater = make_updater(make_model(), dtype)
        parts = training_products(dtype)
        found[name] = measure(
            lambda updater=updater: updater.update([batch], 1e-4), rooms.OTHER, parts, rounds, 1
        )
        rate = PAIRS * TARGET / statistics.median(found[name].step) * 1e3
        rates.append(f"{rate:,.0f} target tokens/s in {name}")
    note = f"{PAIRS} pairs of {SOURCE} and {TARGET} tokens: {' and '.join(rates)}."
    return f"Training, {PAIRS} pairs", f"{note}\n\n{_table(found)}"


def decoding(name: str, rounds: int) -> tuple[str, str]:
    """Title and text of a search's step."""
    torch.manual_seed(1)
    title, beam, sentences = SEARCHES[name]
    batch = make_batch(sentences, SOURCE, TARGET, VOCABULARY)
    model = make_model()
    models = {"float32": model, "int8": copy.deepcopy(model)}
    quantize(models["int8"])
    found = {}
    for kind, one in models.items():
        start = encoded(one, batch)
        parts = decoding_products(sentences, beam, TARGET, kind == "int8")
        with torch.inference_mode():
            found[kind] = measure(
                lambda one=one, start=start: search(one, start, beam=beam, length=TARGET),
                rooms.BEAMS,
                parts,
                rounds,
                TARGET,
            )
    note = (
        f"A step of a search of {TARGET} steps, sources of {SOURCE} tokens, after encoding; the "
        "hypotheses' tracing back is in its bookkeeping."
    )
    return title, f"{note}\n\n{_table(found)}"


def _table(found: dict[str, Measured]) -> str:
    headings = ["part"]
    for kind in found:
        headings += [f"{kind}, ms", "share", "products alone, ms"]
    rows = []
    for room in ORDER:
        cells = [room]
        for one in found.values():
            share = statistics.median(one.rooms[room]) / statistics.median(one.step)
            alone = one.products.get(room)
            cells += [_spread(one.rooms[room]), f"{share:.0%}", _number(alone) if alone else "-"]
        if any(max(one.rooms[room]) for one in found.values()):
            rows.append(cells)
    total = ["**step**"]
    for one in found.values():
        total += [f"**{_spread(one.step)}**", "100%", f"**{_number(one.limit)}**"]
    ratios = ", ".join(
        f"**{statistics.median(one.step) / one.limit:.2f}** in {kind}"
        for kind, one in found.items()
    )
    return f"{table(headings, [*rows, total])}\n\nStep over the limit by products: {ratios}."


def _spread(times: Sequence[float]) -> str:
    return f"{_number(statistics.median(times))} ({_number(min(times))}-{_number(max(times))})"


def _number(milliseconds: float) -> str:
    places = 0 if milliseconds >= 100 else 1 if milliseconds >= 10 else 2
    return f"{milliseconds:.{places}f}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    names = ["training", *SEARCHES]
    parser.add_argument("--only", nargs="+", choices=names, default=names)
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--output", type=Path, help="a page whose sections are replaced")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    machine = description(options.threads)
    about = "; ".join(machine[key] for key in ("processor", "instructions", "versions", "date"))
    for name in options.only:
        made = training(options.rounds) if name == "training" else decoding(name, options.rounds)
        title, text = made
        text += (
            f"\n\nMedians of {options.rounds} rounds (least-most); {options.threads} threads; "
            f"{about}."
        )
        print(f"### {title}\n\n{text}\n", flush=True)
        if options.output:
            put_section(options.output, CHAPTER, title, text)


if __name__ == "__main__":
    main()
