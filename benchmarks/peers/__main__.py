"""Other toolkits and luong, on the same data and model, one after the other on the same machine.

From the root of the repository, with the toolkits installed as docs/performance.md says:

    python -m benchmarks.peers prepare --multi30k FOLDER   # the texts, cut into pieces
    python -m benchmarks.peers throughput                  # real target tokens/s, by turns
    python -m benchmarks.peers train --updates 400         # a model of each, equally trained
    python -m benchmarks.peers decode                      # sentences/s, ms a sentence, BLEU
    python -m benchmarks.peers reach --updates 2400        # how long until a quality is reached
    python -m benchmarks.peers table                       # what was measured, in Markdown

The work folder is --work, or the environment variable PEERS. Rows are added to its
throughput.jsonl, training.jsonl, decoding.jsonl and reaching.jsonl as they are measured; `table`
takes medians.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import statistics
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import sacrebleu
from benchmarks.peers.corpus import joined, prepare
from benchmarks.peers.measurement import Process, locked, run, train
from benchmarks.peers.tables import (
    decoding_table,
    reaching_table,
    throughput_table,
    training_table,
)
from benchmarks.peers.toolkit import Search, Toolkit
from benchmarks.peers.toolkits import TOOLKITS

ORDER = [
    *("opennmt", "luong", "plain", "plain-onednn"),
    *("fairseq", "luong", "joeynmt", "marian"),
]
"""Each turn of luong is near those of the toolkits it is compared with."""
ENDLESS = 1_000_000
SEARCHES = [
    Search(beam, batch, split)
    for batch, split in ((32, "test_2016_flickr"), (1, "first200"))
    for beam in (1, 5)
]


class Comparison:
    """Measures the chosen toolkits in turn.

    Args:
        arguments: Of the command line.
    """

    def __init__(self, arguments: argparse.Namespace) -> None:
        self.arguments = arguments
        self.work: Path = arguments.work.resolve()
        kinds = [TOOLKITS[name] for name in arguments.toolkits]
        every = arguments.every if arguments.verb == "reach" else None
        # A training for its pace alone must not take the place of a trained model.
        runs = {"reach": "reach", "throughput": "throughput"}.get(arguments.verb, "runs")
        self.toolkits = [kind(self.work, arguments.threads, every, runs) for kind in kinds]

    def _ready(self, toolkit: Toolkit) -> None:
        """An empty place for a model, and whatever the toolkit prepares."""
        toolkit.run.mkdir(parents=True, exist_ok=True)
        if toolkit.model.is_dir():
            shutil.rmtree(toolkit.model)
        if command := toolkit.preparation():
            with locked(self.arguments.lock, alone=False):
                run(toolkit, command, toolkit.run / "preparation.log")

    def _add(self, name: str, row: dict[str, Any]) -> None:
        with (self.work / f"{name}.jsonl").open("a") as file:
            file.write(json.dumps(row) + "\n")
        print(json.dumps(row), flush=True)

    def _each(self, measure: Callable[[Toolkit, int], None]) -> None:
        """All toolkits, so often, in turn; one that fails does not stop the others."""
        for repeat in range(1, self.arguments.repeats + 1):
            for toolkit in self.toolkits:
                try:
                    measure(toolkit, repeat)
                except (OSError, RuntimeError, ValueError) as error:
                    print(f"{toolkit.name}: {error}", flush=True)

    def throughput(self) -> None:
        """Trainings that take turns: all are started and paused, and then each goes on alone.

        So nothing of a start is measured, and all see the machine in the same minutes.
        """
        arguments = self.arguments
        with ExitStack() as stack:
            processes: dict[str, Process] = {}
            for toolkit in self.toolkits:
                if toolkit.name in processes:
                    continue
                self._ready(toolkit)
                command = toolkit.train(ENDLESS)
                process = Process(toolkit, command, toolkit.run / "throughput.log")
                with locked(arguments.lock, alone=False):
                    stack.enter_context(process)
                    process.wait_until(lambda process=process: len(process.rates()) >= 2)
                    process.signal(signal.SIGSTOP)
                processes[toolkit.name] = process
            turns = list(enumerate(self.toolkits)) * arguments.repeats
            at_once = max(1, int(arguments.hold / arguments.seconds))
            for first in range(0, len(turns), at_once):
                with locked(arguments.lock, alone=True):
                    for place, toolkit in turns[first : first + at_once]:
                        rates = processes[toolkit.name].turn(arguments.seconds)
                        if not rates:
                            print(f"{toolkit.name}: no interval in time; give more --seconds")
                            continue
                        row = {"toolkit": toolkit.name, "place": place, "rates": rates}
                        rate = statistics.median(rates)
                        self._add("throughput", {**row, "tokens_per_second": rate})

    def train(self) -> None:
        """A model of each, after an equal number of updates; beside other work."""
        updates = self.arguments.updates
        for toolkit in self.toolkits:
            self._ready(toolkit)
            command = toolkit.train(updates)
            with locked(self.arguments.lock, alone=False):
                done = partial(toolkit.done, updates)
                rates = train(toolkit, command, toolkit.run / "train.log", done)
            row = {"toolkit": toolkit.name, "updates": updates, "threads": toolkit.threads}
            self._add("training", {**row, "rates": rates})

    def reach(self) -> None:
        """The quality of beam search on the validation lines after every so many updates.

        With the processor time until then: one thread each, so that other work changes little.
        Neither this search is in it, nor what a toolkit validates by itself.
        """
        arguments, search = self.arguments, Search(5, 32, "val")
        for toolkit in self.toolkits:
            self._ready(toolkit)
            spent: list[float] = []

            with Process(toolkit, toolkit.train(arguments.updates), toolkit.run / "log") as process:
                while process.running and not toolkit.done(arguments.updates):
                    seconds = process.processor_seconds()
                    spent += [seconds] * (len(toolkit.checkpoints()) - len(spent))
                    time.sleep(0.2)
                paths = toolkit.checkpoints()
                spent += [spent[-1]] * (len(paths) - len(spent))
            for number, (path, seconds) in enumerate(zip(paths, spent, strict=True), 1):
                toolkit.checkpoint = path
                output = toolkit.run / "val.de"
                log, _ = run(toolkit, toolkit.translate(search, output), toolkit.run / "val.log")
                quality = self._quality(toolkit, search, output, log)
                row = {"toolkit": toolkit.name, "updates": number * arguments.every}
                training = seconds - toolkit.validating(number)
                row |= {"processor_seconds": training, "threads": toolkit.threads}
                self._add("reaching", {**row, "bleu": quality["bleu"]})
                if quality["bleu"] >= arguments.bleu:
                    break

    def decode(self) -> None:
        """Every search with every model, timed alone on the machine.

        Loading does not count: of the processor time, that of a run over eight lines is taken off.
        """
        alone = not self.arguments.busy

        def measure(toolkit: Toolkit, repeat: int) -> None:
            toolkit.run.mkdir(parents=True, exist_ok=True)
            for search in SEARCHES:
                spent = []
                for split in (search.split,) if alone else (search.split, "first8"):
                    output = toolkit.run / f"{search.name.replace(' ', '-')}.{split}.de"
                    command = toolkit.translate(replace(search, split=split), output)
                    with locked(self.arguments.lock, alone=alone):
                        log, seconds = run(toolkit, command, toolkit.run / f"translate.{split}.log")
                    spent.append((log, seconds, output))
                log, _, output = spent[0]
                quality = self._quality(toolkit, search, output, log)
                row = {"toolkit": toolkit.name, "repeat": repeat, "search": search.name, **quality}
                if not alone:
                    whole, start = spent[0][1], spent[1][1]
                    milliseconds = 1000 * (whole - start) / (quality["lines"] - 8)
                    row["processor_milliseconds_per_sentence"] = milliseconds
                self._add("decoding", {**row, "busy": not alone, "threads": toolkit.threads})

        self._each(measure)

    def _quality(self, toolkit: Toolkit, search: Search, output: Path, log: str) -> dict[str, Any]:
        lines = output.read_text().splitlines()
        texts = [joined(line) for line in lines] if toolkit.writes_pieces else lines
        references = (toolkit.data / f"{search.split}.de").read_text().splitlines()
        seconds = toolkit.seconds(log, len(references))
        if len(texts) != len(references):
            raise RuntimeError(f"{len(texts)} translations of {len(references)} lines")
        words = sum(len(text.split()) for text in texts) / len(texts)
        return {
            "lines": len(references),
            "seconds": seconds,
            "sentences_per_second": len(references) / seconds,
            "milliseconds_per_sentence": 1000 * seconds / len(references),
            "bleu": sacrebleu.corpus_bleu(texts, [references]).score,
            "words_per_sentence": words,
        }

    def table(self) -> None:
        """Medians and spreads of all rows so far, by toolkit."""
        tables = (
            ("throughput", throughput_table),
            ("training", training_table),
            ("decoding", decoding_table),
            ("reaching", reaching_table),
        )
        for name, table in tables:
            path = self.work / f"{name}.jsonl"
            if path.exists():
                print(table([json.loads(line) for line in path.read_text().splitlines()]) + "\n")


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "verb", choices=["prepare", "throughput", "train", "decode", "reach", "table"]
    )
    add = parser.add_argument
    add("--work", type=Path, default=Path(os.environ.get("PEERS", "runs/peers")))
    add("--multi30k", type=Path, help="prepare: the folder with train.en, train.de and so on")
    add("--toolkits", nargs="+", default=ORDER, choices=list(TOOLKITS))
    add("--repeats", type=int, default=3)
    add("--seconds", type=float, default=14, help="throughput: of a turn")
    add("--hold", type=float, default=58, help="throughput: how long the lock is held at most")
    add("--updates", type=int, default=400, help="train: of each model")
    add("--every", type=int, default=200, help="reach: updates between checkpoints")
    add("--bleu", type=float, default=33.0, help="reach: the quality to be reached")
    add("--threads", type=int, default=os.cpu_count())
    add("--busy", action="store_true", help="decode: do not wait for the machine to be free")
    add("--lock", type=Path, help="held while something is timed, on a shared machine")
    arguments = parser.parse_args()
    # So that what is under way ends too.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    if arguments.verb != "prepare":
        getattr(Comparison(arguments), arguments.verb)()
    elif arguments.multi30k is None:
        parser.error("prepare needs --multi30k")
    else:
        prepare(arguments.multi30k, arguments.work / "data")


if __name__ == "__main__":
    main()
