"""The best continuations of beams on the CPU: one pass over the probabilities.

A block of tokens is looked at one by one only where its best could enter the list. Tokens come in
the order of beams and then of ids, and only a greater value enters, so equal ones keep that order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import (
    exponential,
    flags,
    floats,
    inlined,
    integers,
    largest,
    njit,
    numbers,
)
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

_BLOCK = 64
_LEAST = np.float32(-np.inf)
_MOST = np.float32(np.inf)
_ZERO = np.float32(0.0)
_HALF = np.float32(0.5)


# Not `reassoc`: tokens are equal where their log-probabilities, rounded as such, are. Without flags
# of its own it would have those of its caller.
@njit(error_model="numpy", nogil=True, fastmath={"contract"}, forceinline=True)
def _continued(score: np.float32, logit: np.float32, normalizer: np.float32) -> np.float32:
    """The score of a beam that is continued."""
    return score + (logit - normalizer)


@inlined
def _enter(
    value: np.float32,
    beam: int,
    token: int,
    values: Floats,
    beams: NDArray[np.int64],
    tokens: NDArray[np.int64],
) -> None:
    """Put a continuation at its place in a list, best first, if it is good enough."""
    place = values.shape[0] - 1
    if not (value > values[place] and value < _MOST):
        return
    while place > 0 and value > values[place - 1]:
        values[place] = values[place - 1]
        beams[place] = beams[place - 1]
        tokens[place] = tokens[place - 1]
        place -= 1
    values[place] = value
    beams[place] = beam
    tokens[place] = token


@inlined
def _normalizer(row: Floats, peaks: Floats) -> np.float32:
    """log(sum of e^row), of a row whose blocks have these greatest values."""
    top = largest(peaks)
    total = np.float64(0.0)
    whole = row.shape[0] - row.shape[0] % _BLOCK
    for start in range(0, whole, _BLOCK):
        block, part = row[start : start + _BLOCK], np.float32(0.0)
        # A loop whose length the compiler knows takes half the time.
        for c in range(_BLOCK):
            part += exponential((block[c] - top) * _HALF)
        total += part
    part = np.float32(0.0)
    for c in range(whole, row.shape[0]):
        part += exponential((row[c] - top) * _HALF)
    return np.float32(top + np.log(total + part))


@inlined
def _find_peaks(row: Floats, peaks: Floats) -> None:
    """The greatest value of each block."""
    for block in range(peaks.shape[0]):
        peaks[block] = largest(row[block * _BLOCK : (block + 1) * _BLOCK])


@inlined
def _rank(
    scores: Floats,
    rows: Floats,
    normalized: bool,
    only_end: bool,
    end: int,
    never: NDArray[np.int64],
    peaks: Floats,
    values: Floats,
    beams: NDArray[np.int64],
    tokens: NDArray[np.int64],
) -> None:
    """The best continuations of one sentence, as many as `values` holds."""
    size = rows.shape[1]
    for beam in range(scores.shape[0]):
        score = scores[beam]
        if not score > _LEAST:
            continue
        row = rows[beam]
        _find_peaks(row, peaks)
        normalizer = _ZERO if normalized else _normalizer(row, peaks)
        if only_end:
            _enter(_continued(score, row[end], normalizer), beam, end, values, beams, tokens)
            continue
        for block in range(peaks.shape[0]):
            # A NaN decides nothing: the tokens are looked at.
            if _continued(score, peaks[block], normalizer) <= values[-1]:
                continue
            for token in range(block * _BLOCK, min((block + 1) * _BLOCK, size)):
                value = _continued(score, row[token], normalizer)
                if value > values[-1] and not (never == token).any():
                    _enter(value, beam, token, values, beams, tokens)


@Loop
def best(first: int, last: int, call: int) -> None:
    """How the beams of the sentences [first, last) go on, and which of them end.

    `scores` is the address of (n, width); so are `log_probabilities` (n * width, size), `only_end`
    (n), `never` (nevers), and of the results `going`, `beams` and `tokens` (n, count),
    and `ended` (n, width). What is not `normalized` are logits.
    """
    (
        scores, log_probabilities, only_end, never, width, size, nevers, count, end, normalized,
        going, beams, tokens, ended,
    ) = numbers(call, 14)  # fmt: skip
    before, rows = floats(scores, last, width), floats(log_probabilities, last * width, size)
    only_ends, excluded = flags(only_end, 1, last)[0], integers(never, 1, nevers)[0]
    best_scores, ends = floats(going, last, count), floats(ended, last, width)
    best_beams, best_tokens = integers(beams, last, count), integers(tokens, last, count)
    values = np.empty(2 * count, np.float32)
    found_beams = np.empty(2 * count, np.int64)
    found_tokens = np.empty(2 * count, np.int64)
    peaks = np.empty(-(-size // _BLOCK), np.float32)
    for sentence in range(first, last):
        values[:] = _LEAST
        own = rows[sentence * width : (sentence + 1) * width]
        _rank(
            before[sentence],
            own,
            normalized,
            only_ends[sentence],
            end,
            excluded,
            peaks,
            values,
            found_beams,
            found_tokens,
        )
        best_scores[sentence] = _LEAST
        best_beams[sentence] = 0
        best_tokens[sentence] = 0
        ends[sentence] = _LEAST
        place = 0
        for rank in range(2 * count):
            if not values[rank] > _LEAST:
                break
            if found_tokens[rank] != end:
                if place < count:
                    best_scores[sentence, place] = values[rank]
                    best_beams[sentence, place] = found_beams[rank]
                    best_tokens[sentence, place] = found_tokens[rank]
                    place += 1
            elif rank < count:
                ends[sentence, found_beams[rank]] = values[rank]


@inlined
def _log_softmax(row: Floats, out: Floats) -> None:
    peaks = np.empty(-(-row.shape[0] // _BLOCK), np.float32)
    _find_peaks(row, peaks)
    normalizer = _normalizer(row, peaks)
    for c in range(row.shape[0]):
        out[c] = row[c] - normalizer


@Loop
def log_softmax(first: int, last: int, call: int) -> None:
    """The logarithms of the softmax of the rows [first, last), which differ in no other way.

    `logits` is the address of (rows, size); so is the result `out`.
    """
    logits, size, out = numbers(call, 3)
    rows, logs = floats(logits, last, size), floats(out, last, size)
    for row in range(first, last):
        _log_softmax(rows[row], logs[row])
