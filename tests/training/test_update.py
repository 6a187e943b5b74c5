"""One update: what is summed, clipped, split, and left alone when it is not finite."""

import copy
import itertools
import logging

import pytest
import torch
from torch.nn import functional

from luong.config import ModelConfig, TrainingConfig
from luong.errors import UserError
from luong.models import Seq2Seq
from luong.text.batches import Batch
from luong.training.update import Updater

SIZE = 12


def pairs(*lengths):
    """A padded batch of random pairs of these source and target lengths, ends counted."""
    sources = [[*torch.randint(4, SIZE, (s - 1,)).tolist(), 3] for s, _ in lengths]
    targets = [[*torch.randint(4, SIZE, (t - 1,)).tolist(), 3] for _, t in lengths]

    def padded(rows):
        width = max(map(len, rows))
        return torch.tensor([row + [0] * (width - len(row)) for row in rows])

    return Batch(
        source=padded(sources),
        source_lengths=torch.tensor([len(row) for row in sources]),
        target_input=padded([[2, *row[:-1]] for row in targets]),
        target_output=padded(targets),
        indices=torch.arange(len(lengths)),
    )


def rows(batch, start, end):
    """Pairs of a batch, with no more padding than they need."""
    source = int(batch.source_lengths[start:end].max())
    target = int((batch.target_output[start:end] != 0).sum(1).max())
    return Batch(
        batch.source[start:end, :source],
        batch.source_lengths[start:end],
        batch.target_input[start:end, :target],
        batch.target_output[start:end, :target],
        batch.indices[start:end],
    )


@pytest.fixture
def model():
    torch.manual_seed(7)
    config = ModelConfig(embedding_size=6, hidden_size=8, dropout=0.0)
    return Seq2Seq(config, SIZE, SIZE).double()


@pytest.fixture
def batch():
    torch.manual_seed(8)
    return pairs((3, 4), (5, 2), (2, 2), (7, 6), (4, 1), (6, 5))


def updated(model, batches, **settings):
    """The model after an update by plain gradient descent, and what the update told."""
    model = copy.deepcopy(model)
    options = {"optimizer": "sgd", "learning_rate": 1.0, "clip_norm": 0.0} | settings
    told = Updater(model, TrainingConfig(**options), torch.float32).update(batches, 1.0)
    return dict(model.named_parameters()), told


def assert_same(found, expected, tolerance=1e-12):
    for name, parameter in expected[0].items():
        torch.testing.assert_close(found[0][name], parameter, rtol=tolerance, atol=tolerance)
    assert found[1] == pytest.approx(expected[1], rel=1e-9)


def test_the_gradient_is_that_of_the_mean_over_tokens(model, batch):
    states, _ = model(batch.source, batch.source_lengths, batch.target_input)
    logits = model.output(states)
    loss = functional.cross_entropy(
        logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0, label_smoothing=0.1
    )
    plain = functional.cross_entropy(
        logits.flatten(0, 1), batch.target_output.flatten(), ignore_index=0
    )
    gradients = torch.autograd.grad(loss, list(model.parameters()))
    found, told = updated(model, [batch])
    for (name, before), gradient in zip(model.named_parameters(), gradients, strict=True):
        torch.testing.assert_close(before - found[name], gradient)
    norm = torch.stack([gradient.norm() for gradient in gradients]).norm()
    assert told == pytest.approx((20 * loss.item(), 20 * plain.item(), norm.item()))


@pytest.mark.parametrize("cuts", [[0, 3, 6], [0, 1, 6], [0, 1, 2, 3, 4, 5, 6]])
def test_accumulation_does_not_depend_on_how_pairs_are_spread(model, batch, cuts):
    parts = [rows(batch, *cut) for cut in itertools.pairwise(cuts)]
    assert_same(updated(model, parts), updated(model, [batch]))


def test_clipping_scales_to_the_norm_and_tells_the_norm_before(model, batch):
    free, told = updated(model, [batch])
    limit = told.gradient_norm / 4
    clipped, clipped_told = updated(model, [batch], clip_norm=limit)
    assert clipped_told.gradient_norm == pytest.approx(told.gradient_norm)
    for name, before in model.named_parameters():
        torch.testing.assert_close(
            before - clipped[name], (before - free[name]) / 4, rtol=1e-4, atol=0
        )
    assert_same(updated(model, [batch], clip_norm=4 * told.gradient_norm), (free, told))


def test_the_learning_rate_is_that_of_the_call(model, batch):
    updater = Updater(model, TrainingConfig(learning_rate=0.5), torch.float32)
    before = [parameter.detach().clone() for parameter in model.parameters()]
    updater.update([batch], 0.0)
    for parameter, old in zip(model.parameters(), before, strict=True):
        assert torch.equal(parameter, old)


@pytest.mark.parametrize("what", ["loss", "gradient"])
def test_an_update_that_is_not_finite_changes_nothing(model, batch, what):
    updater = Updater(model, TrainingConfig(), torch.float32)
    updater.update([batch], 0.01)
    weights = [parameter.detach().clone() for parameter in model.parameters()]
    moments = copy.deepcopy(updater.optimizer.state_dict()["state"])
    if what == "loss":
        hook = model.register_forward_hook(lambda *args: (args[-1][0] * float("nan"), None))
    else:
        hook = model.output.logits.bias.register_hook(lambda gradient: gradient * float("inf"))
    told = updater.update([batch], 0.01)
    hook.remove()
    assert torch.tensor(told.loss).isfinite() == (what == "gradient")
    assert not torch.tensor(told.gradient_norm).isfinite()
    for parameter, old in zip(model.parameters(), weights, strict=True):
        assert torch.equal(parameter, old)
    for index, state in updater.optimizer.state_dict()["state"].items():
        for key, value in state.items():
            assert torch.equal(value, moments[index][key])
    assert torch.tensor(updater.update([batch], 0.01)).isfinite().all()


def out_of_memory(cuda):
    if cuda:
        return torch.OutOfMemoryError("CUDA out of memory. Tried to allocate 2.00 GiB.")
    try:
        torch.empty(1 << 60, dtype=torch.uint8)
    except RuntimeError as error:
        return error
    raise AssertionError


def starve(monkeypatch, largest, *, cuda=True):
    """Let the model run out of memory with more pairs than so many; gives the sizes it saw."""
    forward, sizes = Seq2Seq.forward, []

    def starved(self, source, *arguments):
        sizes.append(len(source))
        result = forward(self, source, *arguments)
        if len(source) > largest:
            raise out_of_memory(cuda)
        return result

    monkeypatch.setattr(Seq2Seq, "forward", starved)
    return sizes


@pytest.mark.parametrize("cuda", [True, False], ids=["cuda", "cpu"])
@pytest.mark.parametrize("largest", [5, 3, 1])
def test_out_of_memory_splits_the_batch(model, batch, monkeypatch, caplog, largest, cuda):
    whole = updated(model, [rows(batch, 0, 1), batch])
    sizes = starve(monkeypatch, largest, cuda=cuda)
    with caplog.at_level(logging.WARNING):
        split = updated(model, [rows(batch, 0, 1), batch])
    assert_same(split, whole)
    # A pair before the batch had its gradient already: it is not counted twice.
    assert sizes[:2] == [1, 6]
    assert max(sizes[-2:]) <= largest
    assert "out of memory with 6 pairs; trying again with half as many" in caplog.text


def test_out_of_memory_in_the_backward_pass_too(model, batch, monkeypatch):
    whole = updated(model, [batch])
    backward, calls = torch.Tensor.backward, []

    def fail_once(self):
        backward(self)  # gradients are there already, but the update must not use them
        calls.append(self)
        if len(calls) == 1:
            raise out_of_memory(cuda=True)

    monkeypatch.setattr(torch.Tensor, "backward", fail_once)
    assert_same(updated(model, [batch]), whole)
    assert len(calls) == 3


def test_out_of_memory_with_a_single_pair_is_told(model, batch, monkeypatch):
    starve(monkeypatch, 0)
    with pytest.raises(UserError, match=r"Out of memory with a single pair of 13 tokens\. Lower"):
        updated(model, [batch])


def test_other_errors_are_not_taken_for_out_of_memory(model, batch, monkeypatch):
    def broken(*_):
        raise RuntimeError("shapes do not match")

    monkeypatch.setattr(Seq2Seq, "forward", broken)
    with pytest.raises(RuntimeError, match="shapes do not match"):
        updated(model, [batch])
