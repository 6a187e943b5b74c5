"""Alignment error rate: links of a system against links that people made."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from luong.errors import UserError
from luong.text.corpus import LineFile

Link = tuple[int, int]
"""A source word and a target word, counted from 0."""

_LINK = re.compile(r"(\d+)([-?])(\d+)")


class GoldAlignment(NamedTuple):
    """The links of one sentence pair (Och and Ney 2003).

    Attributes:
        sure: S, the links without doubt.
        possible: P, which contains S.
    """

    sure: frozenset[Link]
    possible: frozenset[Link]


class AlignmentScores(NamedTuple):
    """How well links agree with gold ones, all from 0 to 1, over a whole set of pairs.

    Attributes:
        precision: |A and P| / |A|.
        recall: |A and S| / |S|.
        error_rate: 1 - (|A and S| + |A and P|) / (|A| + |S|), lower is better.
    """

    precision: float
    recall: float
    error_rate: float


def read_gold(path: Path) -> list[GoldAlignment]:
    """Read gold links: a line a pair, `i-j` a sure link and `i?j` a possible one.

    Args:
        path: The file; i counts source words and j target words, from 0.

    Raises:
        UserError: The file cannot be read, or holds something else; the line is named.

    Example:
        >>> read_gold(Path("gold.align"))[0].sure
        frozenset({(0, 0), (1, 2)})
    """
    gold = []
    for number, line in enumerate(LineFile(path), 1):
        links: dict[str, set[Link]] = {"-": set(), "?": set()}
        for word in line.split():
            match = _LINK.fullmatch(word)
            if not match:
                raise UserError(
                    f"{path}, line {number}: '{word}' is no link. Expected i-j (sure) or i?j "
                    "(possible), words counted from 0."
                )
            links[match[2]].add((int(match[1]), int(match[3])))
        gold.append(GoldAlignment(frozenset(links["-"]), frozenset(links["-"] | links["?"])))
    return gold


def alignment_scores(
    links: Sequence[Iterable[Link]], gold: Sequence[GoldAlignment]
) -> AlignmentScores:
    """Alignment error rate, precision and recall of links (Och and Ney 2003).

    Args:
        links: A, of each pair.
        gold: What people linked, as many.

    Returns:
        The scores; a rate of nothing is 0.

    Raises:
        UserError: There are not as many of both.

    Example:
        >>> sure = frozenset({(0, 0)})
        >>> alignment_scores([[(0, 0), (1, 1)]], [GoldAlignment(sure, sure)]).error_rate
        0.33333333333333337
    """
    if len(links) != len(gold):
        raise UserError(
            f"There are {len(links)} sentence pairs and {len(gold)} lines of gold links: line n "
            "must belong to pair n."
        )
    found = sure = in_sure = in_possible = 0
    for pairs, one in zip(links, gold, strict=True):
        answer = set(pairs)
        found += len(answer)
        sure += len(one.sure)
        in_sure += len(answer & one.sure)
        in_possible += len(answer & one.possible)
    return AlignmentScores(
        precision=in_possible / found if found else 0.0,
        recall=in_sure / sure if sure else 0.0,
        error_rate=1.0 - (in_sure + in_possible) / (found + sure) if found + sure else 0.0,
    )
