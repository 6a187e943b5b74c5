"""Bahdanau 2015, "Neural machine translation by jointly learning to align and translate".

Its Figure 2 shows that an encoder-decoder without attention, which squeezes a sentence into one
vector, loses on long sentences what one with attention keeps.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from luong.evaluation import corpus_scores
from luong.files import write_whole
from luong.reproduce.corpus import Corpus
from luong.reproduce.experiment import Experiment, Size, draw_alignments, run_experiment
from luong.reproduce.system import OUTPUT, Published, System
from luong.reproduce.table import Row, format_table
from luong.view.chart import line_chart

# Table 1, trained on sentences of up to 50 words, all test sentences.
SYSTEMS = (
    (
        "RNNencdec, without attention",
        System(
            "rnnencdec",
            {"bidirectional": False, "attention": {"score": "none"}},
        ),
        Published("", "17.82"),
    ),
    (
        "RNNsearch, with attention",
        System(
            "rnnsearch",
            {"attention": {"score": "additive", "placement": "bahdanau"}},
        ),
        Published("", "26.75"),
    ),
)
GROUPS = 6
_LEAST_SENTENCES = 20


class LengthGroup(NamedTuple):
    """Test sentences of like length.

    Attributes:
        length: Their mean length in source words.
        lines: Which they are.
    """

    length: float
    lines: list[int]


def length_groups(lengths: Sequence[int], groups: int = GROUPS) -> list[LengthGroup]:
    """Group sentences by length, so that groups are about equally large.

    Sentences of one length are never parted, and a group has 20 sentences at least, if there are
    as many.

    Args:
        lengths: Of all sentences.
        groups: The most groups.

    Example:
        >>> [group.length for group in length_groups([1] * 30 + [2] * 30 + [9] * 30)]
        [1.0, 2.0, 9.0]
    """
    least = max(_LEAST_SENTENCES, -(-len(lengths) // groups))
    order = sorted(range(len(lengths)), key=lengths.__getitem__)
    found: list[list[int]] = []
    for line in order:
        full = found and len(found[-1]) >= least
        if not found or (full and lengths[line] != lengths[found[-1][-1]]):
            found.append([])
        found[-1].append(line)
    if len(found) > 1 and len(found[-1]) < _LEAST_SENTENCES:
        found[-2] += found.pop()
    return [LengthGroup(sum(lengths[n] for n in lines) / len(lines), lines) for lines in found]


def reproduce(
    corpus: Corpus, size: Size, minutes: float, output: Path, console: Console
) -> str | None:
    """Train with and without attention, and draw BLEU over sentence length.

    Args:
        corpus: What to train on.
        size: How large the systems are.
        minutes: The budget of both together.
        output: Where systems, table and pictures are written.
        console: Where to show progress.

    Returns:
        The table, and BLEU of each group of lengths, as text; None if Ctrl-C stopped it, and it
        can be resumed.

    Raises:
        UserError: The data or the settings are unfit, or the folder holds another experiment.
    """
    systems = [system for _, system, _ in SYSTEMS]
    done = run_experiment(systems, corpus, size, minutes, output, console, _shared)
    if done is None:
        return None
    names = [system.name for system in systems]
    groups = length_groups([len(source.split()) for source in corpus.sources])
    points = {name: _bleu_by_length(done, name, groups) for name in names}
    line_chart(
        points,
        x="source words",
        y="BLEU",
        title="BLEU over sentence length",
        path=output / "bleu-by-length.png",
    )
    line_chart(
        done.curves(names),
        x="update",
        y="validation perplexity",
        logarithmic=True,
        path=output / "curves.png",
    )
    draw_alignments(done, ["rnnsearch"], output / "alignments")
    rows = [Row(label, done.measured[system.name], printed) for label, system, printed in SYSTEMS]
    text = f"{format_table('Table 1', rows)}\n\n{_lengths(groups, points)}"
    write_whole(output / "table.txt", f"{text}\n".encode())
    return text


def _shared(_source_length: float) -> dict[str, object]:
    """What both models of the paper have."""
    return {"cell": "gru", "dropout": 0.2, "attention": {"input_feeding": False}}


def _bleu_by_length(
    done: Experiment, name: str, groups: Sequence[LengthGroup]
) -> list[tuple[float, float]]:
    """Mean length and BLEU of each group."""
    translated = (done.output / name / OUTPUT).read_text(encoding="utf-8").split("\n")
    corpus = done.corpus
    return [
        (
            group.length,
            corpus_scores(
                [translated[line] for line in group.lines],
                [corpus.references[line] for line in group.lines],
                target_language=corpus.target_language,
            ).bleu,
        )
        for group in groups
    ]


def _lengths(groups: Sequence[LengthGroup], points: dict[str, list[tuple[float, float]]]) -> str:
    """The figure in numbers."""
    lines = ["source words" + "".join(f"{group.length:8.1f}" for group in groups)]
    lines.append("sentences   " + "".join(f"{len(group.lines):8}" for group in groups))
    for name, values in points.items():
        lines.append(name.ljust(12) + "".join(f"{bleu:8.1f}" for _, bleu in values))
    return "\n".join(lines)
