"""A model folder: all in one place, whole, and refused where it is not."""

import dataclasses
import json
import shutil
from io import StringIO

import pytest
import torch
from rich.console import Console
from safetensors.torch import load_file, save_file

import luong
from luong.errors import UserError
from luong.folder import load_folder, save_folder
from luong.training import train

LINES = ["eins zwei drei", "zwölf", "elf zehn neun acht", "unbekannt eins", ""]


def change(folder, **settings):
    """Change keys of config.json; None removes one."""
    path = folder / "config.json"
    table = json.loads(path.read_bytes())
    for key, value in settings.items():
        table[key] = value
        if value is None:
            del table[key]
    path.write_text(json.dumps(table))


def refusal(folder):
    with pytest.raises(UserError) as caught:
        load_folder(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


def test_what_training_wrote(trained):
    names = {str(path.relative_to(trained)) for path in trained.rglob("*") if path.is_file()}
    assert names == {
        "README.md",
        "config.json",
        "metrics.jsonl",
        "model.safetensors",
        "source.json",
        "state/last.safetensors",
        "target.json",
    }


def test_a_moved_folder_translates_as_before(trained, tmp_path, monkeypatch):
    before = luong.load(trained).translate(LINES)
    assert before[0].text
    copy = shutil.copytree(trained, tmp_path / "a" / "model")
    shutil.rmtree(copy / "state")  # only resuming needs it
    moved = shutil.move(copy, tmp_path / "b")
    monkeypatch.chdir(tmp_path / "a")
    after = luong.load(moved).translate(LINES)
    assert [result.text for result in after] == [result.text for result in before]
    assert [result.score for result in after] == [result.score for result in before]
    assert luong.load("../b").translate(LINES[0]).text == before[0].text


def test_saved_and_loaded_it_is_the_same(trained, tmp_path):
    folder = load_folder(trained)
    assert not folder.model.training
    save_folder(folder, tmp_path / "new" / "model")
    again = load_folder(tmp_path / "new" / "model")
    assert (again.config, again.scores, again.alignment_row) == (
        folder.config,
        folder.scores,
        folder.alignment_row,
    )
    for name in ("model.safetensors", "config.json", "README.md", "source.json", "target.json"):
        assert (tmp_path / "new" / "model" / name).read_bytes() == (trained / name).read_bytes()
    tensors = load_file(trained / "model.safetensors")
    for name, parameter in again.model.named_parameters():
        assert torch.equal(parameter, tensors[name])


@pytest.mark.parametrize(("tie", "embeddings"), [("none", 3), ("target", 2), ("all", 1)])
def test_tied_weights_are_stored_once(toy_config, tie, embeddings):
    config = toy_config(
        f"model.tie_embeddings={tie}", "tokens.shared=true", "training.max_epochs=1"
    )
    train(config, console=Console(file=StringIO()))
    tensors = load_file(config.output / "model.safetensors")
    folder = load_folder(config.output)
    size = folder.target_tokenizer.size
    assert sum(size in tensor.shape and tensor.ndim == 2 for tensor in tensors.values()) == (
        embeddings
    )
    assert folder.source_tokenizer is folder.target_tokenizer
    # Tied they are still after loading.
    model = folder.model
    assert (model.output.logits.weight is model.target_embedding.weight) == (tie != "none")
    assert (model.source_embedding.weight is model.target_embedding.weight) == (tie == "all")


def test_the_card(trained):
    card = (trained / "README.md").read_text(encoding="utf-8")
    scores = load_folder(trained).scores
    assert card.startswith("# de to en\n")
    assert f"| bleu | {scores['bleu']:.4g} |" in card
    assert f"| loss | {scores['loss']:.4g} |" in card
    assert scores["signatures"].keys() == {"bleu", "chrf"}
    for signature in scores["signatures"].values():
        assert f"- `{signature}`\n" in card
    assert "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp" in card
    assert "`general` score, `local-m` window, `luong` placement, input feeding off" in card
    assert "luong translate" in card


def test_scores_are_those_of_the_best_validation(trained):
    scores = load_folder(trained).scores
    rows = [json.loads(line) for line in (trained / "metrics.jsonl").read_text().splitlines()]
    validations = [row for row in rows if row["kind"] == "validation"]
    best = max(validations, key=lambda row: (row["bleu"], -row["loss"]))
    assert {key: scores[key] for key in ("bleu", "chrf", "loss", "step")} == {
        key: best[key] for key in ("bleu", "chrf", "loss", "step")
    }


def test_weights_that_were_cut_short(trained_copy):
    weights = trained_copy / "model.safetensors"
    data = weights.read_bytes()
    for length in (0, 7, 200, len(data) // 2, len(data) - 1):
        weights.write_bytes(data[:length])
        message = refusal(trained_copy)
        assert "model.safetensors is cut short or damaged" in message
        assert message.endswith("Copy it again, or train again.")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("config.json", "is not a model folder: it has no config.json. Name the folder that"),
        ("model.safetensors", "model.safetensors is missing: training has not reached its first"),
        ("source.json", "has no tokenizer source.json or source.model"),
        ("target.json", "has no tokenizer target.json or target.model"),
    ],
)
def test_a_missing_file_is_named(trained_copy, name, expected):
    (trained_copy / name).unlink()
    assert expected in refusal(trained_copy)


@pytest.mark.parametrize("name", ["config.json", "model.safetensors", "source.json"])
def test_a_folder_in_place_of_a_file(trained_copy, name):
    (trained_copy / name).unlink()
    (trained_copy / name).mkdir()
    assert f"{name} cannot be read: Is a directory" in refusal(trained_copy)


def test_no_folder_at_all(tmp_path, trained_copy):
    assert "is not a model folder" in refusal(tmp_path / "missing")
    assert "is not a model folder" in refusal(trained_copy / "README.md")
    assert "is not a model folder" in refusal(tmp_path)


def test_a_newer_format_says_to_upgrade(trained_copy):
    change(trained_copy, format=3, luong_version="9.8.7")
    message = refusal(trained_copy)
    assert "was written by a newer luong (9.8.7, format 3)" in message
    assert "pip install --upgrade luong" in message


@pytest.mark.parametrize("text", ["", "{", "[]", '"x"', "{}", '{"format": "1"}', "null", "\x00"])
def test_settings_that_are_none(trained_copy, text):
    (trained_copy / "config.json").write_text(text)
    assert "config.json is " in refusal(trained_copy)


def test_settings_that_lack_a_part(trained_copy):
    change(trained_copy, run=None, scores=None)
    assert "config.json lacks run, scores." in refusal(trained_copy)


def test_settings_that_are_wrong(trained_copy):
    run = json.loads((trained_copy / "config.json").read_bytes())["run"]
    change(trained_copy, run=run | {"model": run["model"] | {"cell": "rnn"}})
    assert "config.json: model.cell = 'rnn': input should be 'lstm' or 'gru'" in refusal(
        trained_copy
    )


def test_weights_of_another_size(trained_copy):
    run = json.loads((trained_copy / "config.json").read_bytes())["run"]
    change(trained_copy, run=run | {"model": run["model"] | {"hidden_size": 16}})
    assert "model.safetensors does not fit its config.json" in refusal(trained_copy)
    change(trained_copy, run=run | {"model": run["model"] | {"decoder_layers": 2}})
    assert "model.safetensors does not fit its config.json" in refusal(trained_copy)


def test_tokenizers_of_another_size(trained_copy):
    target = json.loads((trained_copy / "target.json").read_bytes())
    target["tokens"].append("thirteen")
    (trained_copy / "target.json").write_text(json.dumps(target))
    message = refusal(trained_copy)
    assert "have (16, 17) tokens, but config.json names (16, 16)" in message


def test_a_device_that_is_not_there(trained):
    with pytest.raises(UserError, match=r"Device 'gpu' cannot be used: .* Use 'cpu' or 'cuda'"):
        luong.load(trained, device="gpu")


def test_a_folder_that_cannot_be_written(trained, tmp_path):
    folder = load_folder(trained)
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match=r"file.model cannot be made: Not a directory"):
        save_folder(folder, tmp_path / "file" / "model")


def test_a_card_without_languages_and_scores(trained, tmp_path):
    folder = load_folder(trained)
    data = folder.config.data.model_copy(update={"source_language": None, "target_language": None})
    config = folder.config.model_copy(update={"data": data})
    save_folder(dataclasses.replace(folder, config=config, scores={}), tmp_path)
    card = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert card.startswith("# source to target\n")
    assert load_folder(tmp_path).scores == {}


def test_an_int8_folder_is_that_of_int8_on_loading(trained, tmp_path):
    folder = load_folder(trained, int8=True)
    save_folder(folder, tmp_path / "int8")
    tensors = load_file(tmp_path / "int8" / "model.safetensors")
    assert tensors["target_embedding.weight.values"].dtype == torch.int8
    assert tensors["decoder.cells.0.late_weight.values"].dtype == torch.int8
    assert "decoder.cells.0.late_weight" not in tensors
    settings = json.loads((tmp_path / "int8" / "config.json").read_bytes())
    assert (settings["format"], settings["weights"]) == (2, "int8")
    card = (tmp_path / "int8" / "README.md").read_text(encoding="utf-8")
    sizes = sum(parameter.numel() for parameter in load_folder(trained).model.parameters())
    assert f"{sizes:,} parameters, most of them in int8" in card
    expected = luong.load(trained, int8=True).translate(LINES)
    for found in (luong.load(tmp_path / "int8"), luong.load(tmp_path / "int8", int8=True)):
        again = found.translate(LINES)
        assert [result.text for result in again] == [result.text for result in expected]
        assert [result.score for result in again] == [result.score for result in expected]


def test_int8_weights_in_a_folder_that_promises_float32(trained, trained_copy, tmp_path):
    save_folder(load_folder(trained, int8=True), tmp_path / "int8")
    shutil.copy(tmp_path / "int8" / "model.safetensors", trained_copy / "model.safetensors")
    assert "model.safetensors does not fit its config.json" in refusal(trained_copy)
    shutil.copy(trained / "model.safetensors", tmp_path / "int8" / "model.safetensors")
    assert "model.safetensors does not fit its config.json" in refusal(tmp_path / "int8")


@pytest.mark.parametrize(
    ("frequent", "translations"),
    [([99], [[4]] * 16), ([4], [[4]] * 15), ([4], [[-1]] * 16), ([4.0], [[4]] * 16)],
)
def test_a_shortlist_that_does_not_fit(trained_copy, frequent, translations):
    kind = torch.float32 if isinstance(frequent[0], float) else torch.int32
    tensors = {
        "frequent": torch.tensor(frequent, dtype=kind),
        "translations": torch.tensor(translations, dtype=torch.int32),
    }
    save_file(tensors, trained_copy / "shortlist.safetensors")
    assert "shortlist.safetensors does not fit its config.json. Make it" in refusal(trained_copy)
