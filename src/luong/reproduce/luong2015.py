"""Luong 2015, "Effective approaches to attention-based neural machine translation".

Table 1 adds one thing after another to a plain encoder-decoder; Table 4 compares scores and
windows, all with reversed sources, dropout and input feeding.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from luong.files import write_whole
from luong.folder import read_settings
from luong.reproduce.corpus import Corpus
from luong.reproduce.experiment import Experiment, Size, draw_alignments, run_experiment
from luong.reproduce.system import Measured, Published, System, measure, read_result
from luong.reproduce.table import Row, format_table
from luong.view.chart import line_chart

MEMBERS = 8
"""Of the ensemble, as in the paper."""

_REGULAR = {"reverse_source": True, "dropout": 0.2}


def _attending(score: str, window: str, *, feeding: bool = True) -> System:
    name = f"{window}-{score}" + ("" if feeding else "-no-feeding")
    attention = {"score": score, "window": window, "input_feeding": feeding}
    return System(name, {**_REGULAR, "attention": attention})


def _plain(name: str, **model: object) -> System:
    return System(name, {**model, "attention": {"score": "none", "input_feeding": False}})


# The lines of Table 1 that are trained, from the first rung to the last.
LADDER = (
    ("base", _plain("base"), Published("10.6", "11.3")),
    ("+ reverse", _plain("reverse", reverse_source=True), Published("9.9", "12.6")),
    ("+ dropout", _plain("dropout", **_REGULAR), Published("8.1", "14.0")),
    (
        "+ global attention (location)",
        _attending("location", "global", feeding=False),
        Published("7.3", "16.8"),
    ),
    ("+ input feeding", _attending("location", "global"), Published("6.4", "18.1")),
    (
        "local-p attention (general) instead",
        _attending("general", "local-p"),
        Published("5.9", "19.0"),
    ),
)
# What the last lines of Table 1 printed, which train nothing.
REPLACED = Published("5.9", "", "20.9")
ENSEMBLE = Published("", "", "23.0", "0.34")

# Table 4; perplexities of concat are from section 5.3, alignment error rates from Table 6.
GRID = (
    (
        "global, location",
        _attending("location", "global"),
        Published("6.4", "18.1", "19.3", "0.39"),
    ),
    ("global, dot", _attending("dot", "global"), Published("6.1", "18.6", "20.5")),
    ("global, general", _attending("general", "global"), Published("6.1", "17.3", "19.1")),
    ("global, concat", _attending("concat", "global"), Published("6.7")),
    ("local-m, dot", _attending("dot", "local-m"), Published(">7.0", "x", "x")),
    (
        "local-m, general",
        _attending("general", "local-m"),
        Published("6.2", "18.6", "20.4", "0.34"),
    ),
    ("local-m, concat", _attending("concat", "local-m"), Published("7.1")),
    ("local-p, dot", _attending("dot", "local-p"), Published("6.6", "18.0", "19.6")),
    (
        "local-p, general",
        _attending("general", "local-p"),
        Published("5.9", "19.0", "20.9", "0.36"),
    ),
    ("local-p, concat", _attending("concat", "local-p"), Published("7.1")),
)


def systems() -> list[System]:
    """All systems of both tables, each once, those of Table 1 first."""
    rows = {system.name: system for _, system, _ in (*LADDER, *GRID)}
    return list(rows.values())


def half_width(source_length: float) -> int:
    """D of the local windows: to the mean sentence what 10 is to 25 words, as in the paper."""
    return max(1, round(0.4 * source_length))


def reproduce(
    corpus: Corpus, size: Size, minutes: float, output: Path, console: Console
) -> str | None:
    """Train and measure the systems of Tables 1 and 4, and draw curves and alignments.

    Args:
        corpus: What to train on.
        size: How large the systems are.
        minutes: The budget of all of them together.
        output: Where systems, tables and pictures are written.
        console: Where to show progress.

    Returns:
        Both tables as text; None if Ctrl-C stopped it, and it can be resumed.

    Raises:
        UserError: The data or the settings are unfit, or the folder holds another experiment.
    """
    done = run_experiment(systems(), corpus, size, minutes, output, console, _shared)
    if done is None:
        return None
    ensemble = _ensemble(done)
    tables = _tables(done, ensemble)
    grid = [system.name for _, system, _ in GRID]
    for title, names in (
        ("Table 1", [system.name for _, system, _ in LADDER]),
        ("Table 4", grid),
    ):
        line_chart(
            done.curves(names),
            x="update",
            y="validation perplexity",
            title=f"The systems of {title}",
            logarithmic=True,
            path=output / f"curves-{title.replace(' ', '-').lower()}.png",
        )
    draw_alignments(done, grid, output / "alignments")
    write_whole(output / "table.txt", f"{tables}\n".encode())
    return tables


def _shared(source_length: float) -> dict[str, object]:
    """What the paper says of all its models: LSTMs that read in one direction."""
    return {
        "bidirectional": False,
        "attention": {"half_width": half_width(source_length)},
    }


def _ensemble(done: Experiment) -> Measured:
    """The systems of Table 4 that predict the validation pairs best, together."""
    folder = done.output / "ensemble"
    if found := read_result(folder):
        return found
    folders = [done.output / system.name for _, system, _ in GRID]
    folders.sort(key=lambda path: read_settings(path)["scores"]["perplexity"])
    return measure(folders[:MEMBERS], done.corpus, folder)


def _tables(done: Experiment, ensemble: Measured) -> str:
    measured = done.measured
    best = measured[LADDER[-1][1].name]
    first = [Row(label, measured[system.name], printed) for label, system, printed in LADDER]
    first += [
        Row("+ unknown replacement", best, REPLACED, only_replaced=True),
        Row(f"ensemble of {len(ensemble.members)}", ensemble, ENSEMBLE, only_replaced=True),
    ]
    second = [Row(label, measured[system.name], printed) for label, system, printed in GRID]
    return f"{format_table('Table 1', first)}\n\n{format_table('Table 4', second)}"
