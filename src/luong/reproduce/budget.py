"""From minutes to a number of updates: a few warm updates of every system are timed first.

All systems get the same number of updates, so that they see the same batches and their learning
rates fall alike; a system whose updates are dearer takes more of the time.
"""

from __future__ import annotations

import itertools
import json
import statistics
import tempfile
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from io import StringIO
from pathlib import Path
from typing import Any

from rich.console import Console

from luong.config import RunConfig
from luong.errors import UserError
from luong.files import write_whole
from luong.text.batches import BatchLoader
from luong.training.loop import Trainer

PLAN = "plan.json"
TRAINING_SHARE = 0.6
"""Of the minutes; validating, translating, measuring and drawing take the rest."""
WARM_UPDATES, TIMED_UPDATES = 3, 10
VALIDATIONS = 4


@dataclass(frozen=True)
class Plan:
    """How long every system is trained; written once, so that a resumed experiment keeps to it.

    Attributes:
        minutes: The budget of the experiment.
        updates: Of each system.
        seconds_per_update: What was measured, by system.
        settings: What all systems share.
    """

    minutes: float
    updates: int
    seconds_per_update: dict[str, float]
    settings: dict[str, Any]


def seconds_per_update(config: RunConfig) -> float:
    """The median time of a few updates of a run, once the first have warmed everything up.

    Args:
        config: The run; nothing is written to its output folder.
    """
    with tempfile.TemporaryDirectory() as scratch:
        apart = config.model_copy(update={"output": Path(scratch)})
        trainer = Trainer(apart, resume=False, console=Console(file=StringIO()))
        batches = trainer.task.plan(1)
        count = WARM_UPDATES + TIMED_UPDATES
        # A corpus of a few batches has them again.
        chosen = list(itertools.islice(itertools.cycle(batches), count))
        seconds = []
        with trainer.precision.applied(), BatchLoader(trainer.task.batch, chosen) as loader:
            for batch in loader:
                start = time.perf_counter()
                trainer.updater.update([batch], config.training.learning_rate)
                seconds.append(time.perf_counter() - start)
        # Other work on the machine delays some of them.
        return statistics.median(seconds[WARM_UPDATES:])


def make_plan(
    configs: Mapping[str, RunConfig], shared: RunConfig, minutes: float, output: Path
) -> Plan:
    """Plan an experiment, or read the plan that it began with.

    Args:
        configs: The runs of its systems, by name.
        shared: What they share.
        minutes: The budget of the experiment.
        output: Its folder.

    Raises:
        UserError: The folder holds an experiment with another budget or other settings.
    """
    path = output / PLAN
    settings = shared.model_dump(mode="json", exclude_none=True, exclude={"output"})
    if path.exists():
        saved = Plan(**json.loads(path.read_bytes()))
        if (saved.minutes, saved.settings) != (minutes, settings):
            raise UserError(
                f"{output} holds an experiment of {saved.minutes:g} minutes with settings of its "
                "own. Give the same options to go on with it, or name another folder by --output."
            )
        return saved
    seconds = {name: seconds_per_update(config) for name, config in configs.items()}
    updates = int(TRAINING_SHARE * 60 * minutes / sum(seconds.values()))
    # The last validation falls on the last update.
    updates = max(1, updates // VALIDATIONS) * VALIDATIONS
    made = Plan(minutes, updates, seconds, settings)
    output.mkdir(parents=True, exist_ok=True)
    write_whole(path, json.dumps(asdict(made), indent=2).encode())
    return made
