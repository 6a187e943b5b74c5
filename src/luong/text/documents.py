"""Labelled documents: rows of JSON or of tab-separated text, or a folder for each label."""

from __future__ import annotations

import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, TypeGuard

from luong.config import DocumentFiles
from luong.errors import UserError
from luong.text.corpus import LineFile
from luong.text.sentences import split_sentences


class Document(NamedTuple):
    """A document as sentences, with its labels: one, or any number where there may be several."""

    sentences: list[str]
    labels: tuple[str, ...]


class DocumentCorpus:
    """The labelled documents of a file or of a folder. Make it with `open`.

    - A `.jsonl` file has an object a line: "text", a string that is split into sentences, or
      "sentences", a list of strings; and "label", a string or a list of strings.
    - Any other file has a label, a tab and the text in each line; further tabs are text.
    - In a folder every folder is a label, and every file in it, at any depth, a document.

    Blank lines of a file are no documents; `blank_lines` counts them. Hidden files are not read.

    Args:
        path: The file or folder, for messages.
        lines: The file's lines; None for a folder.
        files: The folder's documents, as label and path.

    Example:
        >>> corpus = DocumentCorpus.open(DocumentFiles(file="reviews.jsonl"))
        >>> next(iter(corpus))
        Document(sentences=['Dull.', 'I left early.'], labels=('negative',))
    """

    def __init__(
        self, path: Path, lines: LineFile | None, files: list[tuple[str, Path]] | None = None
    ) -> None:
        self.name = str(path)
        self._lines = lines
        self._files = files or []
        self.blank_lines = sum(not line.strip() for line in lines) if lines else 0
        if len(self) == 0:
            raise UserError(f"{path} holds no document. Expected at least one, with its label.")

    @classmethod
    def open(cls, files: DocumentFiles) -> DocumentCorpus:
        """Index and check a file, or list a folder.

        Raises:
            UserError: The file or folder cannot be read or is empty.
        """
        if files.file is not None:
            return cls(files.file, LineFile(files.file))
        if files.folder is None:
            raise ValueError("DocumentFiles names a file or a folder")
        return cls(files.folder, None, _files_of(files.folder))

    @property
    def fingerprint(self) -> dict[str, dict[str, int]]:
        """Bytes, documents and CRC-32, to see whether the data have changed."""
        if self._lines:
            size, checksum = self._lines.size_in_bytes, self._lines.checksum
            return {"file": {"bytes": size, "lines": len(self._lines), "crc32": checksum}}
        size = checksum = 0
        for label, path in self._files:
            raw = path.read_bytes()
            size += len(raw)
            checksum = zlib.crc32(raw, zlib.crc32(label.encode(), checksum))
        return {"folder": {"bytes": size, "files": len(self._files), "crc32": checksum}}

    def __len__(self) -> int:
        return len(self._lines) - self.blank_lines if self._lines else len(self._files)

    def __iter__(self) -> Iterator[Document]:
        """All documents in order.

        Raises:
            UserError: A row is not what it should be; the message names it.
        """
        if self._lines is None:
            for label, path in self._files:
                yield Document(split_sentences(_text(path)), (label,))
            return
        parse = _from_json if self._lines.path.suffix == ".jsonl" else _from_columns
        for number, line in enumerate(self._lines, 1):
            if line.strip():
                yield parse(line, f"{self.name}, line {number}")


def _files_of(folder: Path) -> list[tuple[str, Path]]:
    """The documents of a folder as label and path, in the order of their names."""
    if not folder.is_dir():
        raise UserError(f"{folder} is not a folder. Expected one folder for each label in it.")
    labels = sorted(path for path in folder.iterdir() if path.is_dir() and not _hidden(path))
    return [
        (label.name, path)
        for label in labels
        for path in sorted(label.rglob("*"))
        if path.is_file() and not any(map(_hidden, path.relative_to(folder).parents))
        if not _hidden(path)
    ]


def _hidden(path: Path) -> bool:
    return path.name.startswith(".")


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except UnicodeDecodeError as error:
        raise UserError(
            f"{path} is not UTF-8 (byte {error.start}). Convert it, as in: iconv -f latin1 -t utf-8"
        ) from None


def _from_columns(line: str, place: str) -> Document:
    label, tab, text = line.partition("\t")
    if not tab or not label.strip():
        raise UserError(f"{place}: expected a label, a tab and the text.")
    return Document(split_sentences(text), (label.strip(),))


def _from_json(line: str, place: str) -> Document:
    expected = 'Expected {"text": "...", "label": "..."}, or "sentences" with a list of texts.'
    try:
        row: Any = json.loads(line)
    except ValueError as error:
        raise UserError(f"{place} is not JSON: {error}. {expected}") from None
    if not isinstance(row, dict):
        raise UserError(f"{place} is not an object. {expected}")
    if ("text" in row) == ("sentences" in row):
        raise UserError(f'{place} must have either "text" or "sentences". {expected}')
    text = row.get("text", "")
    sentences = row.get("sentences", [])
    if not isinstance(text, str) or not _is_texts(sentences):
        raise UserError(f'{place}: "text" is a text, "sentences" a list of texts. {expected}')
    if "sentences" not in row:
        sentences = split_sentences(text)
    label = row.get("label")
    labels = [label] if isinstance(label, str) else label
    if not _is_texts(labels) or not all(name.strip() for name in labels):
        raise UserError(f'{place}: "label" is {label!r}; expected a text, or a list of texts.')
    for name in labels:
        if any(sign in name for sign in "\t\r\n"):
            raise UserError(f"{place}: label {name!r} holds a tab or a line break.")
    return Document(sentences, tuple(dict.fromkeys(labels)))


def _is_texts(value: object) -> TypeGuard[list[str]]:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)
