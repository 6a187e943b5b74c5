"""Corpora: text files indexed by line, and the sentence pairs in them."""

from __future__ import annotations

import codecs
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import numpy.typing as npt

from luong.config import PairFiles
from luong.errors import UserError

_BLOCK_BYTES = 1 << 22


class LineFile:
    r"""A UTF-8 text file with random access to its lines; it holds 8 bytes for each line.

    Lines end at "\n" alone; one "\r" before it is taken off, as is a byte order mark at the
    start of the file. The whole file is checked when it is opened. Several threads may read.

    Args:
        path: The file.

    Raises:
        UserError: The file is missing, a folder, compressed, empty, or not UTF-8.

    Example:
        >>> lines = LineFile(Path("train.de"))
        >>> len(lines), lines[0]
        (7909, 'Tom sagte, dass Maria dich mag.')
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size_in_bytes, self._offsets = _index(path)
        self._lock = threading.Lock()
        self._file = path.open("rb", buffering=0)
        weakref.finalize(self, self._file.close)

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
        with self.path.open("rb") as file:
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


def _index(path: Path) -> tuple[int, npt.NDArray[np.uint64]]:
    """The bytes of a file, and where each line starts and, last, where the text ends."""
    decoder = codecs.getincrementaldecoder("utf-8")()
    starts: list[npt.NDArray[np.uint64]] = []
    size = first = lines = 0
    try:
        _refuse_unfit(path)
        with path.open("rb") as file:
            while block := file.read(_BLOCK_BYTES):
                if size == 0 and block.startswith(codecs.BOM_UTF8):
                    first = len(codecs.BOM_UTF8)
                decoder.decode(block)
                ends = np.flatnonzero(np.frombuffer(block, np.uint8) == ord("\n"))
                starts.append((ends + size + 1).astype(np.uint64))
                size += len(block)
                lines += len(ends)
        decoder.decode(b"", final=True)
    except UnicodeDecodeError as error:
        line = lines + error.object[: error.start].count(b"\n") + 1
        raise _not_utf8(path, line, error) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    if size == first:
        raise UserError(f"{path} is empty. Expected one sentence on each line.")
    offsets = np.concatenate([np.array([first], np.uint64), *starts])
    if offsets[-1] < size:
        offsets = np.append(offsets, np.uint64(size))
    return size, offsets


def _refuse_unfit(path: Path) -> None:
    """Refuse what is not a file of plain text."""
    if not path.exists():
        raise UserError(f"{path} does not exist. Paths start from the folder you run in.")
    if path.is_dir():
        raise UserError(f"{path} is a folder. Name a text file in it.")
    if not path.is_file():
        raise UserError(f"{path} is not a regular file. Save the text to a file and name that.")
    with path.open("rb") as file:
        if file.read(2) == b"\x1f\x8b":
            raise UserError(f"{path} is compressed. Unpack it first: gunzip -k {path}")


def _not_utf8(path: Path, line: int, error: UnicodeDecodeError) -> UserError:
    utf16 = line == 1 and error.object.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    encoding = "utf-16" if utf16 else "latin1"
    return UserError(
        f"{path}, line {line}: byte 0x{error.object[error.start]:02x} is not UTF-8. Convert the "
        f"file from the encoding it has, as in: iconv -f {encoding} -t utf-8 {path} > {path}.utf8"
    )


class ParallelCorpus:
    """Sentence pairs, from two parallel files or from one file of tab-separated pairs.

    Make it with `open`. In tab-separated files quotes are text, and columns after the second
    are not read; `extra_columns` counts the lines that have them.

    Args:
        first: The source lines, or all pairs.
        target: The target lines; None: the pairs are in `first`.
        extra_columns: Lines with more than two columns.

    Example:
        >>> corpus = ParallelCorpus.open(PairFiles(source="train.de", target="train.en"))
        >>> corpus[1]
        ('Sie sprechen zu schnell.', "You're talking too fast.")
    """

    def __init__(self, first: LineFile, target: LineFile | None, extra_columns: int = 0) -> None:
        self._first = first
        self._target = target
        self.extra_columns = extra_columns

    @classmethod
    def open(cls, files: PairFiles) -> ParallelCorpus:
        """Index and check the files.

        Raises:
            UserError: A file cannot be read (see `LineFile`), the two have different numbers of
                lines, or a line of pairs has no tab.
        """
        if files.file is not None:
            pairs = LineFile(files.file)
            return cls(pairs, None, _check_columns(pairs))
        if files.source is None or files.target is None:
            raise ValueError("PairFiles names two files, or one of pairs")
        source, target = LineFile(files.source), LineFile(files.target)
        if len(source) != len(target):
            raise UserError(
                f"{source.path} has {len(source):,} lines and {target.path} has {len(target):,}: "
                "line n of one must be the translation of line n of the other."
            )
        return cls(source, target)

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
        """The bytes and lines of each file, to see whether the data have changed; fit for JSON."""
        return {
            side: {"bytes": file.size_in_bytes, "lines": len(file)}
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
            return _columns(self._first[index])
        return self._first[index], self._target[index]

    def __iter__(self) -> Iterator[tuple[str, str]]:
        """All pairs in order."""
        if self._target is None:
            return map(_columns, self._first)
        return zip(self._first, self._target, strict=True)

    def source_lines(self) -> Iterator[str]:
        """All source lines in order."""
        return iter(self._first) if self._target else (source for source, _ in self)

    def target_lines(self) -> Iterator[str]:
        """All target lines in order."""
        return iter(self._target) if self._target else (target for _, target in self)


def _columns(line: str) -> tuple[str, str]:
    columns = line.split("\t", 2)
    return (columns[0], columns[1]) if len(columns) > 1 else ("", "")


def _check_columns(pairs: LineFile) -> int:
    """The number of lines with more than two columns."""
    extra = 0
    for number, line in enumerate(pairs, start=1):
        tabs = line.count("\t")
        if not tabs and line.strip():
            raise UserError(
                f"{pairs.path}, line {number} has no tab. Expected source, tab, target; for two "
                'parallel files write { source = "...", target = "..." }.'
            )
        extra += tabs > 1
    return extra
