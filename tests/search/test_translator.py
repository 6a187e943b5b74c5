"""The translator over a model that copies its source, so that every output is known."""

from __future__ import annotations

import inspect
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import NamedTuple

import pytest
import torch
from torch import Tensor, nn

from luong.errors import UserError
from luong.search import SearchOptions, SearchSettings, Translation, Translator
from luong.text.characters import CharacterTokenizer
from luong.text.vocabulary import BEGIN, END, PAD
from luong.text.words import WordTokenizer

LETTERS = "abcdefgh"


class Memory(NamedTuple):
    source: Tensor

    def select(self, rows: Tensor) -> Memory:
        return Memory(self.source[rows])


class State(NamedTuple):
    time: Tensor

    def select(self, rows: Tensor) -> State:
        return State(self.time[rows])

    def repeat(self, count: int) -> State:
        return State(self.time.repeat_interleave(count))


class Output(NamedTuple):
    log_probabilities: Tensor
    weights: Tensor


class CopyModel(nn.Module):
    """Predicts source token t at step t with probability 0.9; attends to it in row t + shift."""

    def __init__(self, size: int, shift: int = 0) -> None:
        super().__init__()
        self.size, self.shift = size, shift
        self.dropout = nn.Dropout(0.5)
        self.batches: list[tuple[int, int]] = []
        self.most_sentences: int | None = None
        self.out_of_memory: RuntimeError = torch.OutOfMemoryError("too much")
        self.broken = False

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, State]:
        assert not self.training
        assert not self.dropout.training
        if self.most_sentences is not None and len(source) > self.most_sentences:
            raise self.out_of_memory
        assert (source.gather(1, lengths[:, None] - 1) == END).all()
        assert ((source != PAD).sum(1) == lengths).all()
        assert (lengths > 1).all()
        self.batches.append(tuple(source.shape))
        return Memory(source), State(torch.zeros(len(source), dtype=torch.int64))

    def step(self, tokens: Tensor, state: State, memory: Memory) -> tuple[State, Output]:
        assert ((tokens == BEGIN) == (state.time == 0)).all()
        source = memory.source.repeat_interleave(len(tokens) // len(memory.source), dim=0)
        last = source.shape[1] - 1
        current = source.gather(1, state.time.clamp(max=last)[:, None])
        current = current.masked_fill((state.time > last)[:, None] | (current == PAD), END)
        table = torch.full((len(tokens), self.size), 0.1 / (self.size - 1))
        table = table.scatter(1, current, 0.9).log()
        attended = (state.time - self.shift).clamp(0, last)
        weights = 0.2 * nn.functional.one_hot(attended, last + 1) + 0.8 * (source == END)
        if self.broken:
            table = table * torch.nan
        return State(state.time + 1), Output(table, weights)


def translator(
    known: str = LETTERS, *, tokenizer: type = WordTokenizer, row: str = "predicted"
) -> Translator:
    trained = tokenizer.train(list(known) if tokenizer is WordTokenizer else [known], size=100)
    return Translator(
        SimpleNamespace(
            model=CopyModel(trained.size, shift=int(row == "fed")).eval(),
            source_tokenizer=trained,
            target_tokenizer=trained,
            alignment_row=row,
            device=torch.device("cpu"),
        )
    )


def test_one_line() -> None:
    result = translator().translate("b a  c")
    assert isinstance(result, Translation)
    assert result.source == "b a  c"
    assert result.text == "b a c"
    assert result.tokens == ["b", "a", "c"]
    assert result.source_tokens == ["b", "a", "c", "</s>"]
    assert result.attention.shape == (3, 4)
    assert result.alignment == [(0, 0), (1, 1), (3, 2)]
    assert result.score == pytest.approx(torch.tensor(0.9).log().item())


def test_forms_of_input_and_output() -> None:
    translate = translator().translate
    assert [t.text for t in translate(["a", "b c"])] == ["a", "b c"]
    assert translate([]) == []
    best = translate("a b", n_best=3)
    assert len({t.text for t in best}) == 3
    assert best[0].text == "a b"
    [[first, _], [second, _]] = translate(["a b", "c"], n_best=2)
    assert (first.text, second.text) == ("a b", "c")


@pytest.mark.parametrize("row", ["predicted", "fed"])
def test_unknown_words_are_copied_raw(row: str) -> None:
    unknown = translator("ab", row=row)
    result = unknown.translate("a Größe b ẞ1 a")
    assert result.text == "a Größe b ẞ1 a"
    assert result.tokens == ["a", "Größe", "b", "ẞ1", "a"]
    assert result.source_tokens == ["a", "Größe", "b", "ẞ1", "a", "</s>"]
    assert result.alignment == [(i, i) for i in range(5)]
    kept = unknown.translate("a Größe", replace_unknown=False)
    assert kept.text == "a <unk>"
    assert kept.alignment == [(0, 0), (1, 1)]


def test_without_attention_nothing_is_copied_or_linked() -> None:
    silent = translator("ab")
    step = silent.folder.model.step

    def without_attention(*inputs):
        state, output = step(*inputs)
        return state, output._replace(weights=torch.zeros_like(output.weights))

    silent.folder.model.step = without_attention
    result = silent.translate("a zz")
    assert (result.text, result.alignment) == ("a <unk>", [])


@pytest.mark.parametrize("line", ["", " ", "\t \u3000", "\n", "\r\n"])
def test_blank_lines_are_not_shown_to_the_model(line: str) -> None:
    blank = translator()
    for result in (blank.translate(line), *blank.translate(line, n_best=2)):
        assert (result.text, result.score, result.tokens, result.alignment) == ("", 0.0, [], [])
        assert result.attention.shape == (0, 0)
    assert blank.folder.model.batches == []


LINES = [
    "a b",
    "",
    "c\r\n",
    "  ",
    "zz \ud800 \U0001f600",
    "a " * 12,
    "\u202e b",
    "h\u2028g",
    "d\re",
]


@pytest.mark.parametrize("kind", [WordTokenizer, CharacterTokenizer])
@pytest.mark.parametrize("batch_size", [None, 1, 7])
def test_a_line_for_each_line(kind: type, batch_size: int | None) -> None:
    lines = LINES * 10
    results = translator(LETTERS + " ", tokenizer=kind).translate(lines, batch_size=batch_size)
    alone = [translator(LETTERS + " ", tokenizer=kind).translate(line) for line in LINES] * 10
    for line, result, single in zip(lines, results, alone, strict=True):
        assert result.text == single.text
        assert (result.text == "") == (line.strip() == "")
        assert not {"\n", "\r"} & set(result.text)
        result.text.encode()
        result.source.encode()
        assert torch.equal(result.attention, single.attention)
        assert result.alignment == single.alignment


def test_stream_reads_in_bounded_chunks() -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for number in range(300):
            read += 1
            yield LETTERS[number % 8] + "\n"

    stream = translator().translate_lines(lines(), beam_size=1, batch_size=2)
    assert next(stream).text == "a"
    assert read == 128
    assert [t.text for t in stream] == [LETTERS[n % 8] for n in range(1, 300)]


def test_chunks_of_long_lines_are_short() -> None:
    read = 0

    def lines() -> Iterator[str]:
        nonlocal read
        for _ in range(300):
            read += 1
            yield "a " * 1000

    options = {"max_source_length": 50, "max_length_ratio": 400.0}
    next(translator().translate_lines(lines(), beam_size=1, **options))
    assert read < 64


def test_batches_hold_fewer_long_lines() -> None:
    model = (long := translator()).folder.model
    long.translate(["a"] * 100 + ["a " * 150] * 40, beam_size=1)
    assert sum(sentences for sentences, _ in model.batches) == 140
    assert max(sentences for sentences, _ in model.batches) == 64
    assert all(s * (length - 1) <= 4096 for s, length in model.batches)
    assert model.batches[0] == (27, 151)


def test_over_long_lines_are_cut_with_one_warning(caplog: pytest.LogCaptureFixture) -> None:
    lines = ["a " * 5000, "b", "c " * 51, "d " * 50]
    with caplog.at_level(logging.WARNING, logger="luong"):
        results = translator().translate(lines, beam_size=2, max_source_length=50)
    assert [len(t.text.split()) for t in results] == [50, 1, 50, 50]
    assert results[0].alignment[-1] == (49, 49)
    [record] = caplog.records
    assert record.getMessage().startswith("2 source lines had more than 50 tokens and were cut")


def test_length_limit() -> None:
    result = translator().translate("a b c d", max_length_ratio=0.5, max_length_offset=1)
    assert result.text == "a b c"


def test_training_mode_comes_back() -> None:
    restless = translator()
    model = restless.folder.model
    model.train()
    model.dropout.eval()
    result = restless.translate("a b")
    assert model.training
    assert not model.dropout.training
    assert not result.attention.is_inference()


@pytest.mark.parametrize(
    "error",
    [
        torch.OutOfMemoryError("too much"),
        RuntimeError("DefaultCPUAllocator: can't allocate memory: you tried to allocate 8 bytes"),
    ],
)
def test_out_of_memory_splits_the_batch(error: RuntimeError) -> None:
    small = translator()
    small.folder.model.out_of_memory = error
    small.folder.model.most_sentences = 3
    lines = [LETTERS[n % 8] for n in range(20)]
    assert [t.text for t in small.translate(lines)] == lines
    small.folder.model.most_sentences = 0
    with pytest.raises(UserError, match="1 tokens does not fit"):
        small.translate("a")


def test_nan_is_an_error() -> None:
    broken = translator()
    broken.folder.model.broken = True
    with pytest.raises(UserError, match="NaN"):
        broken.translate("a b")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"n_best": 6}, ValueError),
        ({"beam_size": 0}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"max_source_length": 0}, ValueError),
        ({"max_length_ratio": -1.0}, ValueError),
        ({"normalization": "mean"}, ValueError),
        ({"alpha": -1.0}, ValueError),
        ({"beam": 3}, TypeError),
    ],
)
def test_wrong_options(options: dict, error: type[Exception]) -> None:
    with pytest.raises(error):
        translator().translate("a", **options)


def test_options_and_settings_have_the_same_names() -> None:
    fields = set(inspect.signature(SearchSettings).parameters)
    assert set(SearchOptions.__annotations__) == fields - {"n_best"}
