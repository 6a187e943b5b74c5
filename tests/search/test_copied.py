"""A translator whose model copies: what it says, what it marks, and what it refuses."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch

from luong.config import AttentionConfig, ModelConfig
from luong.errors import UserError
from luong.models import Seq2Seq
from luong.models.quantized import quantize
from luong.search import Translator, align_pairs
from luong.search.copying import stretches
from luong.text.characters import CharacterTokenizer
from luong.text.vocabulary import BEGIN, END
from luong.text.words import WordTokenizer

TEXT = "the of and (a) to in"


@dataclass
class Folder:
    model: Any
    source_tokenizer: Any
    target_tokenizer: Any
    alignment_row: str = "predicted"
    shortlist: Any = None
    max_source_length: int = 0
    device: str = "cpu"


def folder_of(kind=WordTokenizer, gate=-9.0, copies=True, **attention):
    """A model that attends to position t at step t and, with this gate, only copies it."""
    attention = {"score": "location", "max_length": 80, "input_feeding": False, **attention}
    reader, writer = kind.train([TEXT + " ein"], 100), kind.train([TEXT], 100)
    config = ModelConfig(
        embedding_size=8,
        hidden_size=12,
        cell="gru",
        copies=copies,
        attention=AttentionConfig(**attention),
    )
    torch.manual_seed(3)
    model = Seq2Seq(config, reader.size, writer.size).eval()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(10)
        if copies:
            model.decoder.copy_gate.weight.zero_()
            model.decoder.copy_gate.bias.fill_(gate)
    return Folder(model, reader, writer)


LINES = ["Größe of (x™)", "", "ein the zzz", "the and", "the " * 12, "a"]


@pytest.mark.parametrize("kind", [WordTokenizer, CharacterTokenizer])
def test_new_words_come_out_raw_and_marked(kind):
    translator = Translator(folder_of(kind, window="local-m", half_width=1))
    with_end = translator.translate(LINES, beam_size=3, max_length_ratio=1.0, max_length_offset=0)
    for line, result in zip(LINES, with_end, strict=True):
        # A gate that only copies leaves the end symbol to the longest length.
        source = set(translator.folder.source_tokenizer.pieces(line))
        pieces = translator.folder.target_tokenizer.pieces(result.text)
        if kind is CharacterTokenizer:
            assert set(pieces) <= source
        assert "<unk>" not in result.text
        if line:
            assert result.copied == [(0, len(result.text))]
            assert result.marked == f"⟦{result.text}⟧"
    assert not Translator(folder_of(kind, gate=9.0)).translate("Größe of zzz").copied


def test_batch_mates_beams_and_n_best_change_nothing():
    translator = Translator(folder_of(gate=0.0, score="general", input_feeding=True))
    together = translator.translate(LINES, n_best=3)
    assert any(one.copied for group in together for one in group)
    for line, group in zip(LINES, together, strict=True):
        alone = translator.translate(line, n_best=3)
        assert [one.text for one in alone] == [one.text for one in group]
        assert [one.copied for one in alone] == [one.copied for one in group]
        for one, other in zip(alone, group, strict=True):
            assert one.score == pytest.approx(other.score, abs=1e-5)
        if line:
            assert translator.translate(line).text == group[0].text


def test_the_score_is_that_of_the_forced_pass():
    folder = folder_of(gate=0.0, score="general")
    found = Translator(folder).translate(LINES, normalization="none")
    for line, result in zip(LINES, found, strict=True):
        if not result.tokens:
            continue
        [forced] = align_pairs(folder, [line], [result.text])
        # Text reads back as the same tokens here; the score of a pair is a mean.
        steps = len(result.tokens) + 1
        if forced.tokens == result.tokens:
            assert forced.score * steps == pytest.approx(result.score, abs=1e-4)


def test_a_pair_with_words_that_cannot_be_copied_has_a_finite_score():
    folder = folder_of(gate=-3.0, window="local-m", half_width=1)
    [result] = align_pairs(folder, ["zzz the and of to in"], ["the and of to zzz yyy"])
    assert -100 < result.score < 0


def test_ensembles_copy_together_or_not_at_all():
    first, second = folder_of(gate=0.0, score="general"), folder_of(gate=1.0, score="general")
    line = "Größe of zzz"
    assert Translator([first, second]).translate(line).text
    both = Translator([first, first]).translate(line, n_best=2)
    alone = Translator(first).translate(line, n_best=2)
    assert [one.text for one in both] == [one.text for one in alone]
    assert [one.copied for one in both] == [one.copied for one in alone]
    with pytest.raises(UserError, match=r"Model 1 of the ensemble copies .* and model 2 does not"):
        Translator([first, folder_of(copies=False)])


def test_int8_copies_too_and_a_shortlist_is_refused():
    folder = folder_of(window="local-m", half_width=1)
    before = Translator(folder).translate("Größe of zzz", beam_size=1)
    quantize(folder.model)
    assert Translator(folder).translate("Größe of zzz", beam_size=1).text == before.text
    with pytest.raises(UserError, match="copies source words, which a shortlist"):
        Translator(folder).translate("Größe", shortlist=True)


def test_sources_are_cut_as_in_training(caplog):
    folder = folder_of(window="local-m", half_width=1)
    folder.max_source_length = 2
    result = Translator(folder).translate("zzz yyy xxx www")
    assert result.source_tokens == ["zzz", "yyy", "</s>"]
    assert "had more than 2 tokens" in caplog.text


def test_least_length_and_blocked_ngrams():
    translator = Translator(folder_of(gate=0.0, score="general"))
    line = "the of zzz and yyy"
    for length in (0, 3, 6):
        assert len(translator.translate(line, min_length=length).tokens) >= length
    for size in (1, 2):
        options = {"block_ngrams": size, "min_length": 4, "replace_unknown": False}
        for result in translator.translate(line, n_best=5, **options):
            ngrams = list(zip(*(result.tokens[i:] for i in range(size)), strict=False))
            assert len(set(ngrams)) == len(ngrams)
    with pytest.raises(ValueError, match="min_length and block_ngrams"):
        translator.translate(line, min_length=-1)


def test_neighbours_make_one_stretch():
    text, spans = "a big-cat sat", [(0, 1), (2, 5), (5, 6), (6, 9), (10, 13)]
    assert stretches(text, spans, [0.9, 0.2, 0.8, 0.8, 0.7]) == [(0, 1), (5, 13)]
    assert stretches(text, spans, [0.5] * 5) == []
    assert stretches(text, spans, ()) == []


def test_unknown_tokens_are_fed_for_new_ones():
    folder = folder_of(gate=0.0, score="general")
    model, new = folder.model, folder.target_tokenizer.size
    copies = torch.tensor([[new, 4, -1]])
    memory, state = model.encode(torch.tensor([[1, 4, END]]), torch.tensor([3]), copies)
    state, _ = model.step(torch.tensor([BEGIN]), state, memory)
    _, with_new = model.step(torch.tensor([new]), state, memory)
    _, with_unknown = model.step(torch.tensor([1]), state, memory)
    assert torch.equal(with_new.log_probabilities, with_unknown.log_probabilities)
