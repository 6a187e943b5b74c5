"""Lines in and out of a process: UTF-8 bytes, one line out for each line in."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import TextIOWrapper
from pathlib import Path
from typing import BinaryIO

from luong.errors import UserError


def input_lines(stream: BinaryIO | None = None) -> Iterator[str]:
    r"""The lines of a stream, split at "\n" alone, without their ends.

    Args:
        stream: Bytes; the standard input by default.

    Raises:
        UserError: A line is not UTF-8; the message names it.
    """
    for number, raw in enumerate(stream or sys.stdin.buffer, 1):
        try:
            line = raw.decode("utf-8-sig" if number == 1 else "utf-8")
        except UnicodeDecodeError:
            raise UserError(
                f"line {number} of the input is not UTF-8. Convert it first, for example with "
                "`iconv -f latin1 -t utf-8`."
            ) from None
        yield line.removesuffix("\n").removesuffix("\r")


def print_line(text: str) -> None:
    """Write a line to the standard output as UTF-8, whatever the locale."""
    sys.stdout.buffer.write(text.encode() + b"\n")
    sys.stdout.buffer.flush()


@contextmanager
def whole_text_file(path: str | None) -> Iterator[TextIOWrapper | None]:
    """A text file to write line by line that appears under its name once it is complete.

    Args:
        path: Where; None gives None.

    Raises:
        UserError: The file cannot be written.
    """
    if path is None:
        yield None
        return
    target = Path(path)
    if target.is_dir():
        raise UserError(f"{path} is a folder. Name a file to write.")
    temporary = target.with_name(f".{target.name}.tmp")
    try:
        file = temporary.open("w", encoding="utf-8", newline="\n")
    except OSError as error:
        raise UserError(f"{path} cannot be written: {error.strerror}.") from None
    try:
        with file:
            yield file
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)
