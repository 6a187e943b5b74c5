"""The systems are what the paper says, and the tables hold what the runs reached."""

import json
import math

import pytest

from luong.cli.evaluate import evaluate_files
from luong.config import PairFiles
from luong.errors import UserError
from luong.evaluation import alignment_scores
from luong.folder import load_folder
from luong.reproduce import experiment, luong2015
from luong.reproduce.experiment import Size
from luong.search import align_pairs
from luong.training.report import read_metrics

SIZE = Size(hidden_size=8, vocabulary_size=12)


@pytest.fixture
def two_systems(monkeypatch, quick):
    """A ladder of one rung and a grid of two, one of them on both; drawing takes longest."""
    monkeypatch.setattr(luong2015, "LADDER", luong2015.LADDER[4:5])
    monkeypatch.setattr(luong2015, "GRID", luong2015.GRID[:2])
    monkeypatch.setattr(luong2015, "line_chart", lambda *_, path, **__: path.touch())
    monkeypatch.setattr(experiment, "heatmap", lambda *_, path, **__: path.touch())
    return quick


def test_the_ladder_is_that_of_table_1(corpus, tmp_path):
    words = experiment.count_words(corpus.train)
    shared = experiment.shared_settings(
        corpus, words, Size(), tmp_path, luong2015._shared(words.source_length)
    )
    models = [system.config(shared, tmp_path).model for _, system, _ in luong2015.LADDER]
    rungs = [
        (
            model.reverse_source,
            model.dropout,
            model.attention.score,
            model.attention.window,
            model.attention.input_feeding,
        )
        for model in models
    ]
    assert rungs == [
        (False, 0.0, "none", "global", False),
        (True, 0.0, "none", "global", False),
        (True, 0.2, "none", "global", False),
        (True, 0.2, "location", "global", False),
        (True, 0.2, "location", "global", True),
        (True, 0.2, "general", "local-p", True),
    ]
    for model in models:
        assert not model.bidirectional
        assert model.cell == "lstm"
        assert model.attention.placement == "luong"
        assert model.attention.half_width == luong2015.half_width(words.source_length)
    assert luong2015.half_width(25) == 10


def test_the_grid_is_that_of_table_4():
    cells = {
        (one.model["attention"]["window"], one.model["attention"]["score"])
        for _, one, _ in luong2015.GRID
    }
    contents = {(w, s) for w in ("global", "local-m", "local-p") for s in ("dot", "general")}
    concat = {(w, "concat") for w in ("global", "local-m", "local-p")}
    assert cells == contents | concat | {("global", "location")}
    for label, one, _ in luong2015.GRID:
        assert one.model["reverse_source"]
        assert one.model["attention"]["input_feeding"]
        assert label == f"{one.model['attention']['window']}, {one.model['attention']['score']}"
    assert len(luong2015.systems()) == 14  # two are in both tables


def test_two_systems(corpus, two_systems, tmp_path, console):
    output = tmp_path / "out"
    table = luong2015.reproduce(corpus, SIZE, 1.0, output, console)
    names = ["global-location", "global-dot"]
    assert two_systems == names
    plan = json.loads((output / "plan.json").read_text())
    # 0.6 of a minute over two systems of 1.5 seconds, and a multiple of the four validations.
    assert plan["updates"] == 12
    for name in names:
        folder = load_folder(output / name)
        rows = read_metrics(output / name)
        assert [row["step"] for row in rows if row["kind"] == "validation"] == [3, 6, 9, 12]
        assert folder.source_tokenizer.size == 12
        found = json.loads((output / name / "result.json").read_text())
        files = PairFiles(source=tmp_path / "data/test.de", target=tmp_path / "data/test.en")
        scores, texts = evaluate_files(str(output / name), files)
        assert found["replaced"] == scores["bleu"]
        assert (output / name / "test.replaced.out").read_text().splitlines() == texts
        pairs = align_pairs(folder, corpus.sources, corpus.references)
        tokens = sum(len(pair.tokens) + 1 for pair in pairs)
        loss = -sum(pair.score * (len(pair.tokens) + 1) for pair in pairs) / tokens
        assert found["perplexity"] == pytest.approx(math.exp(loss))
        gold = corpus.gold
        aligned = align_pairs(folder, gold.sources, gold.targets)
        links = [pair.alignment for pair in aligned]
        assert found["error_rate"] == alignment_scores(links, gold.links).error_rate
        assert (output / "alignments" / f"{name}.png").exists()
        row = next(line for line in table.splitlines() if name.replace("-", ", ") in line)
        assert f"{found['perplexity']:.2f}" in row.split()
        assert f"{found['error_rate']:.2f}" in row.split("|")[0].split()
    ensemble = json.loads((output / "ensemble" / "result.json").read_text())
    assert sorted(ensemble["members"]) == sorted(names)
    row = next(line for line in table.splitlines() if line.startswith("ensemble of 2"))
    assert f"{ensemble['perplexity']:.2f}" in row.split()
    assert (output / "table.txt").read_text() == table + "\n"

    # Once more: nothing is trained, timed or measured again.
    before = {path: path.stat().st_mtime_ns for path in output.glob("*/*") if path.is_file()}
    assert luong2015.reproduce(corpus, SIZE, 1.0, output, console) == table
    assert {path: path.stat().st_mtime_ns for path in before} == before
    assert two_systems == names
    with pytest.raises(UserError, match=r"holds an experiment of 1 minutes"):
        luong2015.reproduce(corpus, SIZE, 2.0, output, console)
    with pytest.raises(UserError, match="--minutes 0"):
        luong2015.reproduce(corpus, SIZE, 0, output, console)


def test_an_interrupted_experiment_goes_on(corpus, two_systems, tmp_path, console, monkeypatch):
    whole = luong2015.reproduce(corpus, SIZE, 1.0, tmp_path / "whole", console)
    train = experiment.train_system
    trained = []

    def interrupted(config, console):
        trained.append(config.output.name)
        return len(trained) != 2 and train(config, console)

    monkeypatch.setattr(experiment, "train_system", interrupted)
    output = tmp_path / "parts"
    assert luong2015.reproduce(corpus, SIZE, 1.0, output, console) is None
    assert luong2015.reproduce(corpus, SIZE, 1.0, output, console) == whole
    assert trained == ["global-location", "global-dot", "global-dot"]
