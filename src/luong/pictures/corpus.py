"""Pictures with captions: a manifest of tab-separated rows, and files or an array of pictures."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from luong.config import CaptionFiles
from luong.errors import UserError
from luong.pictures.loader import Picture, decode_picture, fitted
from luong.text.corpus import LineFile

Read = Callable[[str], Picture]
"""The picture that a row names; a ValueError says what is wrong with it."""


class Captioned(NamedTuple):
    """A row: the position of its picture among those of the corpus, and a caption of it."""

    picture: int
    caption: str


class CaptionCorpus:
    """Pictures and their captions, all read and checked. Make it with `open`.

    Pictures are held as bytes: size * size * 3 of each.

    Args:
        name: The manifest, for messages.
        names: Of each picture, as the manifest writes it, in the order of their first rows.
        pictures: RGB (N, size, size, 3).
        rows: The captions, in the order of the manifest.
        fingerprint: Sizes and checksums of the files.
        bad: Pictures that were left out, with the reason.
        blank: Rows without a caption, and blank lines, which are passed over.

    Example:
        >>> corpus = CaptionCorpus.open(CaptionFiles(file="train.tsv"), size=64)
        >>> corpus.rows[0], corpus.pictures.shape
        (Captioned(picture=0, caption='a dog on a beach'), (8000, 64, 64, 3))
    """

    def __init__(
        self,
        name: str,
        names: list[str],
        pictures: npt.NDArray[np.uint8],
        rows: list[Captioned],
        fingerprint: dict[str, dict[str, int]],
        bad: dict[str, str] | None = None,
        blank: int = 0,
    ) -> None:
        self.name = name
        self.names = names
        self.pictures = pictures
        self.rows = rows
        self.fingerprint = fingerprint
        self.bad = bad or {}
        self.blank = blank

    @classmethod
    def open(cls, files: CaptionFiles, size: int, *, skip_bad: bool = False) -> CaptionCorpus:
        """Read a manifest and all of its pictures.

        Args:
            files: The manifest, and the array if pictures lie in one.
            size: Pixels of a side of the square that each is made to fit.
            skip_bad: Leave out pictures that cannot be read.

        Raises:
            UserError: The manifest or the array is unfit, no picture is left, or pictures cannot
                be read: all of them are named.
        """
        lines = LineFile(files.file)
        parsed = [_parsed(line, number, files.file) for number, line in enumerate(lines, 1)]
        rows = [row for row in parsed if row is not None]
        names = list(dict.fromkeys(name for name, _ in rows))
        source: _Folder | _Array
        if files.images is None:
            source = _Folder(files.file.parent, size)
        else:
            source = _Array(_read_array(files.images), size)
        pictures, bad = _read_all(names, source.read)
        if bad and not skip_bad:
            raise UserError(_complaint(files.file, bad, len(names)))
        if not pictures:
            raise UserError(
                f"{files.file}: there is no picture to learn from ({len(bad):,} cannot be read, "
                f"{len(parsed) - len(rows):,} rows have no caption). Expected rows of picture, "
                "tab, caption."
            )
        position = {name: number for number, name in enumerate(pictures)}
        fingerprint = {
            "manifest": {
                "bytes": lines.size_in_bytes,
                "lines": len(lines),
                "crc32": lines.checksum,
            },
            "pictures": source.fingerprint(len(names)),
        }
        return cls(
            str(files.file),
            list(pictures),
            np.stack(list(pictures.values())),
            [Captioned(position[name], text) for name, text in rows if name in position],
            fingerprint,
            bad,
            len(parsed) - len(rows),
        )

    def __len__(self) -> int:
        return len(self.pictures)

    def captions(self) -> list[list[str]]:
        """All captions of each picture."""
        found: list[list[str]] = [[] for _ in self.names]
        for picture, caption in self.rows:
            found[picture].append(caption)
        return found


def _parsed(line: str, number: int, path: Path) -> tuple[str, str] | None:
    """The picture and the caption of a row; None if it has no caption."""
    if not line.strip():
        return None
    name, tab, caption = line.partition("\t")
    if not tab or not name.strip():
        raise UserError(f"{path}, line {number}: expected a picture, a tab and its caption.")
    return (name.strip(), caption) if caption.strip() else None


def _read_all(names: list[str], read: Read) -> tuple[dict[str, Picture], dict[str, str]]:
    """The pictures that can be read, and of the others why not."""
    pictures, bad = {}, {}
    for name in names:
        try:
            pictures[name] = read(name)
        except ValueError as error:
            bad[name] = str(error)
    return pictures, bad


def _complaint(path: Path, bad: dict[str, str], count: int) -> str:
    listed = "".join(f"\n  {name} {reason}" for name, reason in bad.items())
    return (
        f"{path}: {len(bad):,} of {count:,} pictures cannot be read:{listed}\n"
        "Mend or remove them, or leave them out with data.skip_bad = true."
    )


class _Folder:
    """Reads picture files whose paths start from a folder, and sums them up."""

    def __init__(self, folder: Path, size: int) -> None:
        self.folder = folder
        self.size = size
        self.bytes = self.checksum = 0

    def read(self, name: str) -> Picture:
        try:
            data = (self.folder / name).read_bytes()
        except FileNotFoundError:
            raise ValueError("does not exist") from None
        except OSError as error:
            raise ValueError(f"cannot be read: {error.strerror}") from None
        self.bytes += len(data)
        self.checksum = zlib.crc32(data, self.checksum)
        return decode_picture(data, self.size)

    def fingerprint(self, files: int) -> dict[str, int]:
        return {"bytes": self.bytes, "files": files, "crc32": self.checksum}


class _Array:
    """Reads pictures by their number in an array."""

    def __init__(self, images: npt.NDArray[np.uint8], size: int) -> None:
        self.images = images
        self.size = size

    def read(self, name: str) -> Picture:
        if not name.isascii() or not name.isdecimal():
            raise ValueError("is not a number, as pictures in an array have")
        if int(name) >= len(self.images):
            raise ValueError(f"is beyond the {len(self.images):,} pictures, counted from 0")
        return fitted(self.images[int(name)], self.size)

    def fingerprint(self, files: int) -> dict[str, int]:
        checksum = zlib.crc32(self.images.tobytes())
        return {"bytes": self.images.nbytes, "files": files, "crc32": checksum}


def _read_array(path: Path) -> npt.NDArray[np.uint8]:
    expected = "Expected an .npz file with one array `images`, uint8 (N, height, width, 3)."
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as archive:
            images = archive["images"]
    except FileNotFoundError:
        raise UserError(f"{path} does not exist. {expected}") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}. {expected}") from None
    except (AttributeError, KeyError, ValueError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise UserError(f"{path} is unfit: {error}. {expected}") from None
    if images.dtype != np.uint8 or images.ndim != 4 or images.shape[-1] != 3 or not images.size:
        raise UserError(f"{path} holds {images.dtype} {images.shape}. {expected}")
    return images  # type: ignore[no-any-return]
