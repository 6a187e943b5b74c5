"""Lines of several systems in one picture, to compare them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullFormatter

from luong.view.curves import INK
from luong.view.figure import save_figure

# Told apart by people with any kind of colour vision (Okabe and Ito); then again, dashed.
_COLOURS = ("#0072b2", "#e69f00", "#009e73", "#d55e00", "#cc79a7", "#56b4e9", "#6b6b6b")
_STYLES = ("-", "--", ":")
_MARKERS = "os^Dv"


def line_chart(
    series: Mapping[str, Sequence[tuple[float, float]]],
    *,
    x: str,
    y: str,
    title: str = "",
    logarithmic: bool = False,
    path: str | Path | None = None,
) -> Figure:
    """Draw a line for each of several systems.

    Args:
        series: Points (x, y) of each system, by the name that the legend shows; one without
            points is left out.
        x: What the horizontal axis measures.
        y: What the vertical axis measures.
        title: Written above the picture.
        logarithmic: Whether the vertical axis is.
        path: File to write as well, its format chosen by the end of its name.

    Returns:
        The matplotlib figure.

    Raises:
        UserError: `path` ends in no known picture format.

    Example:
        >>> figure = line_chart({"dot": [(1, 9.0), (2, 7.5)]}, x="update", y="perplexity")
        >>> figure.axes[0].get_xlabel()
        'update'
    """
    figure = Figure(figsize=(8.0, 4.8), layout="constrained")
    axes = figure.subplots()
    axes.set_title(title, loc="left", fontsize=11, color=INK)
    axes.set_xlabel(x, fontsize=10, color=INK)
    axes.set_ylabel(y, fontsize=10, color=INK)
    if logarithmic:
        axes.set_yscale("log")
        axes.yaxis.set_major_locator(LogLocator(subs=(1, 2, 3, 5)))
        axes.yaxis.set_major_formatter("{x:g}")
        axes.yaxis.set_minor_formatter(NullFormatter())
    axes.tick_params(which="both", colors=INK, labelsize=9)
    axes.grid(color=INK, alpha=0.15, linewidth=0.6, which="both")
    for side, spine in axes.spines.items():
        spine.set(color=INK, linewidth=0.8, visible=side in ("left", "bottom"))
    drawn = {name: points for name, points in series.items() if points}
    for number, (name, points) in enumerate(drawn.items()):
        axes.plot(
            *zip(*points, strict=True),
            label=name,
            color=_COLOURS[number % len(_COLOURS)],
            linestyle=_STYLES[number // len(_COLOURS) % len(_STYLES)],
            marker=_MARKERS[number % len(_MARKERS)],
            markersize=4,
        )
    if drawn:
        axes.legend(
            frameon=False, fontsize=9, labelcolor=INK, loc="center left", bbox_to_anchor=(1.0, 0.5)
        )
    if path is not None:
        save_figure(figure, path)
    return figure
