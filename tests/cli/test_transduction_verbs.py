"""Pronouncing and inflecting from files of columns, trained and scored by the command line."""

import gzip
import json
import random

import pytest

from luong.search import Translator

RUN = """
output = "unset"
seed = 1
[data]
train = { file = "FOLDER/train.tsv.gz", source_column = 2, target_column = 3 }
valid = { file = "FOLDER/dev.tsv", source_column = 2, target_column = 3 }
[tokens]
shared = false
[tokens.source]
kind = "character"
[tokens.target]
kind = "symbol"
[model]
embedding_size = 16
hidden_size = 32
dropout = 0.0
tie_embeddings = "none"
[model.attention]
input_feeding = false
window = "local-m"
half_width = 1
[training]
max_epochs = 20
batch_tokens = 60
validate_every = 60
learning_rate = 0.03
average_decay = 0
label_smoothing = 0
best_by = "exact_match"
precision = "float32"
device = "cpu"
"""

SOUNDS = {"a": "aː", "b": "b̥", "c": "t͡ʃ", "d": "˧˥"}


def _pairs(count, seed):
    dice = random.Random(seed)
    words = ["".join(dice.choices("abcd", k=dice.randint(1, 4))) for _ in range(count)]
    return "".join(
        f"{number}\t{word}\t{' '.join(SOUNDS[letter] for letter in word)}\n"
        for number, word in enumerate(words)
    )


@pytest.fixture(scope="module")
def pronunciations(tmp_path_factory):
    folder = tmp_path_factory.mktemp("pronunciations")
    (folder / "train.tsv.gz").write_bytes(gzip.compress(_pairs(150, 1).encode()))
    (folder / "dev.tsv").write_text(_pairs(20, 2), encoding="utf-8")
    (folder / "run.toml").write_text(RUN.replace("FOLDER", str(folder)), encoding="utf-8")
    return folder


def test_a_run_by_exact_match(luong, refused, pronunciations, tmp_path):
    output, dev = tmp_path / "model", pronunciations / "dev.tsv"
    ended = luong("train", pronunciations / "run.toml", f"--set=output={output}")
    assert ended.code == 0, ended.error
    assert "character and symbol" in ended.out
    assert "exactly right at update" in ended.out
    assert (output / "report.html").exists()
    config = json.loads((output / "config.json").read_text())
    rows = [json.loads(line) for line in (output / "metrics.jsonl").read_text().splitlines()]
    validations = [row for row in rows if row["kind"] == "validation"]
    best = max(validations, key=lambda row: (row["exact_match"], -row["loss"]))
    assert config["scores"]["step"] == best["step"]
    assert config["scores"]["exact_match"] == best["exact_match"] > 0.4

    scores = json.loads(
        luong(
            "evaluate",
            output,
            "--file",
            dev,
            "--beam-size",
            1,
            "--json",
            "--output",
            output / "out",
        ).out
    )
    assert scores["exact_match"] == best["exact_match"]
    assert scores["symbol_error_rate"] == best["symbol_error_rate"] < 40
    assert scores["word_error_rate"] == pytest.approx(100 - 100 * scores["exact_match"])
    texts = (output / "out").read_text(encoding="utf-8").splitlines()
    assert set(" ".join(texts).split()) <= set(SOUNDS.values())
    plain = luong("evaluate", output, "--file", dev).out
    assert "word errors" in plain
    assert "symbol errors" in plain

    # The folder is read back with both kinds of tokens.
    import luong as library

    translator = library.load(output)
    assert isinstance(translator, Translator)
    assert translator.folder.source_tokenizer.kind == "character"
    assert translator.folder.target_tokenizer.kind == "symbol"
    assert translator.folder.config.data.train.columns == (2, 3)

    two = tmp_path / "two.tsv"
    two.write_text("a\tb\n")
    message = refused("evaluate", output, "--file", two)
    assert "two.tsv, line 1 has 2 columns" in message
    assert "target_column is 3" in message


def test_evaluate_wants_one_form_of_data(luong, pronunciations, trained):
    for options in ([], ["--source", "a"], ["--source", "a", "--reference", "b", "--file", "c"]):
        ended = luong("evaluate", trained, *options)
        assert ended.code == 2
        assert "--source and --reference, or" in ended.error


INFLECTION = """
output = "unset"
[data]
train = { file = "FOLDER/train.tsv", features_column = 3 }
valid = { file = "FOLDER/train.tsv", features_column = 3 }
[tokens]
kind = "character"
shared = false
[model]
embedding_size = 8
hidden_size = 8
features = "FORM"
[training]
max_epochs = 2
batch_tokens = 30
learning_rate = 0.01
schedule = "constant"
best_by = "loss"
precision = "float32"
device = "cpu"
"""


@pytest.mark.parametrize("form", [pytest.param("tokens", marks=pytest.mark.slow), "attention"])
def test_inflection_with_features(luong, tmp_path, form):
    words = ["gehen", "sehen", "Haus", "ab"]
    rows = [f"{word}\t{word}t\tV;PST\n{word}\t{word}\tV\n" for word in words]
    (tmp_path / "train.tsv").write_text("".join(rows))
    settings = INFLECTION.replace("FOLDER", str(tmp_path)).replace("FORM", form)
    (tmp_path / "run.toml").write_text(settings)
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert luong("train", tmp_path / "run.toml", f"--set=output={whole}").code == 0
    for options in (["--set=training.max_epochs=1"], ["--resume"]):
        ended = luong("train", tmp_path / "run.toml", f"--set=output={parts}", *options)
        assert ended.code == 0, ended.error
    weights = [(folder / "model.safetensors").read_bytes() for folder in (whole, parts)]
    assert weights[0] == weights[1]

    lines = ["gehen\tV;PST", "Haus\tV", "", "ab", "ab\tNEVER;V"]
    source = tmp_path / "in"
    source.write_text("".join(line + "\n" for line in lines))
    out = luong("translate", whole, "--n-best", 2, stdin=source.read_bytes()).out
    found = [json.loads(line) for line in out.splitlines()]
    assert [result["source"] for result in found] == lines
    for line, result in zip(lines, found, strict=True):
        alone = luong("translate", whole, "--n-best", 2, stdin=line.encode() + b"\n").out
        assert [x["text"] for x in json.loads(alone)["translations"]] == [
            x["text"] for x in result["translations"]
        ]
    scores = [
        luong("evaluate", *folders, "--file", tmp_path / "train.tsv", "--json").out
        for folders in ([whole], [parts], [whole, parts])
    ]
    assert {json.loads(score)["symbol_error_rate"] for score in scores} == {
        json.loads(scores[0])["symbol_error_rate"]
    }
    in_int8 = luong("evaluate", whole, "--file", tmp_path / "train.tsv", "--int8", "--json").out
    assert 0 <= json.loads(in_int8)["exact_match"] <= 1
    ended = luong("evaluate", whole, "--file", source)
    assert ended.code == 1
    assert "in, line 1 has 2 columns" in ended.error
    assert "features_column is 3" in ended.error
