"""Dropout keeps the mean, and drops the share it was told to."""

import math

import pytest
import torch

from luong.models.dropout import dropout, keep_mask


@pytest.mark.parametrize("probability", [0.1, 0.3, 0.5, 0.9])
def test_drops_its_share_and_keeps_the_mean(probability):
    torch.manual_seed(0)
    count = 400_003
    mask = keep_mask(count, probability=probability, like=torch.zeros(1, dtype=torch.float64))
    deviation = math.sqrt(probability * (1 - probability) / count)
    assert abs((mask == 0).double().mean().item() - probability) < 5 * deviation + 2**-16
    assert mask.unique().numel() == 2
    assert abs(mask.mean().item() - 1.0) < 5 * deviation / (1 - probability)


def test_units_are_independent_of_their_neighbours():
    """Four of them come from one word of the generator."""
    torch.manual_seed(0)
    kept = keep_mask(100_000, 4, probability=0.5, like=torch.zeros(1)) - 1.0
    correlation = (kept.t() @ kept) / len(kept)
    assert (correlation - torch.eye(4)).abs().max() < 0.02


def test_a_seed_repeats_it_and_a_second_draw_differs():
    like = torch.zeros(1)
    torch.manual_seed(3)
    first, second = (keep_mask(5, 7, probability=0.5, like=like) for _ in range(2))
    torch.manual_seed(3)
    assert torch.equal(keep_mask(5, 7, probability=0.5, like=like), first)
    assert not torch.equal(first, second)


def test_only_training_drops_and_the_gradient_takes_the_same_units():
    tensor = torch.randn(6, 5, requires_grad=True)
    assert dropout(tensor, 0.5, training=False) is tensor
    assert dropout(tensor, 0.0, training=True) is tensor
    dropped = dropout(tensor, 0.5, training=True)
    (gradient,) = torch.autograd.grad(dropped.sum(), tensor)
    torch.testing.assert_close(dropped, tensor * gradient)


def test_everything_may_be_dropped():
    assert not keep_mask(10, probability=1.0, like=torch.zeros(1)).any()
