"""Which row of attention aligns a target word better: that which predicts it, or that it is fed to?

Steps a trained model through given pairs, links each target word to the source word it attends to
most, and prints the alignment error rate (Och and Ney 2003) against gold links for both rows.

    python benchmarks/alignment_rows.py MODEL SOURCE TARGET GOLD [--swap]

GOLD holds a line a pair with links `i-j` (sure) or `i?j` (possible), source word first; --swap for
gold files that name the target word first.
"""

from __future__ import annotations

import argparse
import re
from pathlib import Path

import torch

from luong.config import PairFiles
from luong.folder import ModelFolder, load_folder
from luong.search.links import ALIGNMENT_ROWS, aligned_rows, word_links
from luong.text.corpus import LineFile, ParallelCorpus
from luong.text.vocabulary import BEGIN, END

Links = set[tuple[int, int]]


def gold_links(line: str, swap: bool) -> tuple[Links, Links]:
    """Sure links, and possible ones, which hold the sure ones."""
    found = re.findall(r"(\d+)([-?])(\d+)", line)
    pairs = [((int(j), int(i)) if swap else (int(i), int(j)), kind) for i, kind, j in found]
    return {pair for pair, kind in pairs if kind == "-"}, {pair for pair, _ in pairs}


@torch.inference_mode()
def forced_links(folder: ModelFolder, source: str, target: str, row: str) -> Links:
    """Links of a given pair, from the attention of teacher forcing."""
    read = folder.source_tokenizer.encode(source)
    written = folder.target_tokenizer.encode(target)
    _, weights = folder.model(
        torch.tensor([[*read.ids, END]]),
        torch.tensor([len(read.ids) + 1]),
        torch.tensor([[BEGIN, *written.ids]]),
        need_weights=True,
    )
    rows = aligned_rows(weights[0], row)
    return set(word_links(rows, source, read.spans, target, written.spans))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    for name in ("model", "source", "target", "gold"):
        parser.add_argument(name, type=Path)
    parser.add_argument("--swap", action="store_true")
    arguments = parser.parse_args()
    folder = load_folder(arguments.model)
    pairs = ParallelCorpus.open(PairFiles(source=arguments.source, target=arguments.target))
    gold = [gold_links(line, arguments.swap) for line in LineFile(arguments.gold)]
    for row in ALIGNMENT_ROWS:
        hits = size = 0
        for (source, target), (sure, possible) in zip(pairs, gold, strict=True):
            links = forced_links(folder, source, target, row)
            hits += len(links & sure) + len(links & possible)
            size += len(links) + len(sure)
        print(f"{row:>10}  AER {1 - hits / size:.3f}")


if __name__ == "__main__":
    main()
