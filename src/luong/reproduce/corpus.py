"""The corpus of an experiment: training, validation and test pairs, and gold links."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import NamedTuple

from luong.config import PairFiles
from luong.errors import UserError
from luong.evaluation import GoldAlignment, read_gold
from luong.text.corpus import ParallelCorpus
from luong.text.vocabulary import SPECIAL_TOKENS
from luong.text.words import split_words

VALIDATION_NAMES = ("dev", "val", "valid")
COVERAGE = 0.97
"""The share of the running words of the target that the vocabulary knows, unless it is given."""


class GoldPairs(NamedTuple):
    """Sentence pairs that people have aligned."""

    sources: list[str]
    targets: list[str]
    links: list[GoldAlignment]


class Corpus(NamedTuple):
    """What an experiment trains, validates and tests on.

    Attributes:
        source_language: The ending of the source files.
        target_language: The ending of the target files.
        train: Training pairs.
        valid: Validation pairs.
        sources: Test sources.
        references: Their translations.
        gold: Pairs with gold links, where there are any.
    """

    source_language: str
    target_language: str
    train: PairFiles
    valid: PairFiles
    sources: list[str]
    references: list[str]
    gold: GoldPairs | None


class Words(NamedTuple):
    """What counting the words of the training pairs tells.

    Attributes:
        source_length: Mean words of a source line.
        vocabulary_size: Words of each side that the systems know, special tokens included.
        source_unknown: The share of the running source words that they do not know.
        target_unknown: The same of the target.
    """

    source_length: float
    vocabulary_size: int
    source_unknown: float
    target_unknown: float


def open_corpus(folder: Path, languages: str, test: str = "test") -> Corpus:
    """Find the files of a corpus.

    They are named `train`, `dev` (or `val`, `valid`) and `test`, with the language as ending:
    `train.de`, `train.en`, .... Where `gold.de`, `gold.en` and `gold.align` are there, too, they
    are pairs with gold links, see `read_gold`.

    Args:
        folder: Where they lie.
        languages: The endings of source and target, such as "de-en".
        test: The name of the test files, without their endings.

    Raises:
        UserError: A file is missing or cannot be read, or two do not match.
    """
    source, hyphen, target = languages.partition("-")
    if not (source and hyphen and target) or "-" in target:
        raise UserError(
            f"--languages {languages}: expected the endings of source and target files, as in "
            "de-en."
        )
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Name the folder of train.{source} and so on.")

    def files(name: str) -> PairFiles:
        return PairFiles(source=folder / f"{name}.{source}", target=folder / f"{name}.{target}")

    known = [name for name in VALIDATION_NAMES if (folder / f"{name}.{source}").exists()]
    tested = ParallelCorpus.open(files(test))
    gold = None
    if (folder / "gold.align").exists():
        aligned = ParallelCorpus.open(files("gold"))
        links = read_gold(folder / "gold.align")
        if len(links) != len(aligned):
            raise UserError(
                f"{aligned.name} have {len(aligned)} lines and gold.align has {len(links)}: line "
                "n of each belongs to pair n."
            )
        gold = GoldPairs(list(aligned.source_lines()), list(aligned.target_lines()), links)
    return Corpus(
        source,
        target,
        files("train"),
        files(known[0] if known else VALIDATION_NAMES[0]),
        list(tested.source_lines()),
        list(tested.target_lines()),
        gold,
    )


def count_words(train: PairFiles, vocabulary_size: int = 0) -> Words:
    """Count words, and choose a vocabulary that leaves some of them unknown.

    Args:
        train: The training pairs.
        vocabulary_size: Of each side; 0: so many words that they are `COVERAGE` of the running
            words of the target.
    """
    corpus = ParallelCorpus.open(train)
    sides = []
    for lines in (corpus.source_lines(), corpus.target_lines()):
        counts: Counter[str] = Counter()
        for line in lines:
            counts.update(split_words(line)[0])
        sides.append(counts)
    frequencies = [sorted(counts.values(), reverse=True) for counts in sides]
    totals = [max(1, counts.total()) for counts in sides]
    if not vocabulary_size:
        words = covered = 0
        while covered < COVERAGE * totals[1] and words < len(frequencies[1]):
            covered += frequencies[1][words]
            words += 1
        vocabulary_size = words + len(SPECIAL_TOKENS)
    kept = max(0, vocabulary_size - len(SPECIAL_TOKENS))
    unknown = [sum(f[kept:]) / total for f, total in zip(frequencies, totals, strict=True)]
    return Words(totals[0] / len(corpus), vocabulary_size, *unknown)
