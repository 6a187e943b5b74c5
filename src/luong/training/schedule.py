"""Learning-rate schedules: functions of updates, epochs and scores, never of the clock."""

from __future__ import annotations

import math

from luong.config import TrainingSettings


class Schedule:
    """The learning rate of each update.

    - constant
    - inverse-square-root: warm-up, then proportional to 1 / sqrt(update) (Vaswani 2017, 5.3)
    - linear: the full rate up to a share of the planned updates, then linearly towards 0
    - halving: halved with every epoch after the first few (Luong 2015, section 4.1)
    - plateau: cut whenever validations stop improving

    In each of them the rate first rises linearly over `warmup_updates`.

    Args:
        config: The settings.

    Attributes:
        factor: What `plateau` has cut the rate to so far; kept for resuming.
        stale: Validations since the last improvement or cut; kept for resuming.

    Example:
        >>> Schedule(TrainingConfig(schedule="halving")).rate(update=900, epoch=7, planned=None)
        0.00025
    """

    def __init__(self, config: TrainingSettings) -> None:
        self.config = config
        self.factor = 1.0
        self.stale = 0

    @property
    def needs_plan(self) -> bool:
        """Whether the number of updates of the whole run must be known."""
        return self.config.schedule == "linear"

    def rate(self, update: int, epoch: int, planned: int | None) -> float:
        """The learning rate of an update.

        Args:
            update: Counted from 1.
            epoch: Counted from 1.
            planned: Updates of the whole run; None while that is not known.
        """
        config = self.config
        rate = config.learning_rate * self.factor
        warmup = config.warmup_updates
        if update < warmup:
            return rate * update / warmup
        if config.schedule == "inverse-square-root":
            return rate * math.sqrt(max(warmup, 1) / update)
        if config.schedule == "halving":
            return rate * math.pow(0.5, max(0, epoch - config.halve_after_epochs))
        if config.schedule == "linear" and planned is not None:
            start = config.decay_start * planned
            left = max(planned - update + 1, 0)
            return rate * min(1.0, left / max(planned - start, 1.0))
        return rate

    def observe(self, improved: bool) -> None:
        """Take note of a validation."""
        self.stale = 0 if improved else self.stale + 1
        if self.config.schedule == "plateau" and self.stale > self.config.plateau_patience:
            self.factor *= self.config.plateau_factor
            self.stale = 0
