"""The search over the real encoder-decoder, against its teacher-forced pass."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from luong.config import AttentionConfig, ModelConfig
from luong.models import Seq2Seq
from luong.search import Translator, beam_search
from luong.text.vocabulary import BEGIN, END
from luong.text.words import WordTokenizer

SIZE = 14


@pytest.fixture(params=["general", "local-m", "bahdanau", "none"])
def model(request: pytest.FixtureRequest) -> Seq2Seq:
    attention = {
        "general": AttentionConfig(),
        "local-m": AttentionConfig(window="local-m", half_width=1),
        "bahdanau": AttentionConfig(score="additive", placement="bahdanau", input_feeding=False),
        "none": AttentionConfig(score="none"),
    }[request.param]
    torch.manual_seed(3)
    model = Seq2Seq(ModelConfig(embedding_size=8, hidden_size=12, attention=attention), SIZE, SIZE)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(12)  # so that the tokens differ in probability
    return model.eval()


@torch.inference_mode()
def test_hypotheses_agree_with_the_forced_pass(model: Seq2Seq) -> None:
    source = torch.tensor([[5, 6, 7, 8, END], [9, 4, END, 0, 0], [4, END, 0, 0, 0]])
    lengths = torch.tensor([5, 3, 2])
    memory, state = model.encode(source, lengths)
    found = beam_search(
        model.step,
        state,
        memory,
        beam_size=4,
        n_best=4,
        max_lengths=2 * lengths,
        normalization="none",
    )
    for row, hypotheses in enumerate(found):
        assert len({tuple(h.ids) for h in hypotheses}) == len(hypotheses) == 4
        length = lengths[row : row + 1]
        alone = source[row : row + 1, : int(length)]
        for hypothesis in hypotheses:
            target = torch.tensor([[BEGIN, *hypothesis.ids]])
            states, weights = model(alone, length, target, need_weights=True)
            table = model.output(states).log_softmax(2)[0]
            tokens = torch.tensor([*hypothesis.ids, END])
            forced = table.gather(1, tokens[:, None]).sum()
            torch.testing.assert_close(torch.tensor(hypothesis.score), forced, rtol=0, atol=1e-4)
            attention = hypothesis.attention[:, : int(length)]
            torch.testing.assert_close(attention, weights[0], rtol=0, atol=1e-5)
            assert not hypothesis.attention[:, int(length) :].any()


def test_translations_do_not_depend_on_the_batch(model: Seq2Seq) -> None:
    tokenizer = WordTokenizer.train(list("abcdefghij"), size=SIZE)
    folder = SimpleNamespace(
        model=model,
        source_tokenizer=tokenizer,
        target_tokenizer=tokenizer,
        alignment_row="predicted",
        device=torch.device("cpu"),
    )
    lines = ["a b c", "", "j", "x y z x y z", "b " * 12, "c d", " ", "e f g h i j", "a"]
    translator = Translator(folder)
    results = {size: translator.translate(lines, batch_size=size) for size in (1, 3, 64)}
    backwards = translator.translate(lines[::-1])[::-1]
    for number, line in enumerate(lines):
        alone = translator.translate(line)
        for other in (backwards[number], *(results[size][number] for size in results)):
            assert other.text == alone.text
            assert other.score == pytest.approx(alone.score, abs=1e-5)
            torch.testing.assert_close(other.attention, alone.attention, rtol=0, atol=1e-5)
            assert other.alignment == alone.alignment
