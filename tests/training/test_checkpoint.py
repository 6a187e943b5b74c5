import json

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file, save_file
from torch import nn

from luong.errors import UserError
from luong.training.checkpoint import Interval, Progress, read_state, restore, save_state

IDENTITY = {"seed": 1, "training data": [[10, 2], [12, 2]], "model.dropout": 0.1}
PROGRESS = Progress(
    update=7,
    epoch=2,
    position=3,
    best_score=-0.1 + 0.3,
    best_update=5,
    best_scores={"bleu": 1 / 3, "step": 5, "signatures": {"bleu": "x"}},
    planned_updates=20,
    planned_minutes=1.5,
    schedule=(0.5, 1),
    interval=Interval(updates=2, loss=1e-3 / 7, target_tokens=12),
    metrics_bytes=99,
)


def networks():
    models = {"model": nn.Linear(3, 2), "average": nn.Linear(3, 2)}
    return models, torch.optim.Adam(models["model"].parameters(), 0.1)


def step(models, optimizer):
    models["model"](torch.rand(4, 3)).sum().backward()
    optimizer.step()
    optimizer.zero_grad()


@pytest.fixture
def saved(tmp_path):
    models, optimizer = networks()
    step(models, optimizer)
    save_state(tmp_path / "last.safetensors", PROGRESS, models, optimizer, IDENTITY)
    return tmp_path / "last.safetensors", models, optimizer


def test_what_was_saved_comes_back_bit_for_bit(saved):
    path, models, optimizer = saved
    expected = torch.rand(5)
    step(models, optimizer)
    other_models, other_optimizer = networks()
    torch.manual_seed(99)
    progress = restore(read_state(path, IDENTITY), other_models, other_optimizer)
    assert progress.interval == PROGRESS.interval
    assert progress.best_score == PROGRESS.best_score
    assert progress.best_scores == PROGRESS.best_scores
    assert tuple(progress.schedule) == PROGRESS.schedule
    assert torch.equal(torch.rand(5), expected)
    step(other_models, other_optimizer)
    for name in models:
        for one, other in zip(
            models[name].parameters(), other_models[name].parameters(), strict=True
        ):
            assert torch.equal(one, other)


def test_saving_does_not_touch_what_it_saves(saved):
    path, models, optimizer = saved
    before = torch.get_rng_state()
    save_state(path, PROGRESS, models, optimizer, IDENTITY)
    assert torch.equal(torch.get_rng_state(), before)


def test_the_file_is_safetensors_with_json_in_its_header(saved):
    path, _, _ = saved
    with safe_open(path, "pt") as file:
        header = file.metadata()
        names = set(file.keys())
    assert json.loads(header["identity"]) == IDENTITY
    assert json.loads(header["progress"])["update"] == 7
    assert {"model.weight", "average.bias", "optimizer.0.exp_avg", "random.cpu"} <= names
    assert list(path.parent.iterdir()) == [path]


def test_every_changed_key_is_named_up_to_three(saved):
    path, _, _ = saved
    with pytest.raises(UserError) as caught:
        read_state(path, IDENTITY | {"seed": 2})
    assert "data: seed (1 then, 2 now). Set" in str(caught.value)
    with pytest.raises(UserError) as caught:
        read_state(path, {"new": 5, "other": 6})
    assert "model.dropout (0.1 then, None now), new (None then, 5 now), other" in str(caught.value)


def test_a_state_that_was_cut_short_is_refused(saved):
    path, _, _ = saved
    data = path.read_bytes()
    for length in (0, 4, 100, len(data) - 1):
        path.write_bytes(data[:length])
        with pytest.raises(UserError, match=r"last\.safetensors is cut short or damaged"):
            read_state(path, IDENTITY)


def test_a_newer_state_is_refused(saved):
    path, _, _ = saved
    with safe_open(path, "pt") as file:
        header = file.metadata()
    save_file(load_file(path), path, {**header, "format": "2"})
    with pytest.raises(UserError, match=r"was written by a newer luong\. Upgrade"):
        read_state(path, IDENTITY)
