"""What every test starts from: one seed, one thread, no settings of the shell."""

import pytest
import torch
from hypothesis import settings

# These tensors are so small that a second thread only waits for the first.
torch.set_num_threads(1)

# A busy machine may take any time for one example.
settings.register_profile("patient", deadline=None, max_examples=60)
settings.load_profile("patient")


@pytest.fixture(autouse=True)
def _same_start(monkeypatch):
    torch.manual_seed(1)
    monkeypatch.delenv("LUONG_BACKEND", raising=False)
