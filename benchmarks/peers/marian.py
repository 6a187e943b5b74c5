"""Marian, https://marian-nmt.github.io, as its Python wheel pymarian."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.toolkit import HERE, LOG_EVERY, LONGEST, Command, Search, Toolkit


class Marian(Toolkit):
    """Its encoder is twice as wide, and its decoder's first layer has two cells, by its design."""

    name = "marian"
    rate_pattern = r"([\d.]+) words/s"
    seconds_pattern = r"seconds ([\d.]+)"

    def variables(self) -> dict[str, str]:
        return {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}

    def train(self, updates: int) -> Command:
        vocabulary = str(self.data / "vocabulary.marian.yml")
        table = {
            "type": "s2s",
            "enc-type": "bidirectional",
            "enc-cell": "lstm",
            "dec-cell": "lstm",
            "enc-depth": 1,
            "dec-depth": 1,
            "dim-emb": 256,
            "dim-rnn": 512,
            "dropout-rnn": 0.3,
            "dim-vocabs": [7998, 7998],
            "train-sets": [str(self.data / f"train.sp.{language}") for language in ("en", "de")],
            "vocabs": [vocabulary, vocabulary],
            "optimizer": "adam",
            "learn-rate": 0.001,
            "mini-batch": 64,
            "maxi-batch": 100,
            "max-length": LONGEST,
            "clip-norm": 1,
            "cost-type": "ce-mean-words",
            "disp-label-counts": True,
            "disp-freq": LOG_EVERY,
            "save-freq": "10000000u",
            "after": f"{updates}u",
            "workspace": 2048,
            "seed": 1,
            "cpu-threads": self.threads,
        }
        config = self.settings("train.yml", table)
        return Command([self.program("pymarian"), "-c", config, "-m", f"{self.model}.npz"])

    def translate(self, search: Search, output: Path) -> Command:
        vocabulary = self.data / "vocabulary.marian.yml"
        threads = 1 if search.batch == 1 else self.threads
        options = (
            f"-m {self.model}.npz -v {vocabulary} {vocabulary} --cpu-threads {threads} "
            f"-b {search.beam} --mini-batch {search.batch} --maxi-batch 100 --maxi-batch-sort src "
            f"--normalize 1 --max-length {LONGEST} --quiet --quiet-translation"
        )
        words = [self.program("python"), str(HERE / "translator.py"), "marian", options]
        source = self.data / f"{search.split}.sp.en"
        return Command([*words, str(search.beam), str(search.batch), str(source), str(output)])
