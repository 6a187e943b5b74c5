"""How cost grows with hidden size, vocabulary, length and corpus size: one table and one plot.

    python -m benchmarks.growth [--only hidden ...] [--results growth.json] [--output PAGE]
                                [--plot PICTURE]

One size is varied at a time around hidden 512, vocabulary 8,000 and length 16. Each figure is a
run of a few seconds. With --results what was measured is kept, so that parts may run one by one
and the table and the plot hold all of them. Dotted lines of the plot start from the size common to
all and grow as the multiply-adds of the model do.
"""

from __future__ import annotations

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from benchmarks.page import put_section, table
from benchmarks.synthetic import encoded, make_batch, make_model, make_updater, search
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patheffects import withStroke
from matplotlib.ticker import FixedLocator, FuncFormatter, LogLocator, NullFormatter, NullLocator

from luong.benchmark.machine import description
from luong.benchmark.process import alone, peak_growth
from luong.config import PairFiles
from luong.models import Seq2Seq
from luong.text.batches import Batch, BatchLoader, collate, plan
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.words import WordTokenizer
from luong.view.curves import INK
from luong.view.figure import save_figure

CHAPTER = "How cost grows"
BASE = {"hidden": 512, "vocabulary": 8000, "length": 16}
SIZES = {
    "hidden": (128, 256, 512, 1024),
    "vocabulary": (2000, 8000, 32_000, 128_000),
    "length": (8, 16, 32, 64, 128),
    "corpus": (1000, 10_000, 100_000, 1_000_000),
}
NAMES = {
    "hidden": "hidden size",
    "vocabulary": "vocabulary",
    "length": "tokens a side",
    "corpus": "lines of the corpus",
}
EMBEDDING, BATCH_TOKENS = 256, 1024
BEAM, SENTENCES = 5, 32
BLUE, ORANGE, GREEN = "#3a7bd5", "#e07b28", "#2a9d74"

Row = dict[str, Any]


def rates(call: Callable[[], object], amount: int, seconds: float) -> list[float]:
    """Median, least and most of `amount` over the seconds of a call, for about so long."""
    call()
    found: list[float] = []
    end = time.perf_counter() + seconds
    while len(found) < 2 or time.perf_counter() < end:
        start = time.perf_counter()
        call()
        found.append(amount / (time.perf_counter() - start))
    return [statistics.median(found), min(found), max(found)]


def model_row(axis: str, size: int, seconds: float) -> Row:
    """Training and decoding with one size of the model or its data."""
    sizes = BASE | {axis: size}
    length = sizes["length"]
    model = make_model(hidden=sizes["hidden"], vocabulary=sizes["vocabulary"], embedding=EMBEDDING)
    pairs = BATCH_TOKENS // length
    batch = make_batch(pairs, length, length, sizes["vocabulary"])
    training = _training(model, batch, seconds)
    model.zero_grad()
    sources = make_batch(SENTENCES, length, length, sizes["vocabulary"])

    def decode() -> None:
        search(model, encoded(model, sources), beam=BEAM, length=length)

    return {"training": training, "decoding": rates(decode, SENTENCES, seconds)}


def _training(model: Seq2Seq, batch: Batch, seconds: float) -> list[float]:
    # In a function of its own, so that the optimiser's memory is free again after it.
    updater = make_updater(model)
    return rates(lambda: updater.update([batch], 1e-4), batch.target_tokens, seconds)


def multiply_adds(hidden: int, vocabulary: int, length: int, beam: int = 1) -> float:
    """Multiply-adds of a target token, forward; with a beam, of a step of all its hypotheses."""
    half = hidden // 2
    source = 8 * half * (EMBEDDING + half) + hidden * hidden
    step = 4 * hidden * (EMBEDDING + 2 * hidden) + 2 * hidden * hidden + hidden * vocabulary
    return source + beam * (step + 2 * length * hidden)


def corpus_row(lines: int, seconds: float) -> Row:
    """Reading a corpus of so many lines: what its index takes, and how fast batches come."""
    with tempfile.TemporaryDirectory() as folder:
        files = PairFiles(source=Path(folder) / "source", target=Path(folder) / "target")
        for seed, path in enumerate((files.source, files.target)):
            _write_lines(path, lines, seed)
        return alone(_load, files, seconds)


def _write_lines(path: Path, lines: int, seed: int) -> None:
    """Lines of 8 to 23 words; the n-th word comes up in proportion to 1 / n, as words do."""
    random = np.random.default_rng(seed)
    letters = random.integers(ord("a"), ord("z") + 1, (7990, 9), np.uint8)
    words = np.array([row[: 2 + row[0] % 8].tobytes().decode() for row in letters])
    share = 1 / np.arange(1, len(words) + 1)
    with path.open("w", encoding="utf-8") as file:
        for first in range(0, lines, 10_000):
            sizes = random.integers(8, 24, min(10_000, lines - first))
            chosen = words[random.choice(len(words), sizes.sum(), p=share / share.sum())]
            for line in np.split(chosen, sizes.cumsum()[:-1]):
                file.write(" ".join(line) + "\n")


def _load(files: PairFiles, seconds: float) -> Row:
    torch.set_num_threads(1)
    corpus = ParallelCorpus.open(files)
    first = [corpus[line] for line in range(min(1000, len(corpus)))]
    tokenizers = [WordTokenizer.train(side, 8000) for side in zip(*first, strict=True)]
    del corpus
    row: Row = {}

    def work() -> None:
        start = time.perf_counter()
        dataset = Dataset(ParallelCorpus.open(files), *tokenizers, max_length=250)
        row["index_seconds"] = time.perf_counter() - start
        found: list[float] = []
        end = time.perf_counter() + seconds
        tokens, start = 0, time.perf_counter()
        for batch in _batches(dataset, row):
            tokens += batch
            if (now := time.perf_counter()) - start >= seconds / 8:
                found.append(tokens / (now - start))
                tokens, start = 0, now
            if now >= end and len(found) >= 2:
                break
        row["loading"] = [statistics.median(found), min(found), max(found)]

    row["peak_mib"] = peak_growth(work)
    return row


def _batches(dataset: Dataset, row: Row) -> Iterator[int]:
    """Target tokens of one batch after the other, epoch after epoch."""
    epoch = 1
    while True:
        start = time.perf_counter()
        batches = plan(
            dataset.source_lengths,
            dataset.target_lengths,
            batch_tokens=BATCH_TOKENS,
            seed=1,
            epoch=epoch,
        )
        row.setdefault("planning_seconds", time.perf_counter() - start)
        with BatchLoader(partial(collate, dataset), batches) as loader:
            for batch in loader:
                yield batch.target_tokens
        epoch += 1


def markdown(found: dict[str, dict[str, Row]]) -> str:
    """All results as one table."""
    rows = []
    for axis, measured in found.items():
        for size, row in sorted(measured.items(), key=lambda item: int(item[0])):
            cells = [f"{NAMES[axis]} {int(size):,}"]
            if axis == "corpus":
                cells += ["-", "-", _spread(row["loading"]), f"{row['peak_mib']:.0f}"]
                cells += [f"{row['index_seconds']:.1f} + {row['planning_seconds']:.2f}"]
            else:
                cells += [_spread(row["training"]), _spread(row["decoding"]), "-", "-", "-"]
            rows.append(cells)
    return table(
        [
            "size",
            "training, target tokens/s",
            "decoding, sentences/s",
            "loading, target tokens/s",
            "peak of loading, MiB",
            "index + plan, s",
        ],
        rows,
    )


def _spread(numbers: Sequence[float]) -> str:
    places = 0 if numbers[0] >= 100 else 1 if numbers[0] >= 10 else 2
    median, low, high = (f"{number:,.{places}f}" for number in numbers)
    return f"{median} ({low}-{high})"


def draw(found: dict[str, dict[str, Row]], path: Path) -> None:
    """The same as a picture: a column for each size that is varied."""
    figure = Figure(figsize=(13.0, 6.2), layout="constrained")
    panels = figure.subplots(2, len(SIZES))
    top = ("training", "training, target tokens/s", BLUE)
    bottom = ("decoding", "decoding, sentences/s", ORANGE)
    for row, (key, label, colour) in enumerate((top, bottom)):
        shared = panels[row][:-1]
        for axes, axis in zip(shared, list(SIZES)[:-1], strict=True):
            values = {int(size): one[key] for size, one in found.get(axis, {}).items()}
            _line(axes, values, colour, _expected(axis, key, values))
        heights = [y for axes in shared for line in axes.lines for y in line.get_ydata()]
        for number, axes in enumerate(shared):
            if heights:
                axes.set_ylim(min(heights) / 1.5, 1.8 * max(heights))
            _finish(axes, list(SIZES)[number], label, first=number == 0, log=True)
    if panels[0, 0].lines:
        panels[0, 0].legend(frameon=False, fontsize=9, labelcolor=INK, loc="lower left")
    corpus = {int(size): one for size, one in found.get("corpus", {}).items()}
    last = (
        ("loading, target tokens/s", {n: one["loading"] for n, one in corpus.items()}),
        ("peak memory of loading, MiB", {n: [one["peak_mib"]] * 3 for n, one in corpus.items()}),
    )
    for axes, (label, values) in zip(panels[:, -1], last, strict=True):
        _line(axes, values, GREEN, {})
        axes.set_ylim(0, 1.25 * max((high for _, _, high in values.values()), default=1))
        _finish(axes, "corpus", label, first=True, log=False)
    save_figure(figure, path)


def _expected(axis: str, key: str, values: dict[int, list[float]]) -> dict[int, float]:
    """What multiply-adds alone would make of the rate at the size common to all."""
    if BASE[axis] not in values:
        return {}

    def cost(size: int) -> float:
        sizes = BASE | {axis: size}
        if key == "training":
            return multiply_adds(**sizes)
        return sizes["length"] * multiply_adds(**sizes, beam=BEAM)

    base = values[BASE[axis]][0] * cost(BASE[axis])
    return {size: base / cost(size) for size in values}


def _line(
    axes: Axes, values: dict[int, list[float]], colour: str, expected: dict[int, float]
) -> None:
    sizes = sorted(values)
    if expected:
        style = {"color": INK, "lw": 1.2, "label": "as multiply-adds grow"}
        axes.plot(sizes, [expected[size] for size in sizes], ":", **style)
    middle, low, high = ([values[size][n] for size in sizes] for n in range(3))
    axes.fill_between(sizes, low, high, color=colour, alpha=0.18, lw=0)
    axes.plot(sizes, middle, color=colour, marker="o", markersize=4, lw=1.8)
    for size, value in zip(sizes, middle, strict=True):
        axes.annotate(
            _short(value),
            (size, value),
            xytext=(0, 7),
            textcoords="offset points",
            ha="center",
            fontsize=8.5,
            color=INK,
            path_effects=[withStroke(linewidth=3, foreground="white")],
        )


def _finish(axes: Axes, axis: str, label: str, *, first: bool, log: bool) -> None:
    sizes = SIZES[axis]
    axes.set_xscale("log", base=2 if axis != "corpus" else 10)
    axes.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)
    axes.xaxis.set_major_locator(FixedLocator(list(sizes)))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(
        FuncFormatter(lambda value, _: f"{value:,.0f}" if value % 1000 else _short(value))
    )
    if log:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        axes.yaxis.set_minor_formatter(NullFormatter())
        axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: _short(value)))
    axes.set_xlabel(NAMES[axis], fontsize=10, color=INK)
    if first:
        axes.set_title(label, loc="left", fontsize=11, color=INK)
    axes.tick_params(colors=INK, labelsize=9, labelleft=first)
    axes.grid(color=INK, alpha=0.13, lw=0.6)
    for side, spine in axes.spines.items():
        spine.set(color=INK, linewidth=0.8, visible=side in ("left", "bottom"))


def _short(value: float) -> str:
    if value >= 1e6:
        return f"{value / 1e6:.3g}M"
    if value >= 1e3:
        return f"{value / 1e3:.3g}k"
    return f"{value:.3g}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--only", nargs="*", choices=list(SIZES), default=list(SIZES))
    parser.add_argument("--sizes", nargs="+", type=int, help="of the one part of --only")
    parser.add_argument("--seconds", type=float, default=2.5, help="of each measurement")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--results", type=Path, help="a JSON file to add to")
    parser.add_argument("--output", type=Path, help="a page whose section is replaced")
    parser.add_argument("--plot", type=Path, help="a picture to write")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    kept = options.results and options.results.exists()
    found: dict[str, dict[str, Row]] = json.loads(options.results.read_text()) if kept else {}
    for axis in options.only:
        for size in options.sizes or SIZES[axis]:
            row = corpus_row if axis == "corpus" else model_row
            arguments = (size,) if axis == "corpus" else (axis, size)
            found.setdefault(axis, {})[str(size)] = row(*arguments, options.seconds)
            print(axis, size, found[axis][str(size)], flush=True)
            if options.results:
                options.results.write_text(json.dumps(found, indent=1))
    found = {axis: found[axis] for axis in SIZES if axis in found}
    machine = description(options.threads)
    about = "; ".join(machine[key] for key in ("processor", "versions", "date"))
    text = f"{markdown(found)}\n\nMedian (least-most); {options.threads} threads; {about}."
    print(f"\n{text}")
    if options.output:
        put_section(options.output, CHAPTER, "Sizes, one at a time", text)
    if options.plot:
        draw(found, options.plot)


if __name__ == "__main__":
    main()
