"""One loader for pictures of any kind: a square of RGB bytes comes out, or a reason why not."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps, UnidentifiedImageError

from luong.errors import UserError

Picture = npt.NDArray[np.uint8]
"""RGB, (height, width, 3)."""

FORMATS = ("PNG", "JPEG", "WEBP", "GIF", "BMP")
_WHITE = (255, 255, 255)


def read_picture(path: str | Path, size: int) -> Picture:
    """Read a picture file, see `decode_picture`.

    Args:
        path: The file.
        size: Pixels of a side of the square that it is made to fit.

    Raises:
        UserError: The file cannot be read or holds no picture that can be.

    Example:
        >>> read_picture("cat.jpg", 64).shape
        (64, 64, 3)
    """
    try:
        data = Path(path).read_bytes()
    except FileNotFoundError:
        raise UserError(f"{path} does not exist.") from None
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise UserError(f"{path} cannot be read: {reason}.") from None
    try:
        return decode_picture(data, size)
    except ValueError as error:
        raise UserError(f"{path} {error}.") from None


def decode_picture(data: bytes, size: int) -> Picture:
    """Decode a picture of any mode, and fit it into a square.

    Grey and palettes become RGB; transparent parts show white; CMYK is converted; 16 bits are
    scaled to 8; a photograph is turned upright as its EXIF data say; of an animation the first
    frame is taken. The sides keep their ratio, and what is left of the square is white.

    Args:
        data: A file of PNG, JPEG, WebP, GIF or BMP.
        size: Pixels of a side of the square.

    Raises:
        ValueError: The data are no such picture, damaged, or of too many pixels; the message goes
            on after the name of the file.
    """
    if not data:
        raise ValueError("is empty")
    try:
        with warnings.catch_warnings():
            # The limit is checked here, and damaged EXIF data are no reason to refuse a picture.
            warnings.simplefilter("ignore")
            image = Image.open(BytesIO(data), formats=FORMATS)
            _refuse_bomb(image.width * image.height)
            return fitted(_as_rgb(ImageOps.exif_transpose(image)), size)
    except UnidentifiedImageError:
        raise ValueError(
            f"is not a picture, or of another kind than {', '.join(FORMATS)}"
        ) from None
    except Image.DecompressionBombError:
        _refuse_bomb(None)
        raise
    except _RefusedError:
        raise
    except Exception as error:  # Pillow's readers raise many kinds for damaged files.
        raise ValueError(f"is damaged or cut short ({error})") from None


class _RefusedError(ValueError):
    """A reason that is a sentence already."""


def _refuse_bomb(pixels: int | None) -> None:
    limit = Image.MAX_IMAGE_PIXELS
    if limit is not None and (pixels is None or pixels > limit):
        count = "too many" if pixels is None else f"{pixels:,}"
        raise _RefusedError(
            f"has {count} pixels, and a picture of more than {limit:,} may be made to fill the "
            "memory: scale it down first"
        )


def _as_rgb(image: Image.Image) -> Image.Image:
    """On white where it is transparent."""
    if image.mode.startswith("I") or image.mode == "F":
        return _from_sixteen_bits(image)
    if image.has_transparency_data:
        image = image.convert("RGBA")
        ground = Image.new("RGBA", image.size, (*_WHITE, 255))
        image = Image.alpha_composite(ground, image)
    return image.convert("RGB")


def _from_sixteen_bits(image: Image.Image) -> Image.Image:
    """Grey of 16 bits; Pillow itself would clip it at 255."""
    values = np.asarray(image).astype(np.float64)
    grey = np.rint(values / 257).clip(0, 255).astype(np.uint8)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[values == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def fitted(image: Image.Image | Picture, size: int) -> Picture:
    """Scale an RGB picture so that its longer side fits a square, and pad with white.

    Args:
        image: RGB.
        size: Pixels of a side of the square.

    Returns:
        (size, size, 3).
    """
    image = Image.fromarray(image) if isinstance(image, np.ndarray) else image
    width, height = image.size
    scale = size / max(width, height)
    wanted = max(1, round(width * scale)), max(1, round(height * scale))
    if wanted != image.size:
        image = image.resize(wanted, Image.Resampling.BICUBIC)
    square = np.full((size, size, 3), 255, np.uint8)
    top, left = (size - wanted[1]) // 2, (size - wanted[0]) // 2
    square[top : top + wanted[1], left : left + wanted[0]] = np.asarray(image)
    return square
