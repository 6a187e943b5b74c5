"""The course of a training run: losses, scores, learning rate and speed over updates."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator

from luong.view.figure import save_figure

INK = "#3d4450"
"""The colour of axes and text, which the report page replaces by that of its own text."""

_MOST_POINTS = 1000


class Series(NamedTuple):
    """A line of a panel.

    Attributes:
        label: What the legend calls it.
        kind: The kind of rows it is taken from, ``"train"`` or ``"validation"``.
        key: The key of its values in these rows.
        colour: A colour that stands out from white and from black.
    """

    label: str
    kind: str
    key: str
    colour: str


_BLUE, _ORANGE, _GREEN = "#3a7bd5", "#e07b28", "#2a9d74"

PANELS: dict[str, tuple[Series, ...]] = {
    "Loss": (
        Series("training", "train", "loss", _BLUE),
        Series("validation", "validation", "loss", _ORANGE),
    ),
    "Validation scores": (
        Series("BLEU", "validation", "bleu", _BLUE),
        Series("chrF", "validation", "chrf", _GREEN),
        Series("accuracy", "validation", "accuracy", _BLUE),
        Series("macro F1", "validation", "macro_f1", _GREEN),
    ),
    "Learning rate": (Series("learning rate", "train", "learning_rate", _BLUE),),
    "Tokens per second": (
        Series("source", "train", "source_tokens_per_second", _BLUE),
        Series("target", "train", "target_tokens_per_second", _ORANGE),
    ),
}


def learning_curves(rows: Sequence[Mapping[str, Any]], path: str | Path | None = None) -> Figure:
    """Draw losses, validation scores, learning rate and speed over updates.

    Args:
        rows: Rows of ``metrics.jsonl``: mappings with ``"kind"`` (``"train"`` or
            ``"validation"``), ``"step"`` and any of the keys that `PANELS` names. Other kinds and
            absent values are passed over, and there may be no rows at all.
        path: File to write as well, its format chosen by the end of its name.

    Returns:
        The matplotlib figure, with one panel for each of `PANELS`.

    Raises:
        UserError: `path` ends in no known picture format.

    Example:
        >>> row = {"kind": "train", "step": 100, "loss": 4.2, "learning_rate": 0.001}
        >>> len(learning_curves([row]).axes)
        4
    """
    figure = Figure(figsize=(9.6, 6.0), layout="constrained")
    for axes, title in zip(figure.subplots(2, 2).flat, PANELS, strict=True):
        _draw_panel(axes, title, rows)
    if path is not None:
        save_figure(figure, path)
    return figure


def panel_figure(title: str, rows: Sequence[Mapping[str, Any]]) -> Figure:
    """Draw one panel of the learning curves as a figure of its own, which fits a phone.

    Args:
        title: A key of `PANELS`.
        rows: Rows of ``metrics.jsonl``, as for `learning_curves`.

    Returns:
        The matplotlib figure.

    Example:
        >>> panel_figure("Learning rate", []).axes[0].get_title(loc="left")
        'Learning rate'
    """
    figure = Figure(figsize=(4.8, 2.9), layout="constrained")
    _draw_panel(figure.subplots(), title, rows)
    return figure


def _draw_panel(axes: Axes, title: str, rows: Sequence[Mapping[str, Any]]) -> None:
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    drawn = [series for series in PANELS[title] if _draw_series(axes, series, rows)]
    axes.tick_params(colors=INK, labelsize=9)
    for side, spine in axes.spines.items():
        spine.set(color=INK, linewidth=0.8, visible=side in ("left", "bottom"))
    if not drawn:
        axes.set(xticks=[], yticks=[])
        axes.text(0.5, 0.5, "no data yet", transform=axes.transAxes, ha="center", color=INK)
        return
    axes.grid(color=INK, alpha=0.15, linewidth=0.6)
    axes.set_xlabel("update", fontsize=9, color=INK)
    axes.xaxis.set_major_locator(MaxNLocator(6, integer=True, steps=[1, 2, 5, 10]))
    for axis in (axes.xaxis, axes.yaxis):
        axis.set_major_formatter(_short)
    if len(drawn) > 1:
        axes.legend(frameon=False, fontsize=9, labelcolor=INK)


def _short(value: float, _position: float) -> str:
    return f"{value / 1000:g}k" if abs(value) >= 1000 else f"{value:g}"


def _draw_series(axes: Axes, series: Series, rows: Sequence[Mapping[str, Any]]) -> bool:
    points = [
        (row["step"], row[series.key])
        for row in rows
        if row.get("kind") == series.kind and row.get(series.key) is not None
    ]
    if not any(math.isfinite(value) for _, value in points):
        return False
    # A picture shows no more than this many points; the last one is always among them.
    points = points[:: -math.ceil(len(points) / _MOST_POINTS)][::-1]
    steps, values = zip(*points, strict=True)
    marker = "o" if len(points) == 1 or (series.kind == "validation" and len(points) <= 40) else ""
    axes.plot(steps, values, color=series.colour, label=series.label, marker=marker, markersize=3)
    return True
