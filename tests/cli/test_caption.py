import json

import pytest


@pytest.fixture
def bad(tmp_path):
    (tmp_path / "text.png").write_text("text")
    return tmp_path / "text.png"


def test_a_line_for_each_picture(luong, trained_captioner, shapes):
    files = [shapes / f"dev-{number}.png" for number in (0, 5, 2)]
    ended = luong("caption", trained_captioner, *files)
    assert (ended.code, ended.error) == (0, "")
    captions = ["red square", "green ring", "blue square"]
    expected = [f"{file}\t{text}" for file, text in zip(files, captions, strict=True)]
    assert ended.out.splitlines() == expected


def test_a_bad_file_is_named_and_the_others_are_done(luong, trained_captioner, shapes, bad):
    files = [shapes / "dev-0.png", bad, "gone.png", shapes / "dev-1.png"]
    ended = luong("caption", trained_captioner, *files, "--beam-size", 1)
    assert ended.code == 1
    assert ended.out.splitlines() == [f"{files[0]}\tred square", f"{files[3]}\tgreen square"]
    first, second = ended.error.splitlines()
    assert first.startswith(f"luong: {bad} is not a picture")
    assert second == "luong: gone.png does not exist."
    only = luong("caption", trained_captioner, bad)
    assert (only.code, only.out) == (1, "")


def test_objects_with_attention(luong, trained_captioner, shapes):
    ended = luong("caption", trained_captioner, shapes / "dev-0.png", "--json")
    row = json.loads(ended.out)
    assert (row["text"], row["words"]) == ("red square", ["red", "square"])
    assert sum(map(sum, row["attention"][0])) == pytest.approx(1, abs=1e-3)
    assert len(row["attention"][0]) == 4


def test_attention_is_drawn(luong, trained_captioner, shapes, tmp_path):
    files = [shapes / "dev-0.png", shapes / "dev-1.png"]
    ended = luong("caption", trained_captioner, *files, "--picture-attention", tmp_path / "drawn")
    assert ended.code == 0
    names = sorted(path.name for path in (tmp_path / "drawn").iterdir())
    assert names == ["0001-dev-0.png", "0002-dev-1.png"]


def test_evaluate(luong, trained_captioner, shapes, tmp_path):
    manifest = shapes / "several.tsv"
    manifest.write_text("dev-0.png\ta red one\ndev-0.png\tred square\ndev-1.png\tno\n")
    arguments = ["evaluate", trained_captioner, "--file", manifest]
    scores = json.loads(luong(*arguments, "--json").out)
    assert (scores["exact_match"], scores["pictures"]) == (0.5, 2)
    assert 0 <= scores["bleu"] <= 100
    assert 0 < scores["chrf"] < 100
    ended = luong(*arguments, "--output", tmp_path / "captions")
    assert "exact match  50.00% of 2 pictures" in ended.out
    assert (tmp_path / "captions").read_text() == "red square\ngreen square\n"


def test_training_names_the_verb(luong, shapes, tmp_path):
    options = [f"--set=output={tmp_path / 'run'}", "--set=training.max_epochs=1"]
    lines = luong("train", shapes / "run.toml", *options).out.splitlines()
    assert "best validation BLEU" in lines[-3]
    assert lines[-1] == f"caption:    luong caption {tmp_path / 'run'} picture.png"
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["caption", "TRANSLATOR", "x.png"], "is a translator, not a captioner"),
        (["translate", "CAPTIONER"], "is a captioner, not a translator. Use `luong caption`"),
        (["classify", "CAPTIONER"], "is a captioner, not a classifier"),
        (["evaluate", "CAPTIONER", "--file", "gone.tsv"], "gone.tsv does not exist"),
    ],
)
def test_mistakes(refused, trained, trained_captioner, arguments, message):
    names = {"TRANSLATOR": trained, "CAPTIONER": trained_captioner}
    assert message in refused(*(names.get(one, one) for one in arguments), stdin=b"a\n")
