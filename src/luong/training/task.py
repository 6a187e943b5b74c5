"""What the loop needs of a task: data, a model, the loss of a batch, and a validation."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from torch import nn

from luong.config import BaseRunConfig
from luong.folder import AnyFolder
from luong.text.batches import TrainingBatch
from luong.text.tokenizers import Tokenizer
from luong.training.loss import Loss

Config = TypeVar("Config", bound=BaseRunConfig)


class Corpus(Protocol):
    """What tells whether data have changed since a run began."""

    @property
    def fingerprint(self) -> dict[str, dict[str, int]]:
        """Sizes and checksums of its files."""


class Shown(Protocol):
    """What the report of a validation shows of an output."""

    @property
    def source(self) -> str:
        """What was read."""

    @property
    def text(self) -> str:
        """What became of it."""


class Validated(NamedTuple):
    """What a validation found.

    Attributes:
        scores: loss (nats a target token or document), perplexity, and those of the task.
        signatures: The settings of scores that have some.
        samples: A few outputs with their references.
    """

    scores: dict[str, float]
    signatures: dict[str, str]
    samples: Sequence[tuple[Shown, str]]


class Task(ABC, Generic[Config]):
    """A kind of system; `make_task` chooses the class that the settings ask for.

    The constructor opens the corpora, `prepare` reads them, and then everything else is there.

    Args:
        config: The settings of the run.

    Attributes:
        tokenizers: Of what goes in and of what comes out.
    """

    tokenizers: tuple[Tokenizer, Tokenizer]

    def __init__(self, config: Config) -> None:
        self.config = config

    @property
    @abstractmethod
    def corpora(self) -> Sequence[Corpus]:
        """The training and the validation data."""

    @abstractmethod
    def prepare(self, tokenizers: tuple[Tokenizer, Tokenizer] | None) -> None:
        """Read the data, with the tokenizers of a saved run or with new ones.

        Raises:
            UserError: The data are unfit.
        """

    @abstractmethod
    def make_model(self) -> nn.Module:
        """A new model, from torch's random generator."""

    @abstractmethod
    def data_lines(self) -> list[str]:
        """What a person should know about the data and the tokens."""

    @abstractmethod
    def plan(self, epoch: int) -> list[npt.NDArray[np.int64]]:
        """The batches of an epoch as positions of examples; the same whenever it is asked for."""

    @abstractmethod
    def batch(self, positions: npt.NDArray[np.int64]) -> TrainingBatch:
        """The batch of some examples; called in another thread."""

    @abstractmethod
    def loss(self, model: Any, batch: Any, settings: Any, divisor: int) -> Loss:
        """The loss of a batch on the model's device; see `Updater`."""

    @abstractmethod
    def validate(self, folder: AnyFolder) -> Validated:
        """Score a model on the validation data."""
