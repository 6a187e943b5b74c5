"""Training, translating and scoring with copying, from the command line."""

import json
import random

import pytest

SETTINGS = """
output = "run"
[data]
train = { file = "train.tsv" }
valid = { file = "dev.tsv" }
max_source_length = 9
[tokens]
kind = "word"
minimum_count = 2
[model]
cell = "gru"
embedding_size = 24
hidden_size = 32
dropout = 0.0
tie_embeddings = "all"
copy = true
[model.attention]
score = "additive"
coverage = true
[training]
max_epochs = 40
batch_tokens = 200
learning_rate = 0.01
label_smoothing = 0.0
best_by = "rouge"
"""
KINDS = ["library", "plugin", "game", "editor", "server"]


def pairs(count, seed):
    """ "The NAME package is a KIND" becomes "KIND NAME"; no name comes twice."""
    draw = random.Random(seed)
    lines = []
    for number in range(count):
        name = "".join(draw.choices("abcdefghij", k=4)) + str(number + 1000 * seed)
        kind = draw.choice(KINDS)
        start = draw.choice(["The", "This"])
        lines.append(f"{start} {name} package is a {kind}\t{kind} {name}\n")
    return "".join(lines)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "run.toml").write_text(SETTINGS, encoding="utf-8")
    (tmp_path / "train.tsv").write_text(pairs(300, 1), encoding="utf-8")
    (tmp_path / "dev.tsv").write_text(pairs(20, 2), encoding="utf-8")
    test = [line.split("\t") for line in pairs(50, 3).splitlines()]
    (tmp_path / "test.src").write_text("".join(s + "\n" for s, _ in test), encoding="utf-8")
    (tmp_path / "test.tgt").write_text("".join(t + "\n" for _, t in test), encoding="utf-8")
    return tmp_path


def test_all_verbs_of_a_model_that_copies(luong, refused, folder):
    ended = luong("train", "run.toml", "--set", "training.max_epochs=1")
    assert ended.code == 0, ended.error
    assert "ROUGE-L" in ended.out
    source = (folder / "test.src").read_bytes()
    ended = luong("translate", "run", "--n-best", "2", "--min-length", "2", stdin=source)
    first = json.loads(ended.out.splitlines()[0])["translations"][0]
    assert all(0 <= start < end <= len(first["text"]) for start, end in first["copied"])
    plain = luong("translate", "run", "--block-ngrams", "1", stdin=source).out
    marked = luong("translate", "run", "--block-ngrams", "1", "--mark-copied", stdin=source).out
    assert marked.replace("⟦", "").replace("⟧", "") == plain
    score = ("evaluate", "run", "--source", "test.src", "--reference", "test.tgt")
    scores = json.loads(luong(*score, "--rouge", "--json", "--int8").out)
    assert 0 <= scores["rouge2"] <= scores["rouge1"] <= 100
    assert "ROUGE-L" in luong(*score, "--rouge").out
    assert "ROUGE" not in luong(*score).out
    assert "shortlist" in refused("shortlist", "run")


@pytest.mark.slow
def test_it_learns_to_copy_words_it_has_never_seen(luong, folder):
    assert luong("train", "run.toml").code == 0
    score = ("evaluate", "run", "--source", "test.src", "--reference", "test.tgt", "--json")
    assert json.loads(luong(*score).out)["exact_match"] >= 0.9
    marked = luong("translate", "run", "--mark-copied", stdin=(folder / "test.src").read_bytes())
    name = (folder / "test.src").read_text(encoding="utf-8").split()[1]
    assert marked.out.splitlines()[0].endswith(f"⟦{name}⟧")


def test_settings_that_do_not_fit_are_refused(refused, folder):
    def complaint(*settings):
        sets = [part for one in settings for part in ("--set", one)]
        return refused("train", "run.toml", *sets)

    assert "has none" in complaint("model.attention.score=dot")
    found = complaint("model.attention.window=local-m")
    assert 'window = "global"' in found
    found = complaint("model.attention.score=none", "model.attention.coverage=false")
    assert "copy = true copies the words" in found
    assert "known" in complaint("model.copy_words=true")
