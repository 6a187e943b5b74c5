"""What every test starts from: the same seed, two threads, no settings of the shell."""

import pytest
import torch

torch.set_num_threads(2)


@pytest.fixture(autouse=True)
def _same_start(monkeypatch):
    torch.manual_seed(1)
    monkeypatch.delenv("LUONG_BACKEND", raising=False)
