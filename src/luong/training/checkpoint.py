"""All that resuming a run needs, in one file: a run that was killed goes on as if it had not been.

The file is a safetensors file: weights, their average, the optimiser's tensors and the state of
the random generators; the counters stand in its header as JSON.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import safe_open
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor, nn

from luong.config import BaseRunConfig
from luong.errors import UserError
from luong.files import write_whole
from luong.folder import load_weights, read_tensors, weights
from luong.training.task import Corpus

FORMAT = 1

_MAY_CHANGE = {"max_epochs", "max_minutes", "max_updates", "patience", "save_every"}


@dataclass
class Interval:
    """Sums since the last row of metrics.jsonl."""

    updates: int = 0
    loss: float = 0.0
    likelihood: float = 0.0
    gradient_norm: float = 0.0
    source_tokens: int = 0
    target_tokens: int = 0
    seconds: float = 0.0
    waited: float = 0.0


@dataclass
class Progress:
    """Where a run stands.

    Attributes:
        update: Updates done.
        epoch: The epoch under way, from 1 on.
        position: Batches of the epoch's plan that have been used.
        seconds: Wall-clock time of all parts of the run.
        best_score: Of the best validation; None before the first.
        best_update: Its update.
        best_scores: All that it found, as the model folder shows it.
        validated_update: The update of the last validation.
        validation_seconds: What that validation took.
        validating_seconds: What all validations took.
        stale_validations: Validations since the best.
        timed_from: Since when updates are timed for that: the update, the seconds without those of
            validations, and the share of the run.
        planned_updates: Estimated under a time limit, once; None otherwise.
        planned_minutes: The limit it was estimated under.
        schedule: `factor` and `stale` of the learning-rate schedule.
        interval: Sums since the last row.
        metrics_bytes: Length of metrics.jsonl.
        finished: Why the run ended; empty while it has not.
    """

    update: int = 0
    epoch: int = 1
    position: int = 0
    seconds: float = 0.0
    best_score: float | None = None
    best_update: int = 0
    best_scores: dict[str, Any] = field(default_factory=dict)
    validated_update: int = 0
    validation_seconds: float = 0.0
    validating_seconds: float = 0.0
    stale_validations: int = 0
    timed_from: tuple[int, float, float] | None = None
    planned_updates: int | None = None
    planned_minutes: float = 0.0
    schedule: tuple[float, int] = (1.0, 0)
    interval: Interval = field(default_factory=Interval)
    metrics_bytes: int = 0
    finished: str = ""


class SavedState(NamedTuple):
    """What `save_state` wrote."""

    path: Path
    tensors: dict[str, Tensor]
    progress: Progress


def run_identity(
    config: BaseRunConfig, device: str, precision: str, corpora: Sequence[Corpus]
) -> dict[str, Any]:
    """What must be the same when a run is resumed: settings by their path, and sizes of files.

    Args:
        config: The settings of the run.
        device: What "auto" led to, since another machine may choose another; so for precision.
        precision: The type of products.
        corpora: The training and the validation data.
    """
    settings = config.model_dump(mode="json", exclude={"output": True})
    del settings["data"]["train"], settings["data"]["valid"]
    training = {k: value for k, value in settings["training"].items() if k not in _MAY_CHANGE}
    settings["training"] = training | {"device": device, "precision": precision}
    flat = _flattened(settings)
    for name, corpus in zip(("training data", "validation data"), corpora, strict=True):
        flat[name] = [list(file.values()) for file in corpus.fingerprint.values()]
    return flat


def _flattened(table: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        if isinstance(value, dict):
            flat |= _flattened(value, f"{prefix}{key}.")
        else:
            flat[prefix + key] = value
    return flat


def save_state(
    path: Path,
    progress: Progress,
    models: dict[str, nn.Module],
    optimizer: torch.optim.Optimizer,
    identity: dict[str, Any],
) -> None:
    """Write the state of a run, whole.

    Args:
        path: The file.
        progress: Where the run stands.
        models: The networks by name: what is trained, and its average where there is one.
        optimizer: The optimiser of the trained one.
        identity: What must be the same when the run is resumed: settings, and sizes of files.

    Raises:
        UserError: The file cannot be written.
    """
    tensors = {
        f"{name}.{key}": tensor
        for name, model in models.items()
        for key, tensor in weights(model).items()
    }
    for index, state in optimizer.state_dict()["state"].items():
        tensors |= {
            f"optimizer.{index}.{key}": value
            for key, value in state.items()
            if isinstance(value, Tensor)
        }
    tensors["random.cpu"] = torch.get_rng_state()
    if next(models["model"].parameters()).is_cuda:
        tensors["random.cuda"] = torch.cuda.get_rng_state()
    header = {
        "format": str(FORMAT),
        "progress": json.dumps(asdict(progress)),
        "identity": json.dumps(identity),
    }
    tensors = {name: tensor.contiguous().cpu() for name, tensor in tensors.items()}
    write_whole(path, tensors_to_bytes(tensors, header))


def read_state(path: Path, identity: dict[str, Any]) -> SavedState:
    """Read a saved state and check that it is of this run.

    Raises:
        UserError: The file is damaged, or what must be the same is not.
    """
    tensors = read_tensors(path)
    with safe_open(path, "pt") as file:
        header = file.metadata()
    if int(header["format"]) > FORMAT:
        raise UserError(f"{path} was written by a newer luong. Upgrade to resume this run.")
    _check_identity(json.loads(header["identity"]), identity)
    fields = json.loads(header["progress"])
    fields["interval"] = Interval(**fields["interval"])
    return SavedState(path, tensors, Progress(**fields))


def restore(
    saved: SavedState, models: dict[str, nn.Module], optimizer: torch.optim.Optimizer
) -> Progress:
    """Put a saved state back into models, optimiser and random generators.

    Returns:
        Where the run stands.

    Raises:
        UserError: The tensors do not fit the models.
    """
    groups: dict[str, dict[str, Tensor]] = {}
    for name, tensor in saved.tensors.items():
        group, _, key = name.partition(".")
        groups.setdefault(group, {})[key] = tensor
    for name, model in models.items():
        load_weights(model, groups[name], saved.path)
    state: dict[int, dict[str, Tensor]] = {}
    for name, tensor in groups.get("optimizer", {}).items():
        index, _, key = name.partition(".")
        state.setdefault(int(index), {})[key] = tensor
    param_groups = optimizer.state_dict()["param_groups"]
    optimizer.load_state_dict({"state": state, "param_groups": param_groups})
    torch.set_rng_state(groups["random"]["cpu"])
    if "cuda" in groups["random"] and torch.cuda.is_available():
        torch.cuda.set_rng_state(groups["random"]["cuda"])
    return saved.progress


def _check_identity(saved: dict[str, Any], current: dict[str, Any]) -> None:
    """Refuse to resume with other settings or other data."""
    changed = [
        key for key in sorted(saved.keys() | current.keys()) if saved.get(key) != current.get(key)
    ]
    if changed:
        changes = ", ".join(
            f"{key} ({saved.get(key)} then, {current.get(key)} now)" for key in changed[:3]
        )
        raise UserError(
            f"This run cannot be resumed with other settings or data: {changes}. Set them back, "
            "or train into another output folder. Only the limits of time, epochs and updates, "
            "patience, and how often to save may change."
        )
