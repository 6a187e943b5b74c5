from __future__ import annotations

import pytest

from luong.search import length_divisor


@pytest.mark.parametrize(
    ("name", "length", "alpha", "expected"),
    [
        ("average", 4, 1.0, 4.0),
        ("average", 4, 0.5, 2.0),
        ("gnmt", 1, 0.6, 1.0),
        ("gnmt", 19, 0.5, 2.0),
        ("none", 9, 1.0, 1.0),
        ("average", 9, 0.0, 1.0),
    ],
)
def test_values(name: str, length: int, alpha: float, expected: float) -> None:
    assert length_divisor(name, length, alpha) == pytest.approx(expected)


def test_unknown_name_gets_a_hint() -> None:
    with pytest.raises(ValueError, match="Did you mean 'average'"):
        length_divisor("avrage", 3)


@pytest.mark.parametrize("alpha", [-1.0, float("nan")])
def test_alpha_out_of_range(alpha: float) -> None:
    with pytest.raises(ValueError, match="alpha"):
        length_divisor("gnmt", 3, alpha)
