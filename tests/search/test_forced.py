"""Forced decoding, against the teacher-forced pass of the model."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from luong.errors import UserError
from luong.folder import load_folder
from luong.search import align_pairs
from luong.text.vocabulary import BEGIN, END

PAIRS = [
    ("eins zwei drei", "one two three"),
    ("", "one"),
    ("fünf", " "),
    ("elf neun", "eleven  nine"),
    ("acht unbekannt", "eight strange two"),
]


@torch.inference_mode()
def test_scores_and_attention_are_those_of_the_forced_pass(trained: Path) -> None:
    folder = load_folder(trained)
    sources, targets = zip(*PAIRS, strict=True)
    found = align_pairs(folder, sources, targets)
    for (source, target), pair in zip(PAIRS, found, strict=True):
        assert (pair.source, pair.text) == (source, target)
        ids = folder.target_tokenizer.ids(target)
        if not source.strip() or not ids:
            assert (pair.score, pair.tokens, pair.alignment) == (0.0, [], [])
            continue
        inputs = torch.tensor([[*folder.source_tokenizer.ids(source), END]])
        states, weights = folder.model(
            inputs,
            torch.tensor([inputs.shape[1]]),
            torch.tensor([[BEGIN, *ids]]),
            need_weights=True,
        )
        table = folder.model.output(states).log_softmax(2)[0]
        expected = table.gather(1, torch.tensor([*ids, END])[:, None]).mean()
        assert pair.score == pytest.approx(float(expected), abs=1e-5)
        torch.testing.assert_close(pair.attention, weights[0, :-1], rtol=0, atol=1e-5)


def test_words_are_linked_and_shown_as_they_stand(trained: Path) -> None:
    folder = load_folder(trained)
    sources, targets = zip(*PAIRS, strict=True)
    found = align_pairs([folder, folder], sources, targets)
    assert found[0].alignment == [(0, 0), (1, 1), (2, 2)]
    # Empty words between two spaces count, as everywhere.
    assert found[3].alignment == [(0, 0), (1, 2)]
    assert found[4].tokens == ["eight", "strange", "two"]
    assert found[4].source_tokens == ["acht", "unbekannt", "</s>"]


def test_batches_do_not_matter(trained: Path) -> None:
    folder = load_folder(trained)
    sources, targets = zip(*PAIRS, strict=True)
    whole = align_pairs(folder, sources, targets)
    for one, other in zip(whole, align_pairs(folder, sources, targets, batch_size=1), strict=True):
        assert one.score == pytest.approx(other.score, abs=1e-6)
        assert one.alignment == other.alignment


def test_unequal_sides_are_refused(trained: Path) -> None:
    with pytest.raises(UserError, match="2 source lines and 1 target lines"):
        align_pairs(load_folder(trained), ["eins", "zwei"], ["one"])
