"""Figures as files: any format that matplotlib writes, written whole."""

from __future__ import annotations

import io
from pathlib import Path

from matplotlib.figure import Figure

from luong.errors import UserError, nearest
from luong.files import write_whole


def save_figure(figure: Figure, path: str | Path) -> None:
    """Write a figure in the format that the end of the file's name asks for.

    Args:
        figure: What to write.
        path: The file, such as ``heatmap.png``, ``heatmap.svg`` or ``heatmap.pdf``.

    Raises:
        UserError: The name ends in no format that matplotlib writes.

    Example:
        >>> save_figure(heatmap([[1.0]], ["ja"], ["yes"]), "heatmap.png")  # doctest: +SKIP
    """
    path = Path(path)
    known = figure.canvas.get_supported_filetypes()
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in known:
        raise UserError(
            f"Cannot tell the picture format of {path}: its name should end in a known format, "
            f"such as .png, .svg or .pdf.{nearest(suffix, sorted(known))}"
        )
    buffer = io.BytesIO()
    figure.savefig(buffer, format=suffix, dpi=150, bbox_inches="tight")
    write_whole(path, buffer.getvalue())
