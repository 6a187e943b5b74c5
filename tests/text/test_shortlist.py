"""Lexical shortlists: IBM model 1 against its definition, and who may use what."""

import random

import numpy as np
import pytest

from luong.text import shortlist as module
from luong.text.shortlist import Shortlist, learn_shortlist
from luong.text.vocabulary import PAD


def plain_model_1(pairs, iterations):
    """IBM model 1 as in Brown et al. 1993: t(f|e) as a table of dicts."""
    table = {}
    for _ in range(iterations):
        counts, totals = {}, {}
        for source, target in pairs:
            words = [PAD, *source]
            for f in target:
                norm = sum(table.get((e, f), 1.0) for e in words)
                for e in words:
                    share = table.get((e, f), 1.0) / norm
                    counts[e, f] = counts.get((e, f), 0.0) + share
                    totals[e] = totals.get(e, 0.0) + share
        table = {(e, f): count / totals[e] for (e, f), count in counts.items()}
    return table


def toy_pairs(count):
    """Token 4 + i is translated as 10 - i, in any order, beside a frequent 11."""
    dice = random.Random(5)
    pairs = []
    for _ in range(count):
        source = dice.choices(range(4, 10), weights=[6, 5, 4, 3, 2, 1], k=dice.randint(1, 5))
        target = [14 - word for word in source] + [11] * dice.randint(1, 3)
        dice.shuffle(target)
        pairs.append((source, target))
    return pairs


@pytest.mark.parametrize("cells", [2**21, 10])
def test_the_order_is_that_of_model_1(monkeypatch, cells):
    monkeypatch.setattr(module, "_CELLS", cells)
    pairs = toy_pairs(60)
    learnt = learn_shortlist(pairs, 10, 12, frequent=1, translations=3, iterations=4)
    assert learnt.frequent.tolist() == [11]
    table = plain_model_1(pairs, 4)
    for source in range(4, 10):
        ranked = sorted(
            (f for e, f in table if e == source and f != 11), key=lambda f: -table[source, f]
        )
        assert learnt.translations[source].tolist() == (ranked + [PAD] * 3)[:3]
        assert learnt.translations[source, 0] == 14 - source
    assert (learnt.translations[:4] == PAD).all()


def test_what_a_batch_may_use():
    translations = np.zeros((8, 2), np.int32)
    translations[4], translations[5] = [9, 7], [7, 12]
    shortlist = Shortlist(np.array([6], np.int32), translations)
    tokens, allowed = shortlist.candidates([[4], [5, 5], [7]])
    assert tokens.tolist() == [0, 1, 2, 3, 6, 7, 9, 12]
    own = [tokens[row].tolist() for row in allowed]
    assert own == [[0, 1, 2, 3, 6, 7, 9], [0, 1, 2, 3, 6, 7, 12], [0, 1, 2, 3, 6]]
    for number, sentence in enumerate([[4], [5, 5], [7]]):
        alone, all_of_it = shortlist.candidates([sentence])
        assert alone.tolist() == own[number]
        assert all_of_it.all()
