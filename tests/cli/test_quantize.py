"""`luong quantize`, and int8 folders in the verbs that read models."""

import json


def files(toy):
    return "--source", toy / "test.de", "--reference", toy / "test.en", "--json"


def test_a_quantised_folder_works_everywhere(luong, toy, trained, tmp_path):
    output = tmp_path / "new" / "int8"
    ended = luong("quantize", trained, output)
    assert ended.code == 0
    assert "weights: " in ended.out
    assert f"luong translate {output}" in ended.out
    lines = (toy / "test.de").read_bytes()
    saved = luong("translate", output, stdin=lines).out
    assert saved.splitlines()
    assert saved == luong("translate", trained, "--int8", stdin=lines).out
    plain = json.loads(luong("evaluate", trained, *files(toy)).out)
    small = json.loads(luong("evaluate", output, *files(toy)).out)
    assert abs(small["bleu"] - plain["bleu"]) < 5
    assert (
        json.loads(luong("evaluate", trained, "--int8", *files(toy)).out)["bleu"] == (small["bleu"])
    )


def test_what_quantize_refuses(refused, trained, tmp_path, luong):
    assert "is not a model folder" in refused("quantize", tmp_path / "gone", tmp_path / "int8")
    before = (trained / "model.safetensors").read_bytes()
    assert "holds a model already. Name another folder" in refused("quantize", trained, trained)
    assert (trained / "model.safetensors").read_bytes() == before
    luong("quantize", trained, tmp_path / "int8")
    message = refused("quantize", tmp_path / "int8", tmp_path / "again")
    assert "int8 holds int8 weights, which can only be used for inference" in message
    (tmp_path / "file").write_text("x")
    assert "cannot be made" in refused("quantize", trained, tmp_path / "file" / "int8")


def test_an_int8_folder_is_not_trained(refused, luong, toy, trained, tmp_path):
    luong("quantize", trained, tmp_path / "int8")
    for resume in ([], ["--resume"]):
        arguments = [toy / "run.toml", f"--set=output={tmp_path / 'int8'}", *resume]
        assert "holds int8 weights, which can only" in refused("train", *arguments)
    assert not (tmp_path / "int8" / "state").exists()
