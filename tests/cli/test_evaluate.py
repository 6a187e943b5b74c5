import json

import pytest

from luong.evaluation import corpus_scores


@pytest.fixture
def evaluate(luong, toy, trained):
    def evaluate(*options):
        files = ["--source", toy / "test.de", "--reference", toy / "test.en"]
        ended = luong("evaluate", trained, *files, *options)
        assert ended.code == 0
        assert ended.error == ""
        return ended.out

    return evaluate


def test_json_holds_numbers(evaluate, toy, tmp_path):
    scores = json.loads(evaluate("--json", "--output", tmp_path / "out.en"))
    assert scores.keys() == {
        "bleu",
        "chrf",
        "ter",
        "exact_match",
        "sentences_per_second",
        "signatures",
    }
    for key, value in scores.items():
        assert isinstance(value, float) or key == "signatures"
    assert scores["signatures"].keys() == {"bleu", "chrf", "ter"}
    assert scores["sentences_per_second"] > 0
    texts = (tmp_path / "out.en").read_text(encoding="utf-8").splitlines()
    references = (toy / "test.en").read_text(encoding="utf-8").splitlines()
    expected = corpus_scores(texts, references, target_language="en")
    assert scores["bleu"] == expected.bleu > 20
    assert scores["ter"] == expected.ter
    assert scores["exact_match"] == expected.exact_match
    assert scores["signatures"] == expected.signatures


def test_plain(evaluate):
    lines = evaluate("--beam-size", 1, "--batch-size", 3).splitlines()
    names = [line.split("  ")[0] for line in lines]
    assert names == ["BLEU", "chrF", "TER", "exact match", "speed"] + ["signature"] * 3
    assert 0 < float(lines[0].split()[1]) <= 100
    assert lines[3].endswith("%")


def test_the_translations_are_those_of_translate(evaluate, luong, toy, trained, tmp_path):
    evaluate("--output", tmp_path / "out.en")
    out = luong("translate", trained, stdin=(toy / "test.de").read_bytes()).out
    assert (tmp_path / "out.en").read_text(encoding="utf-8") == out


def test_blank_lines_keep_their_place(luong, trained, translator, tmp_path):
    texts = [result.text + "\n" for result in translator.translate(["eins zwei", "", "drei"])]
    (tmp_path / "a.de").write_text("eins zwei\n\ndrei\n")
    (tmp_path / "a.en").write_text("".join(texts))
    files = ["--source", tmp_path / "a.de", "--reference", tmp_path / "a.en"]
    ended = luong("evaluate", trained, *files, "--json", "--output", tmp_path / "out")
    assert json.loads(ended.out)["exact_match"] == 1.0
    assert (tmp_path / "out").read_text() == "".join(texts)


def test_an_output_that_cannot_be_written_does_not_cost_the_scores(luong, toy, trained, tmp_path):
    files = ["--source", toy / "test.de", "--reference", toy / "test.en", "--json"]
    ended = luong("evaluate", trained, *files, "--output", tmp_path / "missing" / "out")
    assert ended.code == 1
    assert "out cannot be written: No such file or directory." in ended.error
    assert json.loads(ended.out)["bleu"] >= 0


def test_an_ensemble_is_scored(luong, toy, trained, evaluate):
    files = ["--source", toy / "test.de", "--reference", toy / "test.en"]
    ended = luong("evaluate", trained, trained, *files, "--json")
    assert json.loads(ended.out)["bleu"] == json.loads(evaluate("--json"))["bleu"]
