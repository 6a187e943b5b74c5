"""The best continuations of beams on the CPU: one pass over the probabilities.

A block of tokens is looked at one by one only where its best could enter the list. Tokens come in
the order of beams and then of ids, and only a greater value enters, so equal ones keep that order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import exponential, flags, floats, inlined, integers, largest, numbers
from luong.kernels.team import Loop

Floats = NDArray[np.float32]

_BLOCK = 64
_LEAST = np.float32(-np.inf)
_MOST = np.float32(np.inf)
_HALF = np.float32(0.5)


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
def _rank(
    scores: Floats,
    rows: Floats,
    only_end: bool,
    end: int,
    never: NDArray[np.int64],
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
        if only_end:
            _enter(score + row[end], beam, end, values, beams, tokens)
            continue
        for start in range(0, size, _BLOCK):
            stop = min(start + _BLOCK, size)
            # A NaN decides nothing: the tokens are looked at.
            if score + largest(row[start:stop]) <= values[-1]:
                continue
            for token in range(start, stop):
                value = score + row[token]
                if value > values[-1] and not (never == token).any():
                    _enter(value, beam, token, values, beams, tokens)


@Loop
def best(first: int, last: int, call: int) -> None:
    """How the beams of the sentences [first, last) go on, and which of them end.

    `scores` is the address of (n, width); so are `log_probabilities` (n * width, size), `only_end`
    (n), `never` (nevers), and of the results `going`, `beams` and `tokens` (n, count),
    and `ended` (n, width).
    """
    (
        scores, log_probabilities, only_end, never, width, size, nevers, count, end,
        going, beams, tokens, ended,
    ) = numbers(call, 13)  # fmt: skip
    before, rows = floats(scores, last, width), floats(log_probabilities, last * width, size)
    only_ends, excluded = flags(only_end, 1, last)[0], integers(never, 1, nevers)[0]
    best_scores, ends = floats(going, last, count), floats(ended, last, width)
    best_beams, best_tokens = integers(beams, last, count), integers(tokens, last, count)
    values = np.empty(2 * count, np.float32)
    found_beams = np.empty(2 * count, np.int64)
    found_tokens = np.empty(2 * count, np.int64)
    for sentence in range(first, last):
        values[:] = _LEAST
        own = rows[sentence * width : (sentence + 1) * width]
        ends_now = only_ends[sentence]
        _rank(before[sentence], own, ends_now, end, excluded, values, found_beams, found_tokens)
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
    top = largest(row)
    total = np.float64(0.0)
    for start in range(0, row.shape[0], _BLOCK):
        part = np.float32(0.0)
        for c in range(start, min(start + _BLOCK, row.shape[0])):
            part += exponential((row[c] - top) * _HALF)
        total += part
    normalizer = np.float32(top + np.log(total))
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
