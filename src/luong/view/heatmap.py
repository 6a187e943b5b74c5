"""The attention of a translation as a picture."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.colors import LinearSegmentedColormap
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray

from luong.view.figure import save_figure
from luong.view.fonts import NO_GLYPH, Fonts, fonts_for

# Lightness falls from end to end, so that the picture also reads in greyscale.
_COLOURS = LinearSegmentedColormap.from_list(
    "attention", ["#ffffff", "#cfe0f5", "#84b0e0", "#3674bd", "#0b2f63"]
)
_LINES = "#9aa3ad"
_LONGEST_LABEL = 24  # characters
_CELL = 0.34  # inches
_LARGEST_GRID = 16.0  # inches


def heatmap(
    attention: torch.Tensor | ArrayLike,
    source_tokens: Sequence[str],
    target_tokens: Sequence[str],
    *,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw which source tokens each target token attended to.

    Rows are target tokens from top to bottom, columns are source tokens from left to right in the
    order they are read, for right-to-left scripts too. White is 0 and the darkest blue is 1, so
    that pictures can be compared. Nothing is registered with pyplot: the figure is freed with its
    last reference, and threads may draw at the same time.

    Args:
        attention: Weights of shape (T, S), one row for each target token, on any device.
        source_tokens: S tokens.
        target_tokens: T tokens.
        title: Written above the picture.
        path: File to write as well, its format chosen by the end of its name (``.png``, ``.svg``,
            ``.pdf``).

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: The weights are not of shape (T, S), or T or S is 0.
        UserError: `path` ends in no known picture format.

    Example:
        >>> figure = heatmap([[0.9, 0.1], [0.2, 0.8]], ["guten", "Tag"], ["good", "day"])
        >>> [label.get_text() for label in figure.axes[0].get_xticklabels()]
        ['guten', 'Tag']
    """
    weights = _as_array(attention)
    if weights.shape != (len(target_tokens), len(source_tokens)):
        raise ValueError(
            f"attention has shape {weights.shape}, but {len(target_tokens)} target tokens and "
            f"{len(source_tokens)} source tokens need ({len(target_tokens)}, {len(source_tokens)})"
        )
    if weights.size == 0:
        raise ValueError(f"attention of shape {weights.shape} has nothing to draw")
    fonts = fonts_for([*source_tokens, *target_tokens, title or ""])
    columns = [_label(token, fonts) for token in source_tokens]
    rows = [_label(token, fonts) for token in target_tokens]
    cell = min(_CELL, _LARGEST_GRID / max(weights.shape))
    font_size = max(5.0, min(10.0, cell * 72 * 0.55))
    column_widths = [_inches(label, font_size) for label in columns]
    figure, axes, bar_axes = _frame(
        grid=(len(columns) * cell, len(rows) * cell),
        left=max(_inches(label, font_size) for label in rows) + 0.15,
        top=(max(column_widths) if max(column_widths) > cell else 0.2) + (0.5 if title else 0.1),
    )
    image = axes.imshow(
        weights,
        cmap=_COLOURS,
        vmin=0.0,
        # Scores and other matrices without the upper bound of weights are drawn, too.
        vmax=float(np.nanmax(weights, initial=1.0)),
        interpolation="nearest",
        aspect="auto",
    )
    every = math.ceil(font_size / 72 / cell)
    style: dict[str, Any] = {
        "fontfamily": fonts.families,
        "fontsize": font_size,
        "parse_math": False,  # "$" is a token like any other
    }
    axes.set_xticks(range(0, len(columns), every), columns[::every], **style)
    axes.set_yticks(range(0, len(rows), every), rows[::every], **style)
    axes.tick_params(top=True, labeltop=True, bottom=False, labelbottom=False, length=0)
    for label, width in zip(axes.get_xticklabels(), column_widths[::every], strict=True):
        label.set_rotation(90 if width > cell else 0)
    _draw_grid(axes, weights.shape)
    bar = figure.colorbar(image, cax=bar_axes)
    bar_axes.tick_params(labelsize=7, length=2)
    bar.outline.set(color=_LINES, linewidth=0.6)
    if title:
        axes.set_title(fonts.printable(title), fontfamily=fonts.families, parse_math=False)
    if path is not None:
        save_figure(figure, path)
    return figure


def _frame(grid: tuple[float, float], left: float, top: float) -> tuple[Figure, Axes, Axes]:
    # Placed by hand, in inches: matplotlib's layout engines take seconds for many labels, and
    # cells would not come out as squares of one size.
    grid_width, grid_height = grid
    bar_height = min(3.0, max(1.0, grid_height))
    width = left + grid_width + 0.65
    height = top + max(grid_height, bar_height) + 0.1
    figure = Figure(figsize=(width, height))

    def place(x: float, across: float, down: float) -> Axes:
        bottom = (height - top - down) / height
        return figure.add_axes((x / width, bottom, across / width, down / height))

    return (
        figure,
        place(left, grid_width, grid_height),
        place(left + grid_width + 0.12, 0.1, bar_height),
    )


def _as_array(attention: torch.Tensor | ArrayLike) -> NDArray[np.float32]:
    if isinstance(attention, torch.Tensor):
        # numpy has no bfloat16.
        attention = attention.detach().to("cpu", torch.float32).numpy()
    return np.asarray(attention, dtype=np.float32)


def _label(token: str, fonts: Fonts) -> str:
    if not token.strip():
        return "\N{OPEN BOX}" * len(token)
    if len(token) > _LONGEST_LABEL:
        token = token[: _LONGEST_LABEL - 1] + "…"
    return fonts.printable(token)


def _inches(label: str, font_size: float) -> float:
    halves = sum(
        2 if character == NO_GLYPH or unicodedata.east_asian_width(character) in "WF" else 1
        for character in label
        if not unicodedata.combining(character)
    )
    return halves * font_size * 0.62 / 72


def _draw_grid(axes: Axes, shape: tuple[int, ...]) -> None:
    # Ticks would draw it as well, but one object for each line is slow.
    style: dict[str, Any] = {"color": "#e3e6ea", "linewidth": 0.4}
    axes.hlines(np.arange(0.5, shape[0] - 1), -0.5, shape[1] - 0.5, **style)
    axes.vlines(np.arange(0.5, shape[1] - 1), -0.5, shape[0] - 0.5, **style)
    for spine in axes.spines.values():
        spine.set(color=_LINES, linewidth=0.6)
