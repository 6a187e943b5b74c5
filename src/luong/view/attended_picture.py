"""A picture, and what each word of its caption looked at."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from matplotlib.figure import Figure
from numpy.typing import ArrayLike, NDArray
from PIL import Image

from luong.view.figure import save_figure
from luong.view.fonts import fonts_for

_SIDE = 256
"""Pixels of a drawn picture, at least."""
_PANEL = 1.55  # inches
_COLUMNS = 6
_WARM = np.array([226.0, 74.0, 16.0])
_LONGEST_LABEL = 24


def attended_picture(
    picture: NDArray[np.uint8],
    words: Sequence[str],
    attention: torch.Tensor | ArrayLike,
    *,
    title: str | None = None,
    path: str | Path | None = None,
) -> Figure:
    """Draw a picture, and beside it once for each word with the word's attention over it.

    Where a word looked the picture glows orange; elsewhere it is grey. The strongest colour is the
    largest weight of the whole caption, so that words can be compared; the number beside a word is
    its own largest weight. A small picture is enlarged without blur, the attention with it.

    Args:
        picture: RGB (height, width, 3).
        words: T words.
        attention: Weights (T, rows, columns) of a grid over the whole picture.
        title: Written above.
        path: File to write as well, its format chosen by the end of its name.

    Returns:
        The matplotlib figure.

    Raises:
        ValueError: The weights are not of shape (T, rows, columns).
        UserError: `path` ends in no known picture format.

    Example:
        >>> caption = luong.load("runs/captions").caption("dog.png")
        >>> attended_picture(caption.picture, caption.words, caption.attention, path="words.png")
    """
    weights = torch.as_tensor(attention).detach().to("cpu", torch.float32).numpy()
    if weights.ndim != 3 or len(weights) != len(words):
        raise ValueError(
            f"attention has shape {weights.shape}, but {len(words)} words need ({len(words)}, "
            "rows, columns)"
        )
    fonts = fonts_for([*words, title or ""])
    strongest = float(weights.max(initial=0.0))
    panels = [("", enlarged(picture))]
    for word, grid in zip(words, weights, strict=True):
        label = word if len(word) <= _LONGEST_LABEL else word[: _LONGEST_LABEL - 1] + "…"
        panels.append((f"{label}  {grid.max():.2f}", overlay(picture, grid, strongest)))
    columns = min(_COLUMNS, len(panels))
    rows = math.ceil(len(panels) / columns)
    head = 0.45 if title else 0.05
    width, height = columns * _PANEL, rows * (_PANEL + 0.28) + head
    figure = Figure(figsize=(width, height))
    for place, (label, image) in enumerate(panels):
        row, column = divmod(place, columns)
        bottom = height - head - row * (_PANEL + 0.28) - _PANEL
        axes = figure.add_axes(
            (
                (column * _PANEL + 0.05) / width,
                bottom / height,
                (_PANEL - 0.1) / width,
                (_PANEL - 0.1) / height,
            )
        )
        axes.imshow(image, interpolation="nearest")
        axes.set_xticks([])
        axes.set_yticks([])
        for spine in axes.spines.values():
            spine.set(color="#c4cad1", linewidth=0.8)
        axes.set_xlabel(
            fonts.printable(label),
            fontfamily=fonts.families,
            fontsize=9,
            labelpad=3,
            parse_math=False,
        )
    if title:
        figure.text(
            0.05 / width,
            1 - 0.1 / height,
            fonts.printable(title),
            fontfamily=fonts.families,
            fontsize=12,
            va="top",
            parse_math=False,
        )
    if path is not None:
        save_figure(figure, path)
    return figure


def enlarged(picture: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """A small picture in larger pixels, by a whole factor; another one as it is.

    Args:
        picture: RGB (height, width, 3).
    """
    factor = math.ceil(_SIDE / max(picture.shape[:2]))
    return picture.repeat(factor, 0).repeat(factor, 1)


def overlay(
    picture: NDArray[np.uint8], weights: NDArray[np.float32], strongest: float
) -> NDArray[np.uint8]:
    """A grey picture that glows where attention lies.

    Args:
        picture: RGB (height, width, 3).
        weights: Of the cells of a grid over the whole picture (rows, columns).
        strongest: The weight of the full colour.

    Returns:
        RGB, enlarged as `enlarged` does.

    Example:
        >>> white = np.full((32, 32, 3), 255, np.uint8)
        >>> overlay(white, np.array([[1.0, 0.0]], np.float32), 1.0)[128, [40, 216]]
        array([[233, 116,  72],
               [249, 249, 249]], dtype=uint8)
    """
    large = enlarged(picture).astype(np.float64)
    grey = large @ np.array([0.299, 0.587, 0.114])
    # Faded, so that the glow is the strongest thing in the picture.
    ground = np.repeat((95 + grey * (154 / 255))[..., None], 3, 2)
    size = (large.shape[1], large.shape[0])
    shares = Image.fromarray(weights / strongest if strongest else weights * 0)
    smooth = np.asarray(shares.resize(size, Image.Resampling.BICUBIC)).clip(0, 1)
    strength = 0.82 * smooth[..., None]
    return np.rint(ground * (1 - strength) + _WARM * strength).astype(np.uint8)
