"""How loops are compiled: what is kept on disk is what was compiled."""

import os
import subprocess
import sys

import pytest

PROGRAM = """
import hashlib, torch
from luong import kernels

torch.manual_seed(0)
gates, cell = torch.randn(8, 64, requires_grad=True), torch.randn(8, 16, requires_grad=True)
states = kernels.lstm_update(gates, cell)
gradients = torch.autograd.grad(sum((state**2).sum() for state in states), (gates, cell))
logits, targets = 3 * torch.randn(30, 40), torch.randint(40, (30,))
sums = kernels.softmax_sums(logits, targets)
ones = torch.ones(30)
slope = kernels.logit_gradients(logits.clone(), targets, sums[0], ones, -ones, 0.001)
for tensor in (*states, *gradients, *sums, slope, kernels.log_softmax(logits)):
    print(hashlib.sha256(tensor.detach().numpy().tobytes()).hexdigest())
"""


def test_from_the_disk_is_to_the_last_bit_what_was_just_compiled(tmp_path):
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "OMP_NUM_THREADS": "1"}
    compiled, loaded = (
        subprocess.run(
            [sys.executable, "-c", PROGRAM],
            env=environment,
            capture_output=True,
            check=True,
            text=True,
        ).stdout
        for _ in range(2)
    )
    if not any(tmp_path.rglob("*.nbc")):
        pytest.skip("numba keeps nothing on this disk")
    assert compiled == loaded
