"""The caption of a picture, with what each word looked at, for notebooks and reports."""

from __future__ import annotations

from base64 import b64encode
from dataclasses import dataclass
from html import escape
from io import BytesIO
from typing import Any

import numpy as np
import numpy.typing as npt
from PIL import Image
from torch import Tensor

NOTE = (
    "First the picture as the model saw it, then once for each word: the stronger the orange, the "
    "more the word looked there; the strongest is the largest weight of the caption. Rest the "
    "pointer on a picture to see the largest weight of its word."
)

_SHOWN = 40  # words: a page of more pictures is no longer looked at
_WARM = (224, 62, 12)


@dataclass(frozen=True, eq=False)
class Caption:
    """What was written about one picture.

    Attributes:
        source: The name of the picture.
        text: The caption; never holds a line break.
        score: Length-normalised log-probability.
        words: Its tokens, the end symbol left out.
        attention: How much each word attends to each cell of the grid that lies over the picture
            (len(words), rows, columns), float32.
        picture: As the model saw it, a square padded with white, RGB (size, size, 3).

    Example:
        >>> caption = luong.load("runs/captions").caption("dog.png")
        >>> caption.text, caption.attention.shape
        ('a dog', torch.Size([2, 8, 8]))
    """

    source: str
    text: str
    score: float
    words: list[str]
    attention: Tensor
    picture: npt.NDArray[np.uint8]

    def as_object(self) -> dict[str, Any]:
        """All but the picture itself, for JSON."""
        weights = self.attention.double().numpy().round(5).tolist()
        return {
            "picture": self.source,
            "text": self.text,
            "score": self.score,
            "words": self.words,
            "attention": weights,
        }

    def _repr_html_(self) -> str:
        """The picture, and once more for each word: self-contained, for light and dark."""
        picture = _data_uri(Image.fromarray(self.picture))
        strongest = float(self.attention.max()) if self.words else 0.0
        cards = [_card(picture, "", escape(self.source))]
        for word, weights in zip(self.words[:_SHOWN], self.attention, strict=False):
            title = escape(f"{word}: {float(weights.max()):.3f} at most")
            cards.append(_card(picture, _glow(weights, strongest), escape(word), title))
        return (
            f'<p dir="auto">{escape(self.text)}</p>'
            f'<div style="display:flex;flex-wrap:wrap;gap:8px">{"".join(cards)}</div>'
        )


def _card(picture: str, glow: str, label: str, title: str = "") -> str:
    pixels = "image-rendering:pixelated;width:96px;height:96px;display:block"
    grey = ";filter:grayscale(1) contrast(0.55) brightness(1.25)" if glow else ""
    # A few pixels are stretched over the picture, and the browser blends between them.
    over = (
        f'<img src="{glow}" alt="" style="position:absolute;inset:0;width:96px;height:96px">'
        if glow
        else ""
    )
    return (
        f'<figure style="margin:0;width:96px" title="{title}"><div style="position:relative">'
        f'<img src="{picture}" alt="" style="{pixels}{grey}">{over}</div>'
        f'<figcaption dir="auto" style="text-align:center;overflow-wrap:anywhere;'
        f'font-size:0.85em">{label}</figcaption></figure>'
    )


def _glow(weights: Tensor, strongest: float) -> str:
    """A pixel for each cell: the more weight, the less transparent."""
    pixels = np.empty((*weights.shape, 4), np.uint8)
    pixels[..., :3] = _WARM
    share = weights.numpy() / strongest if strongest else np.zeros(weights.shape)
    pixels[..., 3] = np.rint(215 * share)
    return _data_uri(Image.fromarray(pixels))


def _data_uri(image: Image.Image) -> str:
    buffer = BytesIO()
    image.save(buffer, format="PNG")
    return f"data:image/png;base64,{b64encode(buffer.getvalue()).decode()}"
