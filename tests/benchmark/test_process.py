import os

import numpy
import pytest

from luong.benchmark.process import alone, free_bytes, peak_growth
from luong.errors import UserError


def grown(mebibytes):
    return peak_growth(lambda: numpy.ones(mebibytes * 2**17).sum())


def test_the_peak_is_that_of_the_call_and_its_process(monkeypatch):
    monkeypatch.delenv("MALLOC_TRIM_THRESHOLD_", raising=False)
    peak = alone(grown, 64)
    assert peak is None or 63 < peak < 70
    assert "MALLOC_TRIM_THRESHOLD_" not in os.environ


def test_a_killed_process_is_told_in_a_sentence():
    with pytest.raises(UserError, match="was killed, most likely for want of memory"):
        alone(os._exit, 1)


def test_there_is_memory():
    assert free_bytes() > 2**20
