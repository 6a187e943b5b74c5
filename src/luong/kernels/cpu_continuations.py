"""The best continuations of beams on the CPU: one pass over the probabilities.

A block of tokens is looked at one by one only where its best could enter the list. Tokens come in
the order of beams and then of ids, and only a greater value enters, so equal ones keep that order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from luong.kernels.compiled import compiled

Floats = NDArray[np.float32]

_BLOCK = 64
_LEAST = np.float32(-np.inf)
_MOST = np.float32(np.inf)


@compiled
def _largest(values: Floats) -> np.float32:
    largest = _LEAST
    for c in range(values.shape[0]):
        # A NaN is never greater.
        largest = values[c] if values[c] > largest else largest
    return largest


@compiled
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


@compiled
def best(
    scores: Floats,
    log_probabilities: Floats,
    only_end: NDArray[np.bool_],
    end: int,
    never: NDArray[np.int64],
    first: int,
    last: int,
    values: Floats,
    beams: NDArray[np.int64],
    tokens: NDArray[np.int64],
) -> None:
    """The lists of the sentences [first, last), as long as the rows of `values`."""
    width = scores.shape[1]
    size = log_probabilities.shape[1]
    for sentence in range(first, last):
        top = values[sentence]
        top[:] = _LEAST
        beams[sentence] = 0
        tokens[sentence] = 0
        for beam in range(width):
            score = scores[sentence, beam]
            if not score > _LEAST:
                continue
            row = log_probabilities[sentence * width + beam]
            if only_end[sentence]:
                _enter(score + row[end], beam, end, top, beams[sentence], tokens[sentence])
                continue
            for start in range(0, size, _BLOCK):
                stop = min(start + _BLOCK, size)
                if not score + _largest(row[start:stop]) > top[-1]:
                    continue
                for token in range(start, stop):
                    value = score + row[token]
                    if value > top[-1] and not (never == token).any():
                        _enter(value, beam, token, top, beams[sentence], tokens[sentence])
