from collections.abc import Iterator

import pytest
import torch


@pytest.fixture(autouse=True)
def scratch_filled_with_nan() -> Iterator[None]:
    """Memory that a kernel forgot to write comes out as NaN."""
    threads = torch.get_num_threads()
    torch.use_deterministic_algorithms(True)
    torch.utils.deterministic.fill_uninitialized_memory = True
    torch.set_num_threads(min(2, threads))
    torch.manual_seed(0)
    yield
    torch.use_deterministic_algorithms(False)
    torch.set_num_threads(threads)
