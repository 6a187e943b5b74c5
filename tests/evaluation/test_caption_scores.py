import pytest
from sacrebleu.metrics.bleu import BLEU
from sacrebleu.metrics.chrf import CHRF

from luong.errors import UserError
from luong.evaluation.captions import caption_scores

CAPTIONS = ["a dog runs on the beach", "two men play", "a red kite in the sky"]
SEVERAL = [
    ["a dog runs along the beach", "the dog runs on a beach"],
    ["two men play football", "two men play", "men who play"],
    ["a red kite in the sky"],
]


def test_several_references_are_those_of_sacrebleu():
    scores = caption_scores(CAPTIONS, SEVERAL)
    streams = [
        ["a dog runs along the beach", "two men play football", "a red kite in the sky"],
        ["the dog runs on a beach", "two men play", None],
        [None, "men who play", None],
    ]
    assert scores.bleu == pytest.approx(BLEU().corpus_score(CAPTIONS, streams).score)
    assert scores.chrf == pytest.approx(CHRF().corpus_score(CAPTIONS, streams).score)
    assert scores.exact_match == pytest.approx(2 / 3)
    assert "nrefs:var" in scores.signatures["bleu"]
    first = caption_scores(CAPTIONS, [several[:1] for several in SEVERAL])
    assert first.bleu < scores.bleu
    assert "nrefs:1" in first.signatures["bleu"]


def test_no_pictures():
    assert caption_scores([], [])[:3] == (0, 0, 0)


def test_unequal_numbers():
    with pytest.raises(UserError, match="1 hypotheses and 2 references"):
        caption_scores(["a"], [["a"], ["b"]])
