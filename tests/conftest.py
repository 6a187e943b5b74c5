"""What every test starts from: one seed, one thread, no settings of the shell; and a toy run."""

import json
import random
import shutil
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import settings
from PIL import Image
from rich.console import Console

import luong
from luong.config import CaptionConfig, ClassifierConfig, RunConfig, load_config
from luong.search import Translator
from luong.training import train

# These tensors are so small that a second thread only waits for the first.
torch.set_num_threads(1)

# A busy machine may take any time for one example.
settings.register_profile("patient", deadline=None, max_examples=60)
settings.load_profile("patient")

# Twelve "words", and the toy task: say each in the other language.
DICTIONARY = {
    "eins": "one",
    "zwei": "two",
    "drei": "three",
    "vier": "four",
    "fünf": "five",
    "sechs": "six",
    "sieben": "seven",
    "acht": "eight",
    "neun": "nine",
    "zehn": "ten",
    "elf": "eleven",
    "zwölf": "twelve",
}

TOY_RUN = """
output = "unset"
seed = 3
[data]
train = { source = "FOLDER/train.de", target = "FOLDER/train.en" }
valid = { source = "FOLDER/dev.de", target = "FOLDER/dev.en" }
source_language = "de"
target_language = "en"
[tokens]
kind = "word"
shared = false
[model]
embedding_size = 8
hidden_size = 16
dropout = 0.2
[training]
max_epochs = 3
batch_tokens = 100
learning_rate = 0.01
precision = "float32"
device = "cpu"
log_every = 1
"""

# With these 140 updates suffice to translate most lines right.
LEARNABLE = [
    "training.batch_tokens=150",
    "training.max_epochs=35",
    "training.learning_rate=0.03",
    "training.label_smoothing=0",
    "training.average_decay=0",
    "training.validate_every=35",
    "training.log_every=10",
    "model.embedding_size=16",
    "model.hidden_size=32",
    "model.dropout=0",
    "model.tie_embeddings=none",
    "model.attention.window=local-m",
    "model.attention.half_width=1",
    "model.attention.input_feeding=false",
]


# A review is as good as the one of these words in it; the others mean nothing.
GOOD, BAD = ("good", "great", "fine"), ("bad", "dull", "awful")
OTHERS = ("film", "the", "plot", "actors", "it", "was")

REVIEWS_RUN = """
task = "classify"
output = "unset"
seed = 3
[data]
train = { file = "FOLDER/train.jsonl" }
valid = { file = "FOLDER/dev.jsonl" }
[tokens]
minimum_count = 1
[model]
embedding_size = 8
hidden_size = 8
dropout = 0.1
[training]
max_epochs = 6
batch_tokens = 300
learning_rate = 0.03
average_decay = 0.9
precision = "float32"
device = "cpu"
log_every = 1
"""


@pytest.fixture(scope="session")
def _cache(tmp_path_factory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(autouse=True)
def _same_start(monkeypatch, _cache):
    torch.manual_seed(1)
    # What is measured in a test must not decide how its user's runs multiply; a process that a test
    # starts must multiply as the test does.
    monkeypatch.setenv("XDG_CACHE_HOME", str(_cache))
    monkeypatch.delenv("LUONG_BACKEND", raising=False)


def _write_pairs(folder: Path, name: str, count: int, seed: int) -> None:
    dice = random.Random(seed)
    sources = [dice.choices(list(DICTIONARY), k=dice.randint(1, 5)) for _ in range(count)]
    targets = [[DICTIONARY[word] for word in words] for words in sources]
    for ending, lines in (("de", sources), ("en", targets)):
        text = "".join(" ".join(words) + "\n" for words in lines)
        (folder / f"{name}.{ending}").write_text(text, encoding="utf-8")


@pytest.fixture(scope="session")
def toy(tmp_path_factory) -> Path:
    """A folder with run.toml, train (100 pairs, 5 updates an epoch), dev and test (20 pairs)."""
    folder = tmp_path_factory.mktemp("toy")
    _write_pairs(folder, "train", 100, seed=1)
    _write_pairs(folder, "dev", 20, seed=2)
    _write_pairs(folder, "test", 20, seed=3)
    (folder / "run.toml").write_text(TOY_RUN.replace("FOLDER", str(folder)), encoding="utf-8")
    return folder


@pytest.fixture
def toy_config(toy, tmp_path):
    """Makes the settings of a toy run, with overrides as `section.key=value`."""

    def make(*overrides: str, output: Path = tmp_path / "run") -> RunConfig:
        return load_config(toy / "run.toml", [f"output={output}", *overrides])

    return make


@pytest.fixture(scope="session")
def trained(toy, tmp_path_factory) -> Path:
    """The model folder of a finished toy run, to be read only."""
    output = tmp_path_factory.mktemp("trained") / "model"
    overrides = [f"output={output}", *LEARNABLE]
    train(load_config(toy / "run.toml", overrides), console=Console(file=StringIO()))
    return output


@pytest.fixture(scope="session")
def translator(trained) -> Translator:
    """Translates with the trained folder."""
    return luong.load(trained)


@pytest.fixture
def trained_copy(trained, tmp_path) -> Path:
    """A copy of the trained folder, to be damaged."""
    return Path(shutil.copytree(trained, tmp_path / "copy"))


def _write_reviews(path: Path, count: int, seed: int) -> None:
    dice = random.Random(seed)
    lines = []
    for _ in range(count):
        label, words = dice.choice([("good", GOOD), ("bad", BAD)])
        sentences = [dice.choices(OTHERS, k=dice.randint(1, 5)) for _ in range(dice.randint(1, 4))]
        dice.choice(sentences).append(dice.choice(words))
        text = " ".join(" ".join(words).capitalize() + "." for words in sentences)
        lines.append(json.dumps({"text": text, "label": label}) + "\n")
    path.write_text("".join(lines), encoding="utf-8")


@pytest.fixture(scope="session")
def reviews(tmp_path_factory) -> Path:
    """A folder with run.toml, train.jsonl (80 documents), dev.jsonl and test.jsonl (20 each)."""
    folder = tmp_path_factory.mktemp("reviews")
    for name, count, seed in (("train", 80, 1), ("dev", 20, 2), ("test", 20, 3)):
        _write_reviews(folder / f"{name}.jsonl", count, seed)
    settings = REVIEWS_RUN.replace("FOLDER", str(folder))
    (folder / "run.toml").write_text(settings, encoding="utf-8")
    return folder


@pytest.fixture
def reviews_config(reviews, tmp_path):
    """Makes the settings of a run on the reviews, with overrides as `section.key=value`."""

    def make(*overrides: str) -> ClassifierConfig:
        return load_config(reviews / "run.toml", [f"output={tmp_path / 'run'}", *overrides])

    return make


@pytest.fixture(scope="session")
def trained_classifier(reviews, tmp_path_factory) -> Path:
    """The model folder of a finished run on the reviews, to be read only."""
    output = tmp_path_factory.mktemp("classifier") / "model"
    config = load_config(reviews / "run.toml", [f"output={output}", "training.max_epochs=12"])
    train(config, console=Console(file=StringIO()))
    return output


COLOURS = {"red": (220, 30, 30), "green": (20, 160, 40), "blue": (30, 60, 220), "grey": (110,) * 3}

SHAPES_RUN = """
task = "caption"
output = "unset"
seed = 3
[data]
train = { file = "FOLDER/train.tsv" }
valid = { file = "FOLDER/dev.tsv" }
picture_size = 16
max_length = 6
[model]
channels = [8, 16]
embedding_size = 8
hidden_size = 24
dropout = 0.0
picture_dropout = 0.0
[training]
max_epochs = 44
validate_every = 44
batch_tokens = 64
learning_rate = 0.01
average_decay = 0.9
label_smoothing = 0.0
shift = 1
precision = "float32"
device = "cpu"
log_every = 5
"""


def _write_shapes(folder: Path, name: str, count: int, seed: int) -> None:
    """Pictures of 16 pixels with a filled square or an open one somewhere."""
    dice = random.Random(seed)
    rows = []
    for number in range(count):
        colour, shape = list(COLOURS)[number % 4], ("square", "ring")[number // 4 % 2]
        image = np.full((16, 16, 3), 255, np.uint8)
        top, left = dice.randint(0, 8), dice.randint(0, 8)
        image[top : top + 8, left : left + 8] = COLOURS[colour]
        if shape == "ring":
            image[top + 2 : top + 6, left + 2 : left + 6] = 255
        Image.fromarray(image).save(folder / f"{name}-{number}.png")
        rows.append(f"{name}-{number}.png\t{colour} {shape}\n")
    (folder / f"{name}.tsv").write_text("".join(rows), encoding="utf-8")


@pytest.fixture(scope="session")
def shapes(tmp_path_factory) -> Path:
    """A folder with run.toml, train.tsv (64 pictures, 4 updates an epoch) and dev.tsv (16)."""
    folder = tmp_path_factory.mktemp("shapes")
    _write_shapes(folder, "train", 64, seed=1)
    _write_shapes(folder, "dev", 16, seed=2)
    settings = SHAPES_RUN.replace("FOLDER", str(folder))
    (folder / "run.toml").write_text(settings, encoding="utf-8")
    return folder


@pytest.fixture
def shapes_config(shapes, tmp_path):
    """Makes the settings of a run on the shapes, with overrides as `section.key=value`."""

    def make(*overrides: str) -> CaptionConfig:
        return load_config(shapes / "run.toml", [f"output={tmp_path / 'run'}", *overrides])

    return make


@pytest.fixture(scope="session")
def trained_captioner(shapes, tmp_path_factory) -> Path:
    """The model folder of a finished run on the shapes, to be read only."""
    output = tmp_path_factory.mktemp("captioner") / "model"
    train(load_config(shapes / "run.toml", [f"output={output}"]), console=Console(file=StringIO()))
    return output
