"""Writing files whole: a reader sees the old bytes or the new ones, never a part."""

from __future__ import annotations

import os
from pathlib import Path

from luong.errors import UserError


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any moment leaves the old file or the new one.

    The bytes go to a temporary name in the same folder, reach the disk, and take the place of
    `path` in one step.

    Args:
        path: The file to write; its folder must exist.
        data: All its bytes.

    Raises:
        UserError: The file cannot be written (no such folder, no permission, disk full).

    Example:
        >>> write_whole(folder / "config.json", b"{}")
    """
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        with temporary.open("wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise UserError(
            f"{path} cannot be written: {error.strerror}. "
            f"Check that {path.parent} is a folder you may write to, with space left."
        ) from error
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
