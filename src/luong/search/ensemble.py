"""Several models as one: their probabilities of the next token are averaged in one search."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from luong.errors import UserError
from luong.folder import ModelFolder, load_folder
from luong.models import Seq2Seq
from luong.models.candidates import CandidateMemory, candidate_step
from luong.models.encoder_decoder import StepOutput
from luong.search.copying import copies
from luong.search.input_tables import InputTables
from luong.search.trained import SearchModel, TrainedModel
from luong.text.shortlist import Shortlist
from luong.text.tokenizers import Tokenizer, same_tokenizer


class Members(NamedTuple):
    """A value of each member: their memories, or their states.

    Attributes:
        values: In the order of the members.
    """

    values: tuple[Any, ...]

    def select(self, rows: Tensor) -> Members:
        """The same for these rows (integers), in their order."""
        return Members(tuple(value.select(rows) for value in self.values))


Step = Callable[[Tensor, Any, Any], tuple[Any, Any]]


def averaged_step(steps: Sequence[Step]) -> Step:
    """The step of an ensemble: log of the mean of its members' probabilities, mean attention.

    Args:
        steps: Of the members, see `beam_search`; they share a target vocabulary.

    Returns:
        A step whose state and memory are `Members`, in the same order. That of one member gives
        what the member gives.

    Example:
        >>> step = averaged_step([first.step, second.step])
    """

    def step(tokens: Tensor, state: Members, memory: Members) -> tuple[Members, StepOutput]:
        states, outputs = zip(
            *(
                one(tokens, *parts)
                for one, *parts in zip(steps, state.values, memory.values, strict=True)
            ),
            strict=True,
        )
        logs = torch.stack([output.log_probabilities for output in outputs])
        weights = torch.stack([output.weights for output in outputs])
        mean = logs.logsumexp(0) - math.log(len(steps))
        copied = None
        if all(getattr(output, "copied", None) is not None for output in outputs):
            shares = torch.stack([output.copied for output in outputs])
            # Of the mean probability, whose logarithm may be -inf.
            copied = (shares * torch.exp(logs - mean)).nan_to_num(0.0).mean(0)
        return Members(states), StepOutput(mean, weights.mean(0), copied)

    return step


class Ensemble:
    """Networks that read the same source and write with the same vocabulary, as one.

    Args:
        models: The members.

    Example:
        >>> memory, state = Ensemble([first, second]).encode(source, lengths)
    """

    def __init__(self, models: Sequence[SearchModel]) -> None:
        self.models = list(models)
        self.step = averaged_step([model.step for model in self.models])
        self.copies = copies(self.models[0])

    def encode(self, source: Tensor, lengths: Tensor, *copies: Tensor) -> tuple[Members, Members]:
        """Read sources (B, S) with every member: memories and states; see `Seq2Seq.encode`."""
        memories, states = zip(
            *(model.encode(source, lengths, *copies) for model in self.models), strict=True
        )
        return Members(memories), Members(states)

    def modules(self) -> Iterator[nn.Module]:
        """All layers of all members."""
        return itertools.chain.from_iterable(model.modules() for model in self.models)


class EnsembleFolder:
    """Model folders as one, for a `Translator`.

    Args:
        folders: Loaded model folders, one or more, on one device.

    Raises:
        UserError: Their vocabularies, or their ways of reading alignments, differ, or only some of
            them copy source words.

    Example:
        >>> Translator(EnsembleFolder([load_folder("runs/a"), load_folder("runs/b")]))
    """

    def __init__(self, folders: Sequence[TrainedModel]) -> None:
        if not folders:
            raise UserError("An ensemble needs at least one model folder.")
        first = folders[0]
        for number, other in enumerate(folders[1:], 2):
            for side in ("source", "target"):
                tokenizers = (getattr(one, f"{side}_tokenizer") for one in (first, other))
                if not same_tokenizer(*tokenizers):
                    raise UserError(
                        f"Models 1 and {number} of the ensemble have different {side} "
                        "vocabularies, so the probabilities of their words cannot be averaged. "
                        "Train them on the same data with the same [tokens]."
                    )
            if other.alignment_row != first.alignment_row:
                raise UserError(
                    f"Models 1 and {number} of the ensemble align words by different rows of "
                    f"attention ({first.alignment_row} and {other.alignment_row})."
                )
            if copies(other.model) != copies(first.model):
                which = (1, number) if copies(first.model) else (number, 1)
                raise UserError(
                    f"Model {which[0]} of the ensemble copies source words and model {which[1]} "
                    "does not, so they give probabilities to different words. Train them with the "
                    "same model.copy."
                )
        self.model = Ensemble([folder.model for folder in folders])
        self.source_tokenizer: Tokenizer = first.source_tokenizer
        self.target_tokenizer: Tokenizer = first.target_tokenizer
        self.alignment_row = first.alignment_row
        self.device = torch.device(first.device)
        self.max_source_length = getattr(first, "max_source_length", 0)
        shortlists = (folder.shortlist for folder in folders)
        # Any of them fits, since all members read and write the same tokens.
        self.shortlist: Shortlist | None = next(filter(None, shortlists), None)


FolderPaths = str | Path | Sequence[str | Path]
"""A model folder, or those of an ensemble."""


def load_folders(
    paths: FolderPaths, device: str = "cpu", *, int8: bool = False
) -> list[ModelFolder]:
    """Read a model folder, or those of an ensemble, see `load_folder`.

    Raises:
        UserError: A folder or the device cannot be used.
    """
    each = [paths] if isinstance(paths, str | Path) else paths
    return [load_folder(path, device, int8=int8) for path in each]


def as_one(folder: TrainedModel | Sequence[TrainedModel]) -> TrainedModel:
    """A folder as it is; of several an ensemble, of a list of one that one.

    Raises:
        UserError: See `EnsembleFolder`.
        TypeError: A path was given.
    """
    if isinstance(folder, str):
        raise TypeError(f"'{folder}' is a path; expected a loaded folder: luong.load('{folder}').")
    if not isinstance(folder, Sequence):
        return folder
    return folder[0] if len(folder) == 1 else EnsembleFolder(folder)


def tabled(model: SearchModel, tables: InputTables) -> Step:
    """The step of a model, or of an ensemble, by the tables of its inputs."""
    if isinstance(model, Ensemble):
        return averaged_step([tables.step(member) for member in model.models])
    return cast(Step, tables.step(model))


def shortlisted(
    model: SearchModel, memory: Any, tokens: Tensor, allowed: Tensor, tables: InputTables
) -> tuple[Step, Any]:
    """A step and a memory that know only the tokens of a shortlist.

    Args:
        model: A `Seq2Seq` or an ensemble of such.
        memory: What its `encode` gave.
        tokens: The candidates' ids (n,), see `candidate_step`.
        allowed: Which of them each sentence may use, bool (B, n).
        tables: Of the models' inputs.
    """
    if isinstance(model, Ensemble):
        pairs = [
            shortlisted(member, value, tokens, allowed, tables)
            for member, value in zip(model.models, memory.values, strict=True)
        ]
        steps, memories = zip(*pairs, strict=True)
        return averaged_step(steps), Members(memories)
    step = candidate_step(cast(Seq2Seq, model), tokens, tables.table(model))
    return step, CandidateMemory(memory, allowed)
