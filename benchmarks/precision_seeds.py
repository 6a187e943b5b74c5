"""Whether a model learns as well in every way of multiplying: dev loss over seeds.

    python -m benchmarks.precision_seeds [--epochs 1] [--seeds 1 2 3] [--output PAGE]

Trains the demo's corpus for a fixed number of updates, with the settings of its preset, once for
each seed and each way that this CPU has, and takes the loss of the held-out pairs at the end.
"""

from __future__ import annotations

import argparse
import io
import json
import statistics
import tempfile
import time
import tomllib
from importlib import resources
from pathlib import Path
from unittest import mock

import torch
from benchmarks.page import put_section, table
from rich.console import Console

from luong.benchmark.machine import description
from luong.config import RunConfig, parse_config
from luong.errors import UserError
from luong.presets import preset_text
from luong.training import loop, train
from luong.training.precision import Precision, choose_precision

CHAPTER, TITLE = "Ways of multiplying", "Loss over seeds"


def ways() -> list[Precision]:
    """All ways of multiplying that this CPU has."""
    found = [Precision(torch.float32), Precision(torch.float32, "onednn")]
    try:
        found.append(choose_precision("bfloat16", torch.device("cpu")))
    except UserError as error:
        print(f"no bfloat16: {error}", flush=True)
    return found


def settings(data: Path, output: Path, seed: int, epochs: int) -> RunConfig:
    table = tomllib.loads(preset_text("demo"))
    for part in ("train", "valid"):
        files = table["data"][part]
        table["data"][part] = {side: str(data / name) for side, name in files.items()}
    # The clock must not decide how long a run is; validation comes once, at the end.
    table["training"] |= {"max_minutes": 0.0, "max_epochs": epochs, "validate_every": 10**9}
    return parse_config(table | {"output": str(output), "seed": seed})


def final(data: Path, way: Precision, seed: int, epochs: int) -> tuple[int, float, float]:
    """Updates, dev loss in nats a token, and BLEU of a run."""
    with tempfile.TemporaryDirectory() as folder:
        config = settings(data, Path(folder) / "run", seed, epochs)
        with mock.patch.object(loop, "choose_precision", return_value=way):
            train(config, console=Console(file=io.StringIO()))
        rows = [json.loads(line) for line in (config.output / "metrics.jsonl").open()]
    last = [row for row in rows if row["kind"] == "validation"][-1]
    return last["step"], last["loss"], last["bleu"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--epochs", type=int, default=1)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--output", type=Path, help="a page whose section is replaced")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    losses: dict[str, list[float]] = {}
    rows, updates = [], 0
    with resources.as_file(resources.files("luong.data")) as data:
        for way in ways():
            found = []
            for seed in options.seeds:
                start = time.perf_counter()
                updates, loss, bleu = final(data, way, seed, options.epochs)
                found.append(loss)
                seconds = time.perf_counter() - start
                print(
                    f"{way.name}, seed {seed}: {loss:.4f}, {bleu:.1f}, {seconds:.0f} s", flush=True
                )
            losses[way.name] = found
            deviation = statistics.stdev(found) if len(found) > 1 else 0.0
            rows.append(
                [way.name, *(f"{x:.4f}" for x in (*found, statistics.mean(found), deviation))]
            )
    plain, *others = losses
    lines = []
    for name in others:
        pairs = zip(losses[name], losses[plain], strict=True)
        differences = [loss - base for loss, base in pairs]
        told = ", ".join(f"{difference:+.4f}" for difference in differences)
        mean = statistics.mean(differences)
        lines.append(f"{name} less {plain}, seed by seed: {told}; mean {mean:+.4f}.")
    headings = ["products", *(f"seed {seed}" for seed in options.seeds), "mean", "deviation"]
    machine = description(options.threads)
    about = "; ".join(machine[key] for key in ("processor", "instructions", "versions", "date"))
    text = (
        f"Loss of the held-out pairs after {updates} updates, nats a token; deviation: of the "
        f"seeds.\n\n{table(headings, rows)}\n\n{' '.join(lines)}\n\n"
        f"Threads: {options.threads}; {about}."
    )
    print(f"\n{text}")
    if options.output:
        put_section(options.output, CHAPTER, TITLE, text)


if __name__ == "__main__":
    main()
