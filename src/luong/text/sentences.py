"""Plain text as sentences."""

from __future__ import annotations

import re

# A run of marks that end a sentence, and what closes with it.
_END = re.compile(r"(?P<marks>[.!?…]+|[。！？]+)(?P<close>[\"'”’»)\]」』]*)(?P<space>\s*)")
_INITIAL = re.compile(r"(?:^|[\W_])(?:[^\W\d_]\.)*[^\W\d_]$")


def split_sentences(text: str) -> list[str]:
    """Split text at the ends of sentences and at line breaks.

    A sentence ends with `.`, `!`, `?` or `…` before white space, and with `。`, `！` or `？`
    anywhere; closing quotes and brackets go with it. A `.` or `…` before a small letter ends
    nothing, nor does a `.` after an initial or an abbreviation of single letters ("J. Smith",
    "e.g. Rome"). In tokenised text, where white space stands before the mark, it ends one before
    small letters, too.

    Args:
        text: Plain text.

    Returns:
        The sentences, without white space around them, in order; none of them is blank.

    Example:
        >>> split_sentences("It cost 3.5 approx. in all. Is it much? “No!” he said.")
        ['It cost 3.5 approx. in all.', 'Is it much?', '“No!” he said.']
    """
    return [sentence for line in text.splitlines() for sentence in _of_line(line)]


def _of_line(line: str) -> list[str]:
    sentences = []
    start = 0
    for match in _END.finditer(line):
        if _ends_sentence(line, start, match):
            sentences.append(line[start : match.end()].strip())
            start = match.end()
    sentences.append(line[start:].strip())
    return [sentence for sentence in sentences if sentence]


def _ends_sentence(line: str, start: int, match: re.Match[str]) -> bool:
    """Whether the marks that were found end the sentence that begins at `start`."""
    marks = match["marks"]
    if marks[0] in "。！？":
        return True
    if not match["space"]:
        return False
    before = line[start : match.start()].rstrip()
    if match.start() and line[match.start() - 1].isspace():
        return marks != "." or not _INITIAL.search(before)
    following = line[match.end() : match.end() + 1]
    asks_or_shouts = "!" in marks or "?" in marks
    if following.islower() and (match["close"] or not asks_or_shouts):
        return False
    return marks != "." or bool(match["close"]) or not _INITIAL.search(before)
