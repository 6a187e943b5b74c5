"""The report of a trained model: one HTML file that needs nothing else."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any, Protocol

import matplotlib

from luong.files import write_whole
from luong.view.curves import INK, PANELS, panel_figure
from luong.view.style import STYLE

_SCORES = {
    "bleu": ("BLEU", "{:.1f}", "higher is better"),
    "chrf": ("chrF", "{:.1f}", "higher is better"),
    "ter": ("TER", "{:.1f}", "lower is better"),
    "accuracy": ("Accuracy", "{:.1%}", "documents labelled right"),
    "macro_f1": ("Macro F1", "{:.3f}", "mean over labels, higher is better"),
    "exact_match": ("Exact match", "{:.1%}", "lines equal to the reference"),
    "symbol_error_rate": ("Symbol errors", "{:.1f}", "percent of the symbols, lower is better"),
}

_NOTE = (
    "Each row is an output token, each column a source token: the stronger a colour, the more the "
    "token looked there. Rest the pointer on a square to see its weight."
)


class Sample(Protocol):
    """What the report needs of a translation."""

    @property
    def source(self) -> str:
        """The line that was translated."""

    @property
    def text(self) -> str:
        """What became of it."""

    @property
    def score(self) -> float:
        """Its length-normalised log-probability."""

    def _repr_html_(self) -> str:
        """Its attention as self-contained HTML."""


def write_report(
    path: str | Path,
    *,
    title: str,
    config: Mapping[str, Any],
    scores: Mapping[str, Any],
    metrics: Sequence[Mapping[str, Any]],
    samples: Sequence[Sample],
    references: Sequence[str] | None = None,
    attention_note: str | None = None,
    environment: Mapping[str, Any],
) -> None:
    """Write scores, learning curves, sample translations and their attention as one HTML file.

    The file loads nothing, neither from the network nor from other files; it follows the light or
    dark scheme of the reader and fits a phone.

    Args:
        path: The file to write, whole or not at all.
        title: Heading of the page.
        config: Settings of the run, nested as in the configuration file.
        scores: Scores by name, such as ``Scores._asdict()``: numbers are shown, and the mapping
            under ``"signatures"`` is printed below them.
        metrics: Rows of ``metrics.jsonl``, as for `learning_curves`.
        samples: Translations to show.
        references: One reference for each sample.
        attention_note: How to read the pictures of attention; that of translation by default.
        environment: Versions and hardware, name to value.

    Raises:
        ValueError: There are not as many references as samples.

    Example:
        >>> write_report(
        ...     "report.html", title="German to English", config={}, scores={"bleu": 35.2},
        ...     metrics=[], samples=[], environment={"torch": "2.13.0"},
        ... )  # doctest: +SKIP
    """
    if references is not None and len(references) != len(samples):
        raise ValueError(f"{len(samples)} samples need as many references, not {len(references)}")
    body = "\n".join(
        (
            _header(title, metrics),
            _score_section(scores),
            _curve_section(metrics),
            _sample_section(samples, references),
            _attention_section(samples, attention_note or _NOTE),
            _table_section("Settings", list(_flatten(config))),
            _table_section("Environment", [(key, str(environment[key])) for key in environment]),
        )
    )
    page = (
        '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n'
        f"<title>{escape(title)}</title>\n<style>{STYLE}</style>\n</head>\n"
        f"<body>\n<main>\n{body}\n</main>\n</body>\n</html>\n"
    )
    # Half a surrogate pair cannot be written as UTF-8, and one in a sample must not lose the page.
    write_whole(Path(path), page.encode("utf-8", errors="replace"))


def _section(heading: str, content: str) -> str:
    return f"<section>\n<h2>{heading}</h2>\n{content}\n</section>" if content else ""


def _header(title: str, metrics: Sequence[Mapping[str, Any]]) -> str:
    last: dict[str, Any] = {}
    for row in metrics:
        last.update(row)
    facts = []
    if "step" in last:
        facts.append(_count(last["step"], "update"))
    if "epoch" in last:
        facts.append(_count(last["epoch"], "epoch"))
    if "seconds" in last:
        facts.append(_duration(last["seconds"]))
    line = f'<p class="facts">Trained for {" · ".join(facts)}</p>' if facts else ""
    return f'<header>\n<h1 dir="auto">{escape(title)}</h1>\n{line}\n</header>'


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def _duration(seconds: float) -> str:
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def _score_section(scores: Mapping[str, Any]) -> str:
    tiles = []
    for key, value in scores.items():
        if not isinstance(value, int | float):
            continue
        default = (key.replace("_", " ").capitalize(), "{:,.4g}", "")
        name, form, hint = _SCORES.get(key, default)
        tiles.append(
            f'<div class="tile"><span class="name">{escape(name)}</span>'
            f'<span class="value">{form.format(value)}</span>'
            f'<span class="hint">{hint}</span></div>'
        )
    signatures = "".join(
        f"<dt>{escape(_SCORES.get(key, (key,))[0])}</dt><dd>{escape(str(signature))}</dd>"
        for key, signature in scores.get("signatures", {}).items()
    )
    return _section(
        "Scores",
        (f'<div class="tiles">{"".join(tiles)}</div>' if tiles else "")
        + (f'<dl class="signatures">{signatures}</dl>' if signatures else ""),
    )


def _curve_section(metrics: Sequence[Mapping[str, Any]]) -> str:
    if not metrics:
        return ""
    panels = "\n".join(f"<figure>{_panel_svg(title, metrics)}</figure>" for title in PANELS)
    return _section("Learning curves", f'<div class="curves">\n{panels}\n</div>')


def _panel_svg(title: str, metrics: Sequence[Mapping[str, Any]]) -> str:
    buffer = io.StringIO()
    # Text stays text, to be read aloud, searched and set in the font of the page; and one run
    # gives one file, byte for byte.
    with matplotlib.rc_context({"svg.fonttype": "none", "svg.hashsalt": "luong"}):
        panel_figure(title, metrics).savefig(
            buffer,
            format="svg",
            transparent=True,
            metadata=dict.fromkeys(("Creator", "Date", "Format", "Type")),
        )
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    # Names of groups are the same in each figure, and nothing refers to them.
    svg = re.sub(r'<g id="[^"]*"', "<g", svg)
    svg = svg.replace("<svg ", f'<svg role="img" aria-label="{escape(title)}" ', 1)
    return svg.replace(INK, "currentColor")


def _sample_section(samples: Sequence[Sample], references: Sequence[str] | None) -> str:
    names = ["Source", "Reference", "Output", "Score"]
    if references is None:
        names.remove("Reference")
    rows = []
    for index, sample in enumerate(samples):
        cells = [_text_cell("Source", sample.source)]
        if references is not None:
            cells.append(_text_cell("Reference", references[index]))
            exact = sample.text.strip() == references[index].strip()
            cells.append(_text_cell("Output", sample.text, "exact" if exact else ""))
        else:
            cells.append(_text_cell("Output", sample.text))
        score = f"{sample.score:.2f}".replace("-", "\N{MINUS SIGN}")
        cells.append(f'<td data-name="Score" class="number">{score}</td>')
        rows.append(f"<tr>{''.join(cells)}</tr>")
    if not rows:
        return ""
    head = "".join(f'<th scope="col">{name}</th>' for name in names)
    return _section(
        "Samples",
        f'<table class="samples">\n<thead><tr>{head}</tr></thead>\n<tbody>\n'
        + "\n".join(rows)
        + '\n</tbody>\n</table>\n<p class="note">Score: the log-probability, '
        "of a translation normalised by length as in the beam search; 0 is certain.</p>",
    )


def _text_cell(name: str, text: str, style: str = "") -> str:
    return f'<td data-name="{name}" class="{style}"><span dir="auto">{escape(text)}</span></td>'


def _attention_section(samples: Sequence[Sample], note: str) -> str:
    cards = "\n".join(
        # A blank line has no attention.
        f'<div class="card">{sample._repr_html_()}</div>'
        for sample in samples
        if sample.text
    )
    if not cards:
        return ""
    return _section(
        "Attention",
        f'<p class="note">{note}</p>\n<div class="cards">\n{cards}\n</div>',
    )


def _flatten(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, str]]:
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", json.dumps(value, ensure_ascii=False, default=str)


def _table_section(heading: str, rows: Sequence[tuple[str, str]]) -> str:
    lines = "\n".join(
        f'<tr><th scope="row">{escape(key)}</th><td dir="auto">{escape(value)}</td></tr>'
        for key, value in rows
    )
    if not lines:
        return ""
    return (
        f"<section>\n<details>\n<summary><h2>{heading}</h2></summary>\n"
        f'<table class="pairs">\n{lines}\n</table>\n</details>\n</section>'
    )
