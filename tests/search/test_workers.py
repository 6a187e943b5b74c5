"""Several processes translate as one does: the same results, in order, and they end well."""

from __future__ import annotations

import logging
import multiprocessing
import os
import random
import signal
from io import StringIO

import pytest
import torch
from rich.console import Console

from luong.errors import UserError
from luong.search import Translator, TranslatorPool, open_translator
from luong.training import train

WORDS = ["eins", "zwei", "drei", "vier", "fünf", "sechs", "sieben"]


def lines(count: int) -> list[str]:
    dice = random.Random(4)
    texts = [" ".join(dice.choices(WORDS, k=dice.randint(1, 9))) for _ in range(count)]
    return ["", *texts, "  ", "zz \ud800 \U0001f600"]


@pytest.fixture(scope="module")
def pool(trained):
    with TranslatorPool(trained, workers=2) as pool:
        yield pool
    assert not [p for p in multiprocessing.active_children() if p.name == "luong-worker"]


def pids() -> list[int]:
    return [p.pid for p in multiprocessing.active_children() if p.name == "luong-worker"]


def test_results_are_those_of_one_process(pool, translator) -> None:
    options = {"batch_size": 3, "n_best": 2}
    expected = translator.translate(lines(40), **options)
    for group, alone in zip(pool.translate(lines(40), **options), expected, strict=True):
        for found, one in zip(group, alone, strict=True):
            assert torch.equal(found.attention, one.attention)
            assert vars(found) | {"attention": None} == vars(one) | {"attention": None}
    assert pool.translate("zwei").text == translator.translate("zwei").text
    assert pool.translate([]) == []


def test_a_stream_is_read_two_chunks_ahead_at_most(pool, translator) -> None:
    read = 0

    def endless():
        nonlocal read
        while True:
            read += 1
            yield f"{WORDS[read % 7]} {WORDS[read % 3]}"

    stream = pool.translate_lines(endless(), batch_size=1, beam_size=1)
    found = [next(stream) for _ in range(70)]
    stream.close()
    assert read == 3 * 64  # a chunk is 64 batches
    expected = translator.translate([result.source for result in found], beam_size=1)
    assert [result.text for result in found] == [result.text for result in expected]
    # What was left unfinished does not come back as the answer to something else.
    assert pool.translate("zwei drei").text == translator.translate("zwei drei").text


def test_lines_that_were_cut_are_counted_once(pool, caplog) -> None:
    with caplog.at_level(logging.WARNING, logger="luong"):
        results = pool.translate(["eins " * 9] * 5 + ["zwei"], batch_size=1, max_source_length=4)
    assert len(results) == 6
    [record] = caplog.records
    assert record.getMessage().startswith("5 source lines had more than 4 tokens")


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({"normalization": "mean"}, ValueError),  # found by a worker
        ({"beam_size": 0}, ValueError),
        ({"shortlist": True}, UserError),
    ],
)
def test_errors_of_workers_are_raised_here(pool, translator, options, error) -> None:
    with pytest.raises(error) as alone:
        translator.translate("eins", **options)
    with pytest.raises(error) as found:
        pool.translate("eins", **options)
    assert str(found.value) == str(alone.value)
    assert pool.translate("eins").text == translator.translate("eins").text


def test_a_killed_worker_is_told_after_what_was_done(trained, translator) -> None:
    before = set(pids())
    with TranslatorPool(trained, workers=1) as pool:
        [worker] = set(pids()) - before
        stream = pool.translate_lines(["eins zwei"] * 200, batch_size=1)
        first = [next(stream).text for _ in range(5)]
        os.kill(worker, signal.SIGKILL)
        with pytest.raises(UserError, match=r"killed by signal 9, most likely for want of memory"):
            list(stream)
    assert first == [translator.translate("eins zwei").text] * 5
    assert set(pids()) == before


def test_what_is_no_model_folder_is_refused_here(tmp_path) -> None:
    before = set(pids())
    with pytest.raises(UserError, match="is not a model folder"):
        TranslatorPool(tmp_path, workers=1)
    assert set(pids()) == before
    with pytest.raises(ValueError, match="workers must be 1 or more"):
        TranslatorPool(tmp_path, workers=0)


def test_one_worker_is_this_process(trained) -> None:
    with open_translator(trained) as translator:
        assert type(translator) is Translator


@pytest.mark.slow
def test_an_ensemble_is_shared_as_one_model_is(trained) -> None:
    both = [trained, trained]
    with open_translator(both) as alone, open_translator(both, workers=2) as pool:
        assert type(pool) is TranslatorPool
        expected = [result.text for result in alone.translate(lines(20))]
        assert [result.text for result in pool.translate(lines(20))] == expected


@pytest.mark.slow
def test_what_was_copied_comes_through_the_workers(toy_config) -> None:
    config = toy_config("model.copy=true", "training.max_epochs=3")
    train(config, console=Console(file=StringIO()))
    # Words that no vocabulary has: what is said of them is copied.
    texts = ["eins Xylofon zwei", "Quetzal", *lines(20)]
    with open_translator(config.output) as alone, TranslatorPool(config.output, workers=2) as pool:
        expected = alone.translate(texts, beam_size=2)
        found = pool.translate(texts, beam_size=2)
    assert any(one.copied for one in expected)
    assert [(one.text, one.copied) for one in found] == [(e.text, e.copied) for e in expected]
