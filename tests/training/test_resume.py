"""Behaviour 4: a run resumed after a kill equals the run that was not killed."""

import json
import os
import shutil
import signal
import subprocess
import sys
from io import StringIO

import pytest
import torch
from rich.console import Console
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from untimed import rows

from luong.config import load_config
from luong.errors import UserError
from luong.folder import load_folder
from luong.training import precision, train
from luong.training.loop import Trainer
from luong.training.report import read_metrics
from luong.training.update import Updater

# Keys that the clock decides.
# Settings, and the update after which the run is stopped: in the middle of an epoch, and not just
# after a save.
RUNS = {
    "adam, average, accumulation, linear decay": (
        5,
        ["training.save_every=2", "training.accumulate=2", "training.average_decay=0.9"],
    ),
    "sgd with momentum, plateau, no average": (
        7,
        [
            "training.optimizer=sgd",
            "training.momentum=0.9",
            "training.learning_rate=3",
            "training.best_by=loss",
            "training.schedule=plateau",
            "training.plateau_patience=0",
            "training.average_decay=0",
            "training.validate_every=2",
        ],
    ),
    "plain sgd, halving": (
        9,
        [
            "training.optimizer=sgd",
            "training.schedule=halving",
            "training.halve_after_epochs=1",
            "training.best_by=loss",
            "training.log_every=3",
        ],
    ),
    "adamw, warm-up, state dropout, additive, bahdanau, local-p": (
        9,
        [
            "training.save_every=4",
            "training.log_every=3",
            "training.optimizer=adamw",
            "training.weight_decay=0.01",
            "training.schedule=inverse-square-root",
            "training.warmup_updates=8",
            "model.cell=gru",
            "model.state_dropout=0.2",
            "model.attention.score=additive",
            "model.attention.window=local-p",
            "model.attention.half_width=2",
            "model.attention.placement=bahdanau",
            "model.attention.dropout=0.1",
        ],
    ),
    "copying, coverage": (
        5,
        [
            "training.save_every=2",
            "tokens.minimum_count=2",
            "model.copy=true",
            "model.attention.score=additive",
            "model.attention.coverage=true",
        ],
    ),
    "shared subwords, all tied, early stopping": (
        5,
        [
            "tokens.kind=subword",
            "tokens.vocabulary_size=60",
            "tokens.shared=true",
            "model.tie_embeddings=all",
            "training.learning_rate=0.000001",
            "training.validate_every=2",
            "training.patience=2",
        ],
    ),
}


@pytest.fixture(scope="module")
def whole_run(toy, tmp_path_factory):
    """Gives the folder of a run of some settings that nothing stopped; each is run once."""
    folders = {}

    def run(*overrides):
        if overrides not in folders:
            output = tmp_path_factory.mktemp("whole") / "run"
            config = load_config(toy / "run.toml", [f"output={output}", *overrides])
            train(config, console=Console(file=StringIO()))
            folders[overrides] = output
        return folders[overrides]

    return run


def state(folder):
    """All tensors that a run saved, and its counters without what the clock decides."""
    path = folder / "state" / "last.safetensors"
    with safe_open(path, "pt") as file:
        progress = json.loads(file.metadata()["progress"])
    for key in ("seconds", "validation_seconds", "validating_seconds", "metrics_bytes"):
        del progress[key]
    for key in ("seconds", "waited"):
        del progress["interval"][key]
    return load_file(path), progress


def assert_same_run(folder, expected):
    assert rows(folder) == rows(expected)
    for name in ("model.safetensors", "README.md"):
        assert (folder / name).read_bytes() == (expected / name).read_bytes(), name
    (tensors, progress), (expected_tensors, expected_progress) = state(folder), state(expected)
    assert progress == expected_progress
    assert tensors.keys() == expected_tensors.keys()
    for name, tensor in tensors.items():
        assert torch.equal(tensor, expected_tensors[name]), name


@pytest.mark.parametrize(("step", "overrides"), RUNS.values(), ids=RUNS)
def test_a_killed_run_equals_one_that_was_not(
    toy_config, whole_run, console, stop_after, step, overrides
):
    whole = whole_run(*overrides)
    assert len([row for row in rows(whole) if row["kind"] == "validation"]) >= 3

    if "training.schedule=plateau" in overrides:  # the rate is cut before the run is killed
        assert [row["learning_rate"] for row in rows(whole) if row.get("learning_rate")][6] == 1.5

    config = toy_config(*overrides)
    stop_after(step, kill=True)
    with pytest.raises(SystemExit, match="killed"):
        train(config, console=console)
    assert 0 < state(config.output)[1]["update"] < step
    assert train(config, resume=True, console=console).reason
    assert_same_run(config.output, whole)


def test_a_run_stopped_in_every_epoch_equals_one_that_was_not(
    toy_config, whole_run, console, stop_after
):
    config = toy_config("training.save_every=2")
    for step, kill in ((3, True), (7, False), (8, True), (10, False), (15, False)):
        stop_after(step, kill=kill)
        try:
            result = train(config, resume=True, console=console)
            assert (result.interrupted, result.reason) == (True, "interrupted")
            assert state(config.output)[1]["update"] == step
        except SystemExit:
            assert kill
    train(config, resume=True, console=console)
    assert_same_run(config.output, whole_run("training.save_every=2"))


KILLED_RUN = """
import os, signal, sys
from luong.cli import main
from luong.training.report import Report

write = Report.training

def training(self, row, seconds_left):
    write(self, row, seconds_left)
    if row["step"] == 8:
        os.kill(os.getpid(), signal.SIGKILL)

Report.training = training
sys.argv = ["luong", "train", *sys.argv[1:]]
main()
"""


def test_sigkill_and_resume(toy, toy_config, whole_run, console):
    config = toy_config("training.save_every=2")
    settings = ["--set", "training.save_every=2", "--set", f"output={config.output}"]
    process = subprocess.run(
        [sys.executable, "-c", KILLED_RUN, str(toy / "run.toml"), *settings],
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        check=False,
    )
    assert process.returncode == -signal.SIGKILL, process.stderr.decode()
    assert read_metrics(config.output)[-1]["step"] == 8
    assert state(config.output)[1]["update"] == 6
    train(config, resume=True, console=console)
    assert_same_run(config.output, whole_run("training.save_every=2"))


@pytest.fixture
def saved(whole_run, toy_config):
    """The settings of a run that was saved."""
    config = toy_config()
    shutil.copytree(whole_run(), config.output)
    return config


@pytest.mark.parametrize(
    ("override", "key"),
    [
        ("training.learning_rate=0.02", "training.learning_rate"),
        ("model.hidden_size=32", "model.hidden_size"),
        ("model.attention.score=dot", "model.attention.score"),
        ("training.accumulate=2", "training.accumulate"),
        ("seed=4", "seed"),
        ("data.max_length=9", "data.max_length"),
        ("tokens.kind=character", "tokens.kind"),
        ("training.average_decay=0", "training.average_decay"),
        ("data.target_language=fr", "data.target_language"),
    ],
)
def test_other_settings_are_refused_by_name(saved, toy_config, console, override, key):
    before = {path: path.read_bytes() for path in saved.output.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match="cannot be resumed with other settings") as caught:
        train(toy_config(override), resume=True, console=console)
    assert f"{key} (" in str(caught.value)
    for path, data in before.items():
        assert path.read_bytes() == data


def test_another_precision_is_refused(saved, toy_config, console, monkeypatch):
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    with pytest.raises(
        UserError, match=r"training\.precision \(torch.float32 then, torch.bfloat16"
    ):
        train(toy_config("training.precision=bfloat16"), resume=True, console=console)


def test_a_precision_that_is_not_to_be_had_here_is_refused(saved, toy_config, console, monkeypatch):
    # Begun with "auto" on a machine that multiplies in bfloat16.
    monkeypatch.setattr(precision, "_cpu_has_bfloat16", lambda: False)
    path = saved.output / "config.json"
    settings = json.loads(path.read_bytes())
    settings["precision"]["dtype"] = "bfloat16"
    path.write_text(json.dumps(settings))
    state = saved.output / "state" / "last.safetensors"
    tensors = load_file(state)
    with safe_open(state, "pt") as file:
        header = file.metadata()
    identity = json.loads(header["identity"]) | {"training.precision": "torch.bfloat16"}
    save_file(tensors, state, header | {"identity": json.dumps(identity)})
    with pytest.raises(
        UserError, match=r"training\.precision \(torch.bfloat16 then, torch.float32"
    ):
        train(toy_config("training.precision=auto"), resume=True, console=console)


def test_auto_goes_on_as_the_run_began(saved, toy_config, console, monkeypatch):
    # By now another way may be faster.
    monkeypatch.setattr(torch.cpu, "_is_amx_tile_supported", lambda: True)
    monkeypatch.setattr(precision, "measure", lambda _: pytest.fail("measured again"))
    train(toy_config("training.precision=auto"), resume=True, console=console)
    assert " (as this run began: measured: float32 " in console.file.getvalue()


def test_settings_that_would_not_fit_the_saved_tokenizers_are_refused_too(
    saved, toy_config, console
):
    with pytest.raises(UserError, match=r"cannot be resumed.*model\.tie_embeddings"):
        train(
            toy_config("tokens.shared=true", "model.tie_embeddings=all"),
            resume=True,
            console=console,
        )


@pytest.mark.parametrize("change", [lambda lines: lines[:-1], reversed], ids=["fewer", "order"])
@pytest.mark.parametrize("part", ["train", "valid"])
def test_other_data_are_refused(saved, toy, toy_config, tmp_path, console, part, change):
    name = {"train": "train", "valid": "dev"}[part]
    for side in ("de", "en"):
        lines = (toy / f"{name}.{side}").read_bytes().splitlines(keepends=True)
        (tmp_path / f"other.{side}").write_bytes(b"".join(change(lines)))
    other = [
        f"data.{part}.{side}={tmp_path / ending}"
        for side, ending in (("source", "other.de"), ("target", "other.en"))
    ]
    what = {"train": "training data", "valid": "validation data"}[part]
    with pytest.raises(UserError, match=f"cannot be resumed with other settings or data: {what}"):
        train(toy_config(*other), resume=True, console=console)


def test_moved_data_and_another_output_may_change(saved, toy, toy_config, tmp_path, console):
    for name in ("train", "dev"):
        for side in ("de", "en"):
            (tmp_path / f"{name}.{side}").write_bytes((toy / f"{name}.{side}").read_bytes())
    moved = saved.output.rename(tmp_path / "elsewhere")
    files = [
        f"data.{part}.{side}={tmp_path / f'{name}.{ending}'}"
        for part, name in (("train", "train"), ("valid", "dev"))
        for side, ending in (("source", "de"), ("target", "en"))
    ]
    result = train(toy_config(*files, output=moved), resume=True, console=console)
    assert result.reason == "already finished: 3 epochs done"


def test_resume_with_nothing_saved_starts_from_the_beginning(
    toy_config, whole_run, console, stop_after
):
    config = toy_config()
    stop_after(3, kill=True)  # config.json and rows lie there, but nothing to go on from
    with pytest.raises(SystemExit, match="killed"):
        train(config, resume=True, console=console)
    assert read_metrics(config.output)[-1]["step"] == 3
    train(config, resume=True, console=console)
    assert_same_run(config.output, whole_run())


def test_a_folder_that_holds_a_run_is_refused(saved, console):
    before = {path: path.read_bytes() for path in saved.output.rglob("*") if path.is_file()}
    with pytest.raises(UserError, match=r"holds a run already\. Go on with it by --resume"):
        train(saved, console=console)
    after = {path: path.read_bytes() for path in saved.output.rglob("*") if path.is_file()}
    assert after == before


def test_a_finished_run_says_so_and_changes_nothing(toy_config, console):
    config = toy_config("training.max_epochs=2")
    first = train(config, console=console)
    before = {path: path.read_bytes() for path in config.output.rglob("*") if path.is_file()}
    again = train(config, resume=True, console=console)
    assert again.reason == "already finished: 2 epochs done"
    assert again.scores == first.scores
    after = {path: path.read_bytes() for path in config.output.rglob("*") if path.is_file()}
    assert after == before


def test_more_epochs_go_on_where_a_finished_run_ended(toy_config, whole_run, console):
    constant = "training.schedule=constant"  # `linear` plans for the epochs it knows of
    train(toy_config(constant, "training.max_epochs=2"), console=console)
    longer = toy_config(constant)
    assert train(longer, resume=True, console=console).reason == "3 epochs done"
    assert_same_run(longer.output, whole_run(constant))


def test_the_best_scores_survive_a_resume_that_finds_no_better(toy_config, console):
    # A rate as small as this moves no score after the first validation.
    overrides = ["training.learning_rate=1e-12", "training.average_decay=0"]
    first = train(toy_config(*overrides, "training.max_epochs=1"), console=console)
    longer = toy_config(*overrides, "training.max_epochs=2")
    again = train(longer, resume=True, console=console)
    assert again.scores == first.scores == load_folder(longer.output).scores
    assert again.scores["step"] == 5


def test_the_time_limit_stops_a_run(toy_config, console, clock):
    config = toy_config("training.max_minutes=0.025", "training.schedule=constant")
    result = train(config, console=console)
    assert result.reason == "0.025 minutes over"
    rows = read_metrics(config.output)
    assert [row["step"] for row in rows if row["kind"] == "train"][-1] == 12  # of 1/8 second each
    # What was reached is validated, though no epoch ended there.
    assert (rows[-1]["kind"], rows[-1]["step"]) == ("validation", 12)
    assert train(config, resume=True, console=console).reason.startswith("already finished")


def test_a_longer_time_limit_goes_on(toy_config, whole_run, console, clock):
    constant = "training.schedule=constant"
    short = toy_config("training.max_minutes=0.0103", constant)  # over at the end of an epoch
    assert train(short, console=console).scores["step"] == 5
    longer = toy_config("training.max_minutes=100", constant)
    train(longer, resume=True, console=console)
    assert rows(longer.output) == rows(whole_run(constant))


@pytest.mark.parametrize("kill", [True, False], ids=["killed", "interrupted"])
def test_updates_planned_under_a_time_limit_are_kept(
    toy_config, tmp_path, console, clock, stop_after, kill
):
    limits = ["training.max_minutes=0.03125", "training.max_epochs=100"]
    whole = toy_config(*limits, output=tmp_path / "whole")
    result = train(whole, console=console)
    assert result.reason == "15 planned updates done"  # of 1/8 second each
    assert "planned   15 updates in the time limit" in console.file.getvalue()
    rates = [row["learning_rate"] for row in rows(whole.output) if row["kind"] == "train"]
    assert rates[:8] == [0.01] * 8
    assert rates[8:] == pytest.approx([0.01 * left / 7.5 for left in range(7, 0, -1)])

    stopped = toy_config(*limits, output=tmp_path / "stopped")
    stop_after(9, kill=kill)
    try:
        train(stopped, console=console)
    except SystemExit:
        # Nothing was saved since the plan was written, after update 6.
        assert state(stopped.output)[1]["update"] == 6
    assert state(stopped.output)[1]["planned_updates"] == 15
    clock.step = 0.03  # a faster machine does not change the plan
    assert train(stopped, resume=True, console=console).reason == "15 planned updates done"
    assert_same_run(stopped.output, whole.output)


def test_a_new_time_limit_makes_a_new_plan(toy_config, console, clock):
    train(toy_config("training.max_minutes=0.03125", "training.max_epochs=100"), console=console)
    longer = toy_config("training.max_minutes=0.0625", "training.max_epochs=100")
    assert train(longer, resume=True, console=console).reason == "30 planned updates done"


def test_slow_first_updates_do_not_shorten_the_plan(toy_config, console, clock, monkeypatch):
    # Kernels that are compiled in the first update take half of a limit of 4 seconds.
    clock.step = 2.0
    update = Updater.update

    def first_slow(self, *arguments):
        updated = update(self, *arguments)
        clock.step = 0.125
        return updated

    monkeypatch.setattr(Updater, "update", first_slow)
    config = toy_config(f"training.max_minutes={4 / 60}", "training.max_epochs=100")
    assert train(config, console=console).reason == "17 planned updates done"  # 1 + 2 / 0.125


def test_a_slow_validation_does_not_slow_the_pace(toy_config, console, clock, monkeypatch):
    # The first validation compiles the kernels of the search, while updates are being timed.
    validate = Trainer._validate

    def slow(self):
        validate(self)
        if self.progress.update == 6:
            clock.now += 1.0
            self.progress.validating_seconds += 1.0

    monkeypatch.setattr(Trainer, "_validate", slow)
    limits = [f"training.max_minutes={4 / 60}", "training.max_epochs=100"]
    config = toy_config(*limits, "training.validate_every=6")
    # 4 seconds, 1 of them for the validation, in eighths.
    assert train(config, console=console).reason == "24 planned updates done"


def test_validation_saves_for_resuming(toy_config, console, stop_after):
    # save_every = 0: at each validation, wherever it falls.
    config = toy_config("training.validate_every=3")
    stop_after(4, kill=True)
    with pytest.raises(SystemExit, match="killed"):
        train(config, console=console)
    assert state(config.output)[1]["update"] == 3


def test_a_second_interrupt_ends_at_once(toy_config, console, monkeypatch):
    config = toy_config()
    trainer = Trainer(config, resume=False, console=console)
    before = signal.getsignal(signal.SIGINT)
    with trainer.interruptible():
        signal.raise_signal(signal.SIGINT)
        assert trainer.interrupted
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
