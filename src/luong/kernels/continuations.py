"""The best continuations of beams, in plain torch: what every engine must find."""

from __future__ import annotations

from math import inf
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import pad


class Continuations(NamedTuple):
    """How the beams of n sentences go on, K ways each, and which of them end.

    Attributes:
        scores: Of the best that do not end, best first (n, K); -inf where there are no more.
        beams: Which beam each continues (n, K); 0 where there are no more.
        tokens: With which token (n, K); 0 where there are no more.
        ended: The score with the end symbol of each beam that ends (n, width), else -inf.
    """

    scores: Tensor
    beams: Tensor
    tokens: Tensor
    ended: Tensor


def best_continuations(
    scores: Tensor,
    log_probabilities: Tensor,
    only_end: Tensor,
    count: int,
    end: int,
    never: tuple[int, ...],
    normalized: bool = True,
) -> Continuations:
    """See `luong.kernels.best_continuations`."""
    if not normalized:
        log_probabilities = torch.log_softmax(log_probabilities.float(), -1)
    sentences, width = scores.shape
    size = log_probabilities.shape[1]
    values, tokens = _row_best(log_probabilities, min(2 * count + len(never), size))
    first = torch.arange(values.shape[1], device=values.device) == 0
    ending = only_end.repeat_interleave(width).unsqueeze(1)
    ends = log_probabilities[:, end].unsqueeze(1)
    values = torch.where(ending, torch.where(first, ends, -inf), values)
    tokens = tokens.masked_fill(ending & first, end)
    beams = torch.arange(width, device=values.device).repeat(sentences).unsqueeze(1)
    values = (scores.view(-1, 1) + values.float()).nan_to_num_(nan=-inf, posinf=-inf, neginf=-inf)
    for token in never:
        values = values.masked_fill(tokens == token, -inf)
    # In the order of places, so that the stable sort gives equal values to the earlier beam and
    # then to the lower token.
    table = (sentences, width * values.shape[1])
    places = (beams * size + tokens).view(table).sort(dim=1)
    top = values.view(table).gather(1, places.indices)
    top, order = top.sort(dim=1, descending=True, stable=True)
    missing = max(0, 2 * count - top.shape[1])
    top = pad(top[:, : 2 * count], (0, missing), value=-inf)
    chosen = pad(places.values.gather(1, order)[:, : 2 * count], (0, missing))

    ends_here = (chosen % size == end) & (top > -inf)
    ended = torch.full_like(scores, -inf)
    ahead = torch.where(ends_here, top, -inf)[:, :count]
    ended = ended.scatter_reduce(1, chosen[:, :count] // size, ahead, "amax")
    going = ends_here.to(torch.int8).sort(dim=1, stable=True).indices[:, :count]
    best, chosen = top.gather(1, going), chosen.gather(1, going)
    # What cannot be is continued with nothing in particular.
    chosen = chosen.masked_fill(best == -inf, 0)
    return Continuations(best, chosen // size, chosen % size, ended)


def _row_best(log_probabilities: Tensor, count: int) -> tuple[Tensor, Tensor]:
    """The `count` best tokens of each row (rows, V), of equals the lower ones: values, tokens."""
    values, tokens = log_probabilities.topk(min(count + 1, log_probabilities.shape[1]), dim=1)
    # topk takes NaN for the greatest value and any of several equal ones: where that shows, sort.
    odd = values[:, 0].isnan()
    if values.shape[1] > count:
        odd |= (values[:, count - 1] == values[:, count]) & (values[:, count] > -inf)
    rows = odd.nonzero()[:, 0]
    if len(rows):
        clean = log_probabilities[rows].nan_to_num(nan=-inf, posinf=-inf, neginf=-inf)
        ranked = clean.sort(dim=1, descending=True, stable=True)
        width = values.shape[1]
        values[rows], tokens[rows] = ranked.values[:, :width], ranked.indices[:, :width]
    return values[:, :count], tokens[:, :count]
