"""Corpora: text files indexed by line, and the sentence pairs in them."""

from __future__ import annotations

import codecs
import gzip
import tempfile
import threading
import weakref
import zlib
from collections.abc import Iterator
from io import BufferedReader
from pathlib import Path
from typing import IO

import numpy as np
import numpy.typing as npt

from luong.config import PairFiles
from luong.errors import UserError

_BLOCK_BYTES = 1 << 22


class LineFile:
    r"""A UTF-8 text file with random access to its lines; it holds 8 bytes for each line.

    A file compressed by gzip, whatever its name, is unpacked into a temporary one that goes away
    with the object.

    Lines end at "\n" alone; one "\r" before it is taken off, as is a byte order mark at the
    start of the file. The whole file is checked when it is opened. Several threads may read.

    Args:
        path: The file.

    Raises:
        UserError: The file is missing, a folder, empty, damaged, or not UTF-8.

    Example:
        >>> lines = LineFile(Path("train.de"))
        >>> len(lines), lines[0]
        (7909, 'Tom sagte, dass Maria dich mag.')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._lock = threading.Lock()
        self._compressed = _is_compressed(path)
        self._file: IO[bytes] = (
            tempfile.TemporaryFile()  # noqa: SIM115  closed with the object
            if self._compressed
            else path.open("rb", buffering=0)
        )
        weakref.finalize(self, self._file.close)
        unpacked = self._file if self._compressed else None
        self.size_in_bytes, self.checksum, self._offsets = _index(path, unpacked)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes."""
        return self._offsets.nbytes

    def __getitem__(self, index: int) -> str:
        """The line of an index from 0 on, without its end."""
        if not 0 <= index < len(self):
            raise IndexError(f"line {index} of {len(self)}")
        start, end = int(self._offsets[index]), int(self._offsets[index + 1])
        with self._lock:
            self._file.seek(start)
            raw = self._file.read(end - start)
        return self._text(raw, index)

    def __iter__(self) -> Iterator[str]:
        """All lines in order."""
        with _opened(self.path, self._compressed) as file:
            file.seek(int(self._offsets[0]))
            for index in range(len(self)):
                yield self._text(file.readline(), index)

    def _text(self, raw: bytes, index: int) -> str:
        length = int(self._offsets[index + 1] - self._offsets[index])
        try:
            if len(raw) != length:
                raise ValueError
            return raw.decode().removesuffix("\n").removesuffix("\r")
        except ValueError:
            raise UserError(
                f"{self.path} has changed since it was opened (line {index + 1}). Start again."
            ) from None


def _is_compressed(path: Path) -> bool:
    """Whether a file is of gzip; what is not a file is refused."""
    try:
        _refuse_unfit(path)
        with path.open("rb") as file:
            return file.read(2) == b"\x1f\x8b"
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None


def _opened(path: Path, compressed: bool) -> gzip.GzipFile | BufferedReader:
    return gzip.open(path, "rb") if compressed else path.open("rb")


def _index(path: Path, unpacked: IO[bytes] | None) -> tuple[int, int, npt.NDArray[np.uint64]]:
    """The bytes of a file, their CRC-32, and where each line starts and the last one ends.

    A file that is to be unpacked is written into `unpacked` on the way.
    """
    decoder = codecs.getincrementaldecoder("utf-8")()
    starts: list[npt.NDArray[np.uint64]] = []
    size = first = lines = checksum = 0
    try:
        with _opened(path, unpacked is not None) as file:
            while block := file.read(_BLOCK_BYTES):
                if size == 0 and block.startswith(codecs.BOM_UTF8):
                    first = len(codecs.BOM_UTF8)
                decoder.decode(block)
                checksum = zlib.crc32(block, checksum)
                if unpacked is not None:
                    unpacked.write(block)
                ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
                starts.append((ends + size + 1).astype(np.uint64))
                size += len(block)
                lines += len(ends)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n") + 1
        raise _not_utf8(path, line, error) from None
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise UserError(f"{path} is damaged or cut short ({error}). Copy it again.") from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    if size == first:
        raise UserError(f"{path} is empty. Expected one sentence on each line.")
    offsets = np.concatenate([np.array([first], np.uint64), *starts])
    if offsets[-1] < size:
        offsets = np.append(offsets, np.uint64(size))
    return size, checksum, offsets


def _refuse_unfit(path: Path) -> None:
    """Refuse what is not a file of plain text."""
    if not path.exists():
        raise UserError(f"{path} does not exist. Paths start from the folder you run in.")
    if path.is_dir():
        raise UserError(f"{path} is a folder. Name a text file in it.")
    if not path.is_file():
        raise UserError(f"{path} is not a regular file. Save the text to a file and name that.")


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> UserError:
    utf16 = line == 1 and error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "latin1"
    return UserError(
        f"{path}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8. Convert the "
        f"file from the encoding it has, as in: iconv -f {encoding} -t utf-8 {path} > {path}.utf8"
    )


class ParallelCorpus:
    """Sentence pairs, from two parallel files or from one file of tab-separated pairs.

    Make it with `open`. In tab-separated files quotes are text, and two columns are read: the
    first two, and then `extra_columns` counts the lines that have more; or those that are named.
    Features join the source line, after a tab.

    Args:
        first: The source lines, or all pairs.
        target: The target lines; None: the pairs are in `first`.
        columns: Of source, target and perhaps features in `first`, counted from 0.
        extra_columns: Lines with more than two columns, where none were named.

    Example:
        >>> corpus = ParallelCorpus.open(PairFiles(source="train.de", target="train.en"))
        >>> corpus[1]
        ('Sie sprechen zu schnell.', "You're talking too fast.")
    """

    def __init__(
        self,
        first: LineFile,
        target: LineFile | None,
        columns: tuple[int, ...] = (0, 1),
        extra_columns: int = 0,
    ) -> None:
        self._first = first
        self._target = target
        self._columns = columns
        self.extra_columns = extra_columns

    @classmethod
    def open(cls, files: PairFiles) -> ParallelCorpus:
        """Index and check the files.

        Raises:
            UserError: A file cannot be read (see `LineFile`), the two have different numbers of
                lines, or a line of pairs lacks a column.
        """
        if files.file is not None:
            pairs = LineFile(files.file)
            columns = tuple(column - 1 for column in files.columns)
            return cls(pairs, None, columns, _check_columns(pairs, files))
        if files.source is None or files.target is None:
            raise ValueError("PairFiles names two files, or one of pairs")
        sources, targets = LineFile(files.source), LineFile(files.target)
        if len(sources) != len(targets):
            raise UserError(
                f"{sources.path} has {len(sources):,} lines and {targets.path} has "
                f"{len(targets):,}: line n of one must be the translation of line n of the other."
            )
        return cls(sources, targets)

    @property
    def name(self) -> str:
        """The files, for messages."""
        return " and ".join(str(file.path) for file in self._files.values())

    @property
    def nbytes(self) -> int:
        """Bytes of memory that the index takes."""
        return sum(file.nbytes for file in self._files.values())

    @property
    def fingerprint(self) -> dict[str, dict[str, int]]:
        """Bytes, lines and CRC-32 of each file, to see whether the data have changed."""
        return {
            side: {"bytes": file.size_in_bytes, "lines": len(file), "crc32": file.checksum}
            for side, file in self._files.items()
        }

    @property
    def _files(self) -> dict[str, LineFile]:
        if self._target is None:
            return {"pairs": self._first}
        return {"source": self._first, "target": self._target}

    def __len__(self) -> int:
        return len(self._first)

    def __getitem__(self, index: int) -> tuple[str, str]:
        """The source and the target of a line, from 0 on."""
        if self._target is None:
            return self._pair(self._first[index])
        return self._first[index], self._target[index]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All pairs in order."""
        if self._target is None:
            return map(self._pair, self._first)
        return zip(self._first, self._target, strict=True)

    def source_lines(self) -> Iterator[str]:
        """All source lines in order."""
        return iter(self._first) if self._target else (source for source, _ in self)

    def target_lines(self) -> Iterator[str]:
        """All target lines in order."""
        return iter(self._target) if self._target else (target for _, target in self)

    def _pair(self, line: str) -> tuple[str, str]:
        columns = line.split("\t")
        # Only a blank line has fewer.
        if len(columns) <= max(self._columns):
            return "", ""
        source, target, *features = (columns[place] for place in self._columns)
        return "\t".join([source, *features]), target


def _check_columns(pairs: LineFile, files: PairFiles) -> int:
    """The number of lines with more than two columns, where none were named."""
    extra = 0
    for number, line in enumerate(pairs, start=1):
        columns = line.count("\t") + 1
        if columns < max(files.columns) and line.strip():
            place = f"{pairs.path}, line {number} has"
            raise UserError(place + _what_is_missing(line, files))
        extra += columns > 2
    return 0 if files.names_columns else extra


def _what_is_missing(line: str, files: PairFiles) -> str:
    if not files.names_columns:
        return (
            " no tab. Expected source, tab, target; for two parallel files write "
            '{ source = "...", target = "..." }.'
        )
    count = line.count("\t") + 1
    names = ("source_column", "target_column", "features_column")
    wanted = dict(zip(names, files.columns, strict=False))
    name = max(wanted, key=wanted.__getitem__)
    start = line if len(line) <= 40 else line[:40] + "..."
    return (
        f" {count} column{'s' * (count != 1)} parted by tabs ({start!r}), but {name} is "
        f"{wanted[name]}."
    )
