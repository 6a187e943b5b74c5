"""What people do wrong ends in one clear sentence and exit code 1."""

import json

import pytest


@pytest.fixture
def train(refused, toy, tmp_path):
    """`luong train` on the toy run with settings changed; gives its complaint."""

    def train(*settings):
        options = [f"--set={item}" for item in (f"output={tmp_path / 'run'}", *settings)]
        message = refused("train", toy / "run.toml", *options)
        assert not (tmp_path / "run" / "config.json").exists()
        return message

    return train


@pytest.mark.parametrize("part", ["train", "valid"])
def test_files_of_unequal_length(train, tmp_path, part):
    (tmp_path / "nine.de").write_text("eins\n" * 9)
    (tmp_path / "ten.en").write_text("one\n" * 10)
    message = train(
        f"data.{part}.source={tmp_path / 'nine.de'}", f"data.{part}.target={tmp_path / 'ten.en'}"
    )
    assert "nine.de has 9 lines" in message
    assert "ten.en has 10" in message


def test_unequal_files_for_evaluate(refused, toy, trained, tmp_path):
    (tmp_path / "nine.en").write_text("one\n" * 9)
    arguments = ["--source", toy / "dev.de", "--reference", tmp_path / "nine.en"]
    message = refused("evaluate", trained, *arguments)
    assert "dev.de has 20 lines" in message
    assert "nine.en has 9" in message


def test_a_directory_as_a_file(train, refused, toy, trained, tmp_path):
    assert "is a folder. Name a text file in it." in train(f"data.train.source={tmp_path}")
    assert "cannot be read: Is a directory. Name a TOML file." in refused("train", tmp_path)
    arguments = ["--source", tmp_path, "--reference", toy / "dev.en"]
    assert "is a folder. Name a text file in it." in refused("evaluate", trained, *arguments)
    message = refused("translate", trained, "--alignments", tmp_path, stdin=b"eins\n")
    assert "is a folder. Name a file to write." in message


def test_a_file_as_a_directory(refused, toy, tmp_path, trained):
    assert "is not a model folder" in refused("translate", toy / "dev.de", stdin=b"eins\n")
    message = refused("train", toy / "run.toml", f"--set=output={toy / 'dev.de'}")
    assert "is a file; name a folder to train into" in message
    message = refused(
        "translate", trained, "--alignments", toy / "dev.de" / "links", stdin=b"eins\n"
    )
    assert "links cannot be written: Not a directory." in message


def test_a_misspelt_key(train):
    message = train("model.hiden_size=8", "training.max_epoch=1")
    assert "model.hiden_size is not a known key. Did you mean 'hidden_size'?" in message
    assert "training.max_epoch is not a known key. Did you mean 'max_epochs'?" in message


def test_latin_1_bytes(train, refused, toy, trained, tmp_path):
    path = tmp_path / "latin.de"
    path.write_bytes("eins\nfünf\n".encode("latin-1") + b"acht\n" * 98)
    message = train(f"data.train.source={path}")
    assert f"{path}, line 2: byte 0xfc is not UTF-8. Convert" in message
    assert "iconv -f latin1 -t utf-8" in message
    (tmp_path / "two.en").write_text("one\n" * 100)
    arguments = ["--source", path, "--reference", tmp_path / "two.en"]
    assert "line 2: byte 0xfc" in refused("evaluate", trained, *arguments)
    message = refused("translate", trained, stdin=path.read_bytes())
    assert message.startswith("line 2 of the input is not UTF-8.")


def test_an_empty_training_file(train, tmp_path):
    for name in ("empty.de", "empty.en"):
        (tmp_path / name).write_text("")
    files = [
        f"data.train.source={tmp_path / 'empty.de'}",
        f"data.train.target={tmp_path / 'empty.en'}",
    ]
    assert "empty.de is empty. Expected one sentence on each line." in train(*files)
    for name in ("empty.de", "empty.en"):
        (tmp_path / name).write_text("\n \n")
    assert "has only blank lines: there is no text to learn tokens from." in train(*files)


def test_weights_that_were_cut_short(refused, trained_copy, toy):
    weights = trained_copy / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-100])
    assert "is cut short or damaged" in refused("translate", trained_copy, stdin=b"eins\n")
    arguments = ["--source", toy / "dev.de", "--reference", toy / "dev.en"]
    assert "is cut short or damaged" in refused("evaluate", trained_copy, *arguments)


def test_a_folder_of_a_newer_version(refused, trained_copy):
    settings = json.loads((trained_copy / "config.json").read_bytes())
    (trained_copy / "config.json").write_text(json.dumps(settings | {"format": 99}))
    assert "was written by a newer luong" in refused("translate", trained_copy, stdin=b"eins\n")


def test_missing_files(train, refused, toy, trained, tmp_path):
    assert "gone.de does not exist" in train(f"data.train.source={tmp_path / 'gone.de'}")
    assert "run.toml does not exist. `luong init > " in refused("train", tmp_path / "run.toml")
    assert "is not a model folder" in refused("translate", tmp_path / "gone", stdin=b"eins\n")
    arguments = ["--source", tmp_path / "gone.de", "--reference", toy / "dev.en"]
    assert "gone.de does not exist" in refused("evaluate", trained, *arguments)


def test_more_results_than_the_beam_holds(refused, trained):
    message = refused("translate", trained, "--n-best", 6, stdin=b"eins\n")
    assert message == "--n-best 6 needs a beam as wide: add --beam-size 6 or more."


@pytest.mark.parametrize("verb", ["translate", "evaluate", "train"])
def test_a_device_that_is_not_there(refused, toy, trained, tmp_path, verb):
    files = [f"--source={toy / 'dev.de'}", f"--reference={toy / 'dev.en'}"]
    arguments = {
        "translate": [trained, "--device", "gpu"],
        "evaluate": [trained, "--device=gpu", *files],
        "train": [toy / "run.toml", "--set=training.device=gpu", f"--set=output={tmp_path}"],
    }[verb]
    assert "'gpu' cannot be used: Expected one of cpu, cuda" in refused(verb, *arguments)
