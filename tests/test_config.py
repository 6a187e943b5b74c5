"""Settings: TOML in, overrides, and every mistake named at once."""

import pydantic
import pytest

from luong.config import RunConfig, load_config, parse_config
from luong.errors import UserError, nearest

MINIMUM = """
output = "runs/x"
[data]
train = { source = "a.de", target = "a.en" }
valid = { file = "pairs.tsv" }
"""


@pytest.fixture
def load(tmp_path):
    def load(text=MINIMUM, *overrides):
        path = tmp_path / "run.toml"
        path.write_text(text, encoding="utf-8")
        return load_config(path, list(overrides))

    return load


@pytest.fixture
def complaint(load):
    def complaint(*overrides, text=MINIMUM):
        with pytest.raises(UserError) as caught:
            load(text, *overrides)
        message = str(caught.value)
        assert "\n" not in message
        return message.partition("run.toml: ")[2] or message

    return complaint


def test_defaults(load):
    config = load()
    assert config.task == "translate"
    assert config.seed == 1
    assert str(config.output) == "runs/x"
    assert (config.model.cell, config.model.attention.score) == ("lstm", "general")
    assert config.data.train.file is None
    assert str(config.data.valid.file) == "pairs.tsv"


def test_what_is_written_as_json_is_read_again(load):
    config = load(MINIMUM, "model.attention.window=local-p", "model.input_dropout=0.5")
    assert parse_config(config.model_dump(mode="json", exclude_none=True)) == config


def test_settings_are_immutable(load):
    with pytest.raises(pydantic.ValidationError, match="frozen"):
        load().seed = 2


def test_overrides_are_toml_or_else_plain_text(load):
    config = load(
        MINIMUM,
        "seed=7",
        "training.learning_rate = 5e-4",
        "model.bidirectional=false",
        "data.source_language=no",
        'data.target_language="de"',
        "model.attention.score=additive",
        "output=runs/other=1",
        'data.train={ file = "other.tsv" }',
        "seed=8",
    )
    assert config.seed == 8
    assert config.training.learning_rate == 5e-4
    assert config.model.bidirectional is False
    assert (config.data.source_language, config.data.target_language) == ("no", "de")
    assert config.model.attention.score == "additive"
    assert str(config.output) == "runs/other=1"
    assert str(config.data.train.file) == "other.tsv"


@pytest.mark.parametrize(
    ("override", "expected"),
    [
        ("model.hiden_size=8", "model.hiden_size is not a known key. Did you mean 'hidden_size'?"),
        ("trainng.seed=8", "trainng is not a known key. Did you mean 'training'?"),
        ("model.attention.scor=dot", "model.attention.scor is not a known key. Did you mean 's"),
        ('data.train={ soruce = "a" }', "data.train.soruce is not a known key. Did you mean 'so"),
        ("model.dropout=1.5", "model.dropout = 1.5: input should be less than 1."),
        ("training.max_epochs=many", "training.max_epochs = 'many': input should be a valid int"),
        ("model.cell=lstmm", "model.cell = 'lstmm': input should be 'lstm' or 'gru'. Did you mea"),
        ("model.attention.score=genral", "Did you mean 'general'?"),
        ('data.train={ source = "a" }', "data.train: expected { source = "),
        ('data.train={ source = "a", file = "b" }', "data.train: expected { source = "),
        ("model.hidden_size=15", "must be even, not 15."),
        ("model.encoder=convolution", "Did you mean 'convolutional'?"),
        ("training.learning_rate=inf", "training.learning_rate = inf: input should be a finite"),
        ("training.max_minutes=nan", "training.max_minutes = nan: input should be "),
        ("seed=-1", "seed = -1: input should be greater than or equal to 0."),
        ("model=3", "model = 3: input should be a valid dictionary"),
    ],
)
def test_a_mistake_is_named_with_its_path(complaint, override, expected):
    assert expected in complaint(override)


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        (["encoder=mean", "reverse_source=true"], "reads all words at once, so there is nothing t"),
        (["encoder=convolutional", "reverse_source=true"], "set reverse_source = false, or enc"),
        (["encoder=mean", "positions=relative"], 'to add to: set positions = "sinusoidal".'),
        (["encoder=self-attention", "heads=7"], "hidden_size = 512 cannot be split over heads = 7"),
        (["encoder=convolutional", "kernel_width=4"], "has no middle position: choose an odd"),
        (["encoder=mean", "encoder_layers=2"], "has no layers to stack: set encoder_layers = 1"),
    ],
)
def test_an_encoder_that_does_not_fit_says_how_to_mend_it(complaint, overrides, expected):
    assert expected in complaint(*(f"model.{override}" for override in overrides))


def test_what_only_other_encoders_need_is_not_asked_of_this_one(load):
    load(MINIMUM, "model.encoder=mean", "model.hidden_size=15", "model.heads=7")
    load(MINIMUM, "model.kernel_width=4", "model.heads=7")
    load(MINIMUM, "model.encoder=self-attention", "model.positions=relative", "model.heads=4")


def test_tying_all_needs_a_shared_vocabulary(complaint, load):
    overrides = ["model.tie_embeddings=all", "tokens.shared=false"]
    assert 'tie_embeddings = "all" needs tokens.shared = true' in complaint(*overrides)
    assert load(MINIMUM, overrides[0]).model.tie_embeddings == "all"


def test_all_mistakes_are_named_at_once(complaint):
    message = complaint(text="[data]\n[model]\ncell = 3\nsize = 4\n")
    for part in (
        "output is missing.",
        "data.train is missing.",
        "data.valid is missing.",
        "model.cell = 3:",
        "model.size is not a known key.",
    ):
        assert part in message


@pytest.mark.parametrize("override", ["seed", "=3", " = 3", ""])
def test_an_override_without_key_or_value(complaint, override):
    assert "expected section.key=value, as in training.seed=2" in complaint(override)


def test_an_override_within_a_value(complaint):
    assert complaint("output.name=x") == "--set output.name=x: output is a value, not a section."


def test_a_byte_order_mark_is_no_mistake(load):
    assert load("\ufeff" + MINIMUM) == load()


def test_files_that_cannot_be_read(tmp_path):
    path = tmp_path / "run.toml"
    with pytest.raises(UserError, match=r"run\.toml does not exist\. `luong init > "):
        load_config(path)
    with pytest.raises(UserError, match=r"cannot be read: Is a directory\."):
        load_config(tmp_path)
    path.write_bytes('output = "caf\xe9"'.encode("latin-1"))
    with pytest.raises(UserError, match=r"run\.toml is not UTF-8 \(byte 13\)"):
        load_config(path)
    path.write_text("output = runs/x")
    with pytest.raises(UserError, match=r"run\.toml is not valid TOML: .*line 1"):
        load_config(path)
    with pytest.raises(UserError, match=r"cannot be read: Not a directory\."):
        load_config(path / "run.toml")


def test_sides_have_tokens_of_their_own(load):
    tokens = load(
        MINIMUM,
        "tokens.shared=false",
        "tokens.kind=word",
        "tokens.source.kind=character",
        "tokens.target.vocabulary_size=50",
    ).tokens
    assert (tokens.of("source").kind, tokens.of("target").kind) == ("character", "word")
    assert tokens.of("source").vocabulary_size == 8000
    assert tokens.of("target").vocabulary_size == 50


def test_a_shared_vocabulary_has_tokens_of_one_kind(complaint, load):
    message = complaint("tokens.kind=word", "tokens.source.kind=character")
    assert "source has kind = 'character' and the target 'word'" in message
    assert message.endswith("set tokens.shared = false.")
    assert "tokens.source.kin is not a known key" in complaint("tokens.source.kin=word")
    assert load(MINIMUM, "tokens.source.kind=subword").tokens.shared


def test_columns(complaint, load):
    pairs = "data.train={file='a.tsv', source_column=3, target_column=1}"
    assert load(MINIMUM, pairs).data.train.columns == (3, 1)
    assert load().data.valid.columns == (1, 2)
    assert "column 2 is read twice" in complaint("data.train={file='a', source_column=2}")
    message = complaint("data.train={source='a', target='b', target_column=3}")
    assert "columns are of one file" in message
    assert "source_column" in complaint("data.train={file='a', source_column=0}")


def test_features(complaint, load):
    files = [f"data.{part}={{file='a.tsv', features_column=3}}" for part in ("train", "valid")]
    apart = "tokens.shared=false"
    assert load(MINIMUM, *files, apart, "tokens.kind=character").data.has_features
    assert "in both train and valid" in complaint(files[0])
    assert "set tokens.shared = false" in complaint(*files, "tokens.kind=word")
    assert 'tokens.kind = "character"' in complaint(*files, apart)
    assert "name their column" in complaint("model.features=attention")


def test_every_key_of_the_design_is_there():
    def keys(model, prefix=""):
        for name, field in model.model_fields.items():
            if isinstance(field.annotation, type) and issubclass(
                field.annotation, pydantic.BaseModel
            ):
                yield from keys(field.annotation, f"{prefix}{name}.")
            else:
                yield prefix + name

    known = set(keys(RunConfig))
    assert {
        "task",
        "output",
        "seed",
        "data.train.file",
        "data.valid.source",
        "data.source_language",
        "tokens.kind",
        "tokens.vocabulary_size",
        "tokens.shared",
        "model.reverse_source",
        "model.tie_embeddings",
        "model.attention.half_width",
        "model.attention.placement",
        "model.attention.input_feeding",
        "training.max_minutes",
        "training.batch_tokens",
        "training.precision",
        "training.device",
    } <= known


def test_nearest():
    assert nearest("hiden", ["hidden", "dropout"]) == " Did you mean 'hidden'?"
    assert nearest("zzz", ["hidden", "dropout"]) == " Known: hidden, dropout."
    assert nearest("zzz", []) == ""
