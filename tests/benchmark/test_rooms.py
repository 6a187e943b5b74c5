"""The profile by rooms of the benchmarks: what it patches is still there, and time adds up."""

import importlib.util
from pathlib import Path

import pytest
import torch

from luong.config import ModelConfig, TrainingConfig
from luong.models import Seq2Seq
from luong.text.batches import Batch
from luong.training.update import Updater

ROOMS = Path(__file__).parents[2] / "benchmarks" / "rooms.py"


def test_an_update_is_divided_among_the_rooms():
    spec = importlib.util.spec_from_file_location("rooms", ROOMS)
    rooms = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(rooms)
    model = Seq2Seq(ModelConfig(embedding_size=8, hidden_size=16), 20, 20)
    updater = Updater(model, TrainingConfig(), torch.float32)
    ids = torch.randint(4, 20, (3, 5))
    batch = Batch(ids, torch.full((3,), 5), ids, ids, torch.arange(3))
    shares = rooms.shares(lambda: updater.update([batch], 1e-3), rooms.OTHER)
    trained = {rooms.OUTPUT, rooms.PRODUCTS, rooms.ELEMENTS, rooms.ATTENTION, rooms.ENCODER}
    assert trained | {rooms.OPTIMISER, rooms.OTHER} == set(shares)
    assert sum(shares.values()) == pytest.approx(1.0)
