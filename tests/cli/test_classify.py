import json
import re

import pytest

TEXT = b"It was good.\n\n \t\r\nThe plot was dull. It was.\nunseen\nlast"


def test_a_line_out_for_each_line_in(luong, trained_classifier):
    ended = luong("classify", trained_classifier, stdin=TEXT)
    assert (ended.code, ended.error) == (0, "")
    lines = ended.out.splitlines()
    assert len(lines) == 6
    assert all(re.fullmatch(r"(good|bad)\t[01]\.\d{4}", line) for line in lines)
    assert lines[0].startswith("good")
    assert lines[3].startswith("bad")
    assert luong("classify", trained_classifier).out == ""


def test_explanations(luong, trained_classifier, tmp_path):
    plain = luong("classify", trained_classifier, stdin=TEXT).out
    for name in ("why.html", "why.json"):
        ended = luong("classify", trained_classifier, "--explain", tmp_path / name, stdin=TEXT)
        assert ended.out == plain
    rows = json.loads((tmp_path / "why.json").read_text(encoding="utf-8"))
    assert [row["text"] for row in rows][:4] == [
        "It was good.",
        "",
        " \t",
        "The plot was dull. It was.",
    ]
    assert [word["text"] for word in rows[0]["sentences"][0]["words"]] == ["It", "was", "good", "."]
    assert (tmp_path / "why.html").read_text(encoding="utf-8").count("<article") == 6
    luong("classify", trained_classifier, "--explain", tmp_path / "none.json")
    assert json.loads((tmp_path / "none.json").read_text()) == []


def test_evaluate(luong, trained_classifier, reviews, tmp_path):
    arguments = ["evaluate", trained_classifier, "--file", reviews / "test.jsonl"]
    scores = json.loads(luong(*arguments, "--json").out)
    assert scores["labels"] == ["bad", "good"]
    assert 0.9 <= scores["accuracy"] <= 1
    assert sum(map(sum, scores["confusion"])) == 20
    right = scores["confusion"][0][0] + scores["confusion"][1][1]
    assert scores["accuracy"] == right / 20
    assert isinstance(scores["macro_f1"], float)
    ended = luong(*arguments, "--output", tmp_path / "labels")
    assert f"accuracy  {scores['accuracy']:.2%} of 20 documents" in ended.out
    assert len((tmp_path / "labels").read_text().splitlines()) == 20


def test_training_names_the_verb(luong, reviews, tmp_path):
    options = [f"--set=output={tmp_path / 'run'}", "--set=training.max_epochs=1"]
    ended = luong("train", reviews / "run.toml", *options)
    lines = ended.out.splitlines()
    assert re.search(r"1 epochs done; best validation accuracy \d+\.\d% at update \d+", lines[-3])
    assert lines[-1] == f"classify:   luong classify {tmp_path / 'run'} < in > out"


def test_evaluate_wants_files_of_one_kind(luong, trained_classifier, reviews):
    file = ["--file", reviews / "test.jsonl"]
    for options in ([], [*file, "--source", "a"], ["--source", "a"]):
        ended = luong("evaluate", trained_classifier, *options)
        assert ended.code == 2
        assert "Usage:" in ended.error


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["classify", "TRANSLATOR"], "is a translator, not a classifier"),
        (["translate", "CLASSIFIER"], "is a classifier, not a translator"),
        (["quantize", "CLASSIFIER", "out"], "is a classifier"),
        (["shortlist", "CLASSIFIER"], "is a classifier"),
        (["classify", "CLASSIFIER", "--explain", "why.pdf"], "ends in .html or .json"),
        (["evaluate", "CLASSIFIER", "--file", "gone.jsonl"], "gone.jsonl does not exist"),
        (["evaluate", "CLASSIFIER", "--source", "a", "--reference", "b"], "does not exist"),
    ],
)
def test_mistakes(refused, trained, trained_classifier, arguments, message):
    names = {"TRANSLATOR": trained, "CLASSIFIER": trained_classifier}
    assert message in refused(*(names.get(one, one) for one in arguments), stdin=b"a\n")


def test_settings_of_another_task(refused, reviews, tmp_path):
    message = refused("train", reviews / "run.toml", "--set=model.encoder_layers=2")
    assert "model.encoder_layers is not a known key. Did you mean 'encoder'?" in message
    message = refused("train", reviews / "run.toml", "--set=task=clasify")
    assert "task = 'clasify' is not known. Did you mean 'classify'?" in message
    message = refused("train", reviews / "run.toml", "--set=training.best_by=bleu")
    assert "training.best_by" in message
    message = refused("train", reviews / "run.toml", "--set=model.hidden_size=7")
    assert "must be even, not 7" in message
