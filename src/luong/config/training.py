"""Settings of the training loop that all tasks share."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luong.config.section import Section

ScheduleName = Literal["constant", "inverse-square-root", "linear", "halving", "plateau"]


class TrainingSettings(Section):
    """The optimiser, its schedule, and when to stop, validate, save and report."""

    best_by: str
    """The validation score that decides which weights are kept, and when to stop early."""

    max_epochs: int = Field(20, ge=1)
    max_minutes: float = Field(0.0, ge=0.0)
    """Wall-clock limit over all resumed parts of the run; 0: none."""
    max_updates: int = Field(0, ge=0)
    """Updates of the whole run, at most; 0: as many as the epochs have."""
    batch_tokens: int = Field(2000, ge=1)
    """Padded target positions of a batch, at most."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are summed before an update."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = Field(0.001, gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    momentum: float = Field(0.0, ge=0.0, lt=1.0)
    """For sgd."""
    schedule: ScheduleName = "linear"
    warmup_updates: int = Field(0, ge=0)
    """The rate rises linearly over this many updates, in every schedule."""
    decay_start: float = Field(0.5, ge=0.0, lt=1.0)
    """`linear`: the share of the planned updates after which the rate falls towards 0."""
    halve_after_epochs: int = Field(5, ge=0)
    """`halving`: full rate for this many epochs, then half as much with each (Luong 2015)."""
    plateau_patience: int = Field(2, ge=0)
    """`plateau`: so many validations without a better score are borne before the rate is cut."""
    plateau_factor: float = Field(0.5, gt=0.0, lt=1.0)
    clip_norm: float = Field(1.0, ge=0.0)
    """Gradients are scaled down to this norm; 0: never."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    average_decay: float = Field(0.998, ge=0.0, lt=1.0)
    """Decay of the running average of the weights that is validated and kept; 0: no average."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """How products are computed. `float32`: to float32 accuracy, by the faster of torch's default
    library and oneDNN. `auto`: that, or bfloat16 where this CPU measures faster with it. What was
    measured is kept in ~/.cache/luong/precision.json (XDG_CACHE_HOME is heeded) for each machine
    and version of torch; weights, softmax, loss and cell state are float32 always."""
    device: str = "auto"
    validate_every: int = Field(0, ge=0)
    """Updates between validations; 0: at the end of each epoch."""
    patience: int = Field(0, ge=0)
    """Validations without a better score before training stops; 0: never."""
    save_every: int = Field(0, ge=0)
    """Updates between saves for resuming; 0: at each validation and every five minutes."""
    log_every: int = Field(50, ge=1)
    """Updates between two rows of metrics.jsonl."""
