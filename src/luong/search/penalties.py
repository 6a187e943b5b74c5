"""Length normalisation: what a log-probability is divided by, so that long outputs may win."""

from __future__ import annotations

from collections.abc import Callable

from luong.errors import nearest

_DIVISORS: dict[str, Callable[[int, float], float]] = {
    "average": lambda length, alpha: length**alpha,
    "gnmt": lambda length, alpha: ((5 + length) / 6) ** alpha,
    "none": lambda length, alpha: 1.0,
}

NORMALIZATIONS = tuple(_DIVISORS)
"""The names that `length_divisor` knows."""


def length_divisor(normalization: str, length: int, alpha: float = 1.0) -> float:
    """Give the number that the log-probability of a finished output is divided by.

    Args:
        normalization: "average": length^alpha, with alpha 1 the mean over the tokens (Cho et al.
            2014); "gnmt": ((5 + length) / 6)^alpha (Wu et al. 2016, equation 14); "none": 1.
        length: Tokens of the output, the end symbol counted; at least 1.
        alpha: How strongly length counts; 0 switches the normalisation off.

    Returns:
        The divisor, at least 1.

    Raises:
        ValueError: The name is unknown, or alpha is negative.

    Example:
        >>> length_divisor("average", 4)
        4.0
        >>> length_divisor("gnmt", 7, alpha=1.0)
        2.0
    """
    if normalization not in _DIVISORS:
        raise ValueError(
            f"{normalization!r} is no length normalisation.{nearest(normalization, NORMALIZATIONS)}"
        )
    if not alpha >= 0:
        raise ValueError(f"alpha of the length normalisation must be 0 or more, not {alpha}")
    return float(_DIVISORS[normalization](length, alpha))
