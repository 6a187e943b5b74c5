"""What a run writes, keeps and says, and how it stops; resuming has a file of its own."""

import json
import math
import re
import threading
from io import StringIO

import pytest
import torch
from rich.console import Console

from luong.errors import UserError
from luong.folder import load_folder, read_tensors
from luong.training import train
from luong.training.loop import Trainer
from luong.training.report import read_metrics
from luong.training.validation import Validator

TRAINING_KEYS = {
    "kind",
    "step",
    "epoch",
    "seconds",
    "loss",
    "perplexity",
    "learning_rate",
    "gradient_norm",
    "source_tokens_per_second",
    "target_tokens_per_second",
    "wait_share",
}
VALIDATION_KEYS = {
    *("kind", "step", "epoch", "seconds", "validating_seconds", "loss", "perplexity", "bleu"),
    *("chrf", "exact_match"),
}


def files(folder):
    return {path: path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_rows_have_the_keys_that_programs_read(trained):
    rows = read_metrics(trained)
    for row in rows:
        assert row.keys() == (TRAINING_KEYS if row["kind"] == "train" else VALIDATION_KEYS)
        assert all(math.isfinite(value) for key, value in row.items() if key != "kind")
    training = [row for row in rows if row["kind"] == "train"]
    assert [row["step"] for row in training] == list(range(10, 141, 10))
    assert [row["step"] for row in rows if row["kind"] == "validation"] == [35, 70, 105, 140]
    assert training[-1]["loss"] < training[0]["loss"]
    assert training[-1]["perplexity"] == pytest.approx(math.exp(training[-1]["loss"]), rel=1e-4)
    assert all(0 <= row["wait_share"] <= 1 for row in training)
    seconds = [row["seconds"] for row in rows]
    assert seconds == sorted(seconds)


@pytest.mark.parametrize("accumulate", [1, 2])
def test_tokens_per_second_count_ends_and_never_padding(
    toy, toy_config, console, clock, accumulate
):
    epoch = 5 if accumulate == 1 else 3
    config = toy_config(
        "training.max_epochs=2", f"training.log_every={epoch}", f"training.accumulate={accumulate}"
    )
    train(config, console=console)
    words = len((toy / "train.de").read_text(encoding="utf-8").split())
    tokens = words + 100  # an end for each of 100 lines; both sides have as many words
    training = [row for row in read_metrics(config.output) if row["kind"] == "train"]
    assert [row["step"] for row in training] == [epoch, 2 * epoch]
    for row in training:
        assert row["source_tokens_per_second"] * epoch / 8 == pytest.approx(tokens, abs=0.1)
        assert row["target_tokens_per_second"] == row["source_tokens_per_second"]
    assert [row["seconds"] for row in training] == [epoch / 8, 2 * epoch / 8]


def test_validation_takes_no_part_in_the_speed(toy_config, console, clock, monkeypatch):
    validate = Validator.validate

    def slow(self, folder):
        clock.now += 100
        return validate(self, folder)

    monkeypatch.setattr(Validator, "validate", slow)
    config = toy_config("training.max_epochs=2", "training.log_every=5")
    train(config, console=console)
    first, second = [row for row in read_metrics(config.output) if row["kind"] == "train"]
    assert second["target_tokens_per_second"] == first["target_tokens_per_second"]
    assert second["seconds"] - first["seconds"] > 100
    validations = [row for row in read_metrics(config.output) if row["kind"] == "validation"]
    assert [row["validating_seconds"] // 100 for row in validations] == [1, 2]


def test_the_logged_numbers_are_means_of_the_interval(toy_config, tmp_path, console):
    each, both = (
        toy_config(
            f"training.log_every={every}", "training.max_epochs=1", output=tmp_path / str(every)
        )
        for every in (1, 5)
    )
    for config in (each, both):
        train(config, console=console)
    single = [row for row in read_metrics(each.output) if row["kind"] == "train"]
    (row,) = [row for row in read_metrics(both.output) if row["kind"] == "train"]
    norms = [row["gradient_norm"] for row in single]
    assert row["gradient_norm"] == pytest.approx(sum(norms) / 5)
    assert min(r["loss"] for r in single) < row["loss"] < max(r["loss"] for r in single)
    logs = [math.log(r["perplexity"]) for r in single]
    assert min(logs) < math.log(row["perplexity"]) < max(logs)


def test_the_data_report_comes_before_the_first_update(toy, toy_config, tmp_path, console):
    pairs = tmp_path / "pairs.tsv"
    lines = zip(
        (toy / "train.de").read_text(encoding="utf-8").splitlines(),
        (toy / "train.en").read_text(encoding="utf-8").splitlines(),
        strict=True,
    )
    text = "".join(f"{source}\t{target}\n" for source, target in lines)
    pairs.write_text("\tone\neins\t\nzwei\ttwo\tthree\n" + text, encoding="utf-8")
    config = toy_config("data.max_length=4", "training.max_epochs=1")
    table = config.model_dump(mode="json", exclude_none=True)
    table["data"]["train"] = {"file": str(pairs)}
    train(type(config).model_validate(table), console=console)
    report, _, rest = console.file.getvalue().partition("\nstep 1 ")
    assert rest
    long = sum(len(line.split("\t")[0].split()) > 4 for line in text.splitlines())
    assert long > 5
    kept = f"pairs     {101 - long} of 103 kept; left out: 1 blank source, 1 blank target, "
    assert f"{kept}{long} source too long" in report
    assert "1 lines have more than two" in report
    assert "0.00% unknown" in report
    assert "valid     20 pairs" in report
    assert "parameters, " in report
    assert re.search(r"products in float32( by oneDNN)? \(measured: ", report)
    assert "kernels" in report


def test_the_best_weights_are_kept_and_not_the_last(toy_config, console, monkeypatch):
    scores = iter([3.0, 9.0, 5.0])
    validate, seen = Validator.validate, []

    def scripted(self, folder):
        seen.append({n: p.detach().clone() for n, p in folder.model.named_parameters()})
        found = validate(self, folder)
        return found._replace(scores=found.scores | {"bleu": next(scores)})

    monkeypatch.setattr(Validator, "validate", scripted)
    config = toy_config()
    result = train(config, console=console)
    assert result.scores["bleu"] == 9.0
    assert result.scores["step"] == 10
    best = read_tensors(config.output / "model.safetensors")
    for name, parameter in seen[1].items():
        assert torch.equal(best[name], parameter)
    assert not torch.equal(best["target_embedding.weight"], seen[2]["target_embedding.weight"])
    # The last ones lie with the state.
    state = read_tensors(config.output / "state" / "last.safetensors")
    assert torch.equal(state["average.target_embedding.weight"], seen[2]["target_embedding.weight"])
    assert console.file.getvalue().count("best so far") == 2


def test_early_stopping_by_loss(toy_config, console):
    config = toy_config(
        "training.best_by=loss",
        "training.patience=2",
        "training.max_epochs=50",
        "training.learning_rate=0.5",
        "training.average_decay=0",
    )
    result = train(config, console=console)
    assert result.reason == "no better loss in 2 validations"
    losses = [row["loss"] for row in read_metrics(config.output) if row["kind"] == "validation"]
    assert losses.index(min(losses)) == len(losses) - 3
    assert result.scores["loss"] == min(losses)


@pytest.fixture
def diverging(toy_config, console, monkeypatch):
    """Trains until the gradient (or the loss) of an update is not a number."""

    def run(update, what="gradient"):
        config = toy_config("training.save_every=2", "training.max_epochs=2")
        trainer = Trainer(config, resume=False, console=console)
        make = trainer.updater.update
        before = {}

        def poisoned(batches, rate):
            if trainer.progress.update + 1 == update:
                before.update(files(config.output))
                model = trainer.model
                if what == "loss":
                    model.register_forward_hook(lambda *args: (args[-1][0] * math.nan, None))
                else:
                    model.output.logits.bias.register_hook(lambda gradient: gradient * math.nan)
            return make(batches, rate)

        monkeypatch.setattr(trainer.updater, "update", poisoned)
        with pytest.raises(UserError, match="Training diverged") as caught:
            trainer.run()
        after = files(config.output)
        rows = config.output / "metrics.jsonl"
        assert {p: d for p, d in after.items() if p != rows} == {
            p: d for p, d in before.items() if p != rows
        }
        return config, str(caught.value)

    return run


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_divergence_names_the_update_and_the_last_good_weights(diverging, console, what):
    config, message = diverging(8, what)
    found = {"loss": "the loss is nan", "gradient": "the gradient norm is nan"}[what]
    assert f"in update 8 {found}. " in message
    state = config.output / "state" / "last.safetensors"
    assert f"the weights of update 5 in {config.output}, and the last save in {state}. " in message
    assert "Lower training.learning_rate" in message
    assert all(tensor.isfinite().all() for tensor in read_tensors(state).values())
    # Without the poison the run goes on from there, and the folder can be used.
    assert train(config, resume=True, console=console).reason == "2 epochs done"
    assert load_folder(config.output).scores["step"] in (5, 10)


def test_divergence_before_anything_was_saved(diverging):
    config, message = diverging(1)
    assert "in update 1 the gradient norm is nan. Kept are no weights yet. Lower" in message
    assert not (config.output / "model.safetensors").exists()


def test_training_runs_outside_the_main_thread(toy_config, console):
    # Signals cannot be caught there.
    results = []
    config = toy_config("training.max_epochs=1")
    thread = threading.Thread(target=lambda: results.append(train(config, console=console)))
    thread.start()
    thread.join()
    assert results[0].reason == "1 epochs done"


def test_a_terminal_shows_a_bar_and_the_same_rows(toy_config, tmp_path, console):
    screen = Console(file=StringIO(), width=160, force_terminal=True)
    shown = toy_config("training.max_epochs=1", output=tmp_path / "shown")
    plain = toy_config("training.max_epochs=1", output=tmp_path / "plain")
    train(shown, console=screen)
    train(plain, console=console)
    assert "\x1b[" in screen.file.getvalue()
    assert "step 1 " not in screen.file.getvalue()
    losses = [[row["loss"] for row in read_metrics(run.output)] for run in (shown, plain)]
    assert losses[0] == losses[1]


def test_output_must_be_a_folder(toy_config, tmp_path, console):
    (tmp_path / "file").write_text("x")
    with pytest.raises(UserError, match="file' is a file; name a folder to train into"):
        train(toy_config(output=tmp_path / "file"), console=console)
    with pytest.raises(UserError, match="cannot be made: Not a directory"):
        train(toy_config(output=tmp_path / "file" / "run"), console=console)


def test_a_mistake_in_the_data_does_not_claim_the_folder(toy, toy_config, tmp_path, console):
    with pytest.raises(UserError, match=r"missing\.de does not exist"):
        train(toy_config(f"data.train.source={tmp_path / 'missing.de'}"), console=console)
    config = toy_config("training.max_epochs=1")
    assert train(config, console=console).reason == "1 epochs done"
    settings = json.loads((config.output / "config.json").read_bytes())
    assert settings["run"]["training"]["max_epochs"] == 1


def test_a_limit_of_updates(toy_config, console):
    settings = ("training.max_updates=7", "training.decay_start=0", "training.max_epochs=99")
    result = train(toy_config(*settings), console=console)
    assert result.reason == "7 updates done"
    rows = read_metrics(result.folder)
    rates = [row["learning_rate"] for row in rows if row["kind"] == "train"]
    # The rate falls to its end over these updates, not over the epochs.
    assert rates == pytest.approx([0.01 * (8 - step) / 7 for step in range(1, 8)])
    assert rows[-1]["kind"] == "validation"
    assert rows[-1]["step"] == 7
    more = train(toy_config(*settings[1:], "training.max_updates=9"), resume=True, console=console)
    assert more.reason == "9 updates done"
