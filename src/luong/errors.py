"""Errors for people: what happened, what was expected, how to mend it."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UserError(Exception):
    """A mistake in what the program was given; its text is all that a person sees.

    The command line prints it as one line and leaves with exit code 1, without a traceback.

    Example:
        >>> raise UserError("train.de has 10 lines, train.en has 9: parallel files must match.")
        Traceback (most recent call last):
        ...
        luong.errors.UserError: train.de has 10 lines, train.en has 9: parallel files must match.
    """


def nearest(word: str, choices: Iterable[str]) -> str:
    """Name the choice closest to a misspelt word, as a phrase to end an error with.

    Args:
        word: What was written.
        choices: What could have been written.

    Returns:
        " Did you mean 'x'?", or the list of choices if none is close.

    Example:
        >>> nearest("hiden_size", ["hidden_size", "dropout"])
        " Did you mean 'hidden_size'?"
    """
    known = list(choices)
    close = difflib.get_close_matches(word, known, n=1)
    if close:
        return f" Did you mean '{close[0]}'?"
    return f" Known: {', '.join(known)}." if known else ""


def is_out_of_memory(error: Exception) -> bool:
    """Whether torch could not get memory; on a CPU that is a plain RuntimeError.

    Example:
        >>> is_out_of_memory(RuntimeError("DefaultCPUAllocator: can't allocate memory"))
        True
    """
    # By its name, since this module is loaded before torch is wanted.
    return type(error).__name__ == "OutOfMemoryError" or "can't allocate memory" in str(error)
