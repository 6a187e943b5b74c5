"""A model folder: settings, weights, tokenizers and a card; saved whole, loaded with checks."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import Any, Generic, cast

import safetensors
import torch
from safetensors.torch import load as load_tensors
from safetensors.torch import save as tensors_to_bytes
from torch import Tensor, nn
from typing_extensions import TypeVar

from luong.card import model_card
from luong.config import AnyConfig, CaptionConfig, ClassifierConfig, RunConfig, parse_config
from luong.errors import UserError
from luong.files import write_whole
from luong.models import CaptionModel, HierarchicalClassifier, Seq2Seq
from luong.models.quantized import is_quantized, quantize, repack
from luong.text.featured import first_feature
from luong.text.shortlist import Shortlist
from luong.text.tokenizers import Tokenizer, load_tokenizers, save_tokenizers

FORMAT = 2
"""The version of the folder's layout; a folder of a newer one is refused.

Version 2 knows int8 weights; a folder without them is written as version 1.
"""

CONFIG, WEIGHTS, CARD = "config.json", "model.safetensors", "README.md"
SHORTLIST = "shortlist.safetensors"

Config = TypeVar("Config", bound=AnyConfig, default=RunConfig)
Model = TypeVar("Model", bound=nn.Module, default=Seq2Seq)


@dataclass(frozen=True)
class ModelFolder(Generic[Config, Model]):
    """A trained model with all that using it needs: a translator, unless types say otherwise.

    Attributes:
        config: The settings of the run that trained it.
        model: The network.
        source_tokenizer: Reads source lines; of captions the same as the other.
        target_tokenizer: Writes target lines, labels or captions.
        alignment_row: "predicted" or "fed": which row of attention aligns a target token.
        scores: What the model reached on the validation data.
        precision: How training multiplied: type, library, and why.
        shortlist: Which target tokens a source is likely to need, if that was learnt.
    """

    config: Config
    model: Model
    source_tokenizer: Tokenizer
    target_tokenizer: Tokenizer
    alignment_row: str = "predicted"
    scores: dict[str, Any] = field(default_factory=dict)
    precision: dict[str, str] = field(default_factory=dict)
    shortlist: Shortlist | None = None

    @property
    def device(self) -> torch.device:
        """Where the network lies."""
        return next(self.model.parameters()).device

    @property
    def max_source_length(self) -> int:
        """Tokens that sources were cut to in training; 0: they were not."""
        return int(getattr(self.config.data, "max_source_length", 0))


AnyFolder = ModelFolder[Any, Any]
ClassifierFolder = ModelFolder[ClassifierConfig, HierarchicalClassifier]
CaptionFolder = ModelFolder[CaptionConfig, CaptionModel]

_KINDS = {"translate": "a translator", "classify": "a classifier", "caption": "a captioner"}
"""What a model of each task is called."""


def save_folder(folder: AnyFolder, path: Path) -> None:
    """Write a model folder; each file is written whole, the settings last.

    Raises:
        UserError: The folder cannot be written.

    Example:
        >>> save_folder(folder, Path("runs/de-en"))
    """
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{path} cannot be made: {error.strerror}.") from None
    save_tokenizers(path, folder.source_tokenizer, folder.target_tokenizer)
    write_whole(path / WEIGHTS, tensors_to_bytes(weights(folder.model)))
    if folder.shortlist:
        write_shortlist(folder.shortlist, path)
    write_whole(path / CARD, model_card(folder, weights(folder.model)).encode())
    write_settings(folder, path)


def write_settings(folder: AnyFolder, path: Path) -> None:
    """Write config.json alone."""
    quantized = is_quantized(folder.model)
    settings = {
        "format": FORMAT if quantized else 1,
        "luong_version": version("luong"),
        "alignment_row": folder.alignment_row,
        "source_vocabulary_size": folder.source_tokenizer.size,
        "target_vocabulary_size": folder.target_tokenizer.size,
        "scores": folder.scores,
        "precision": folder.precision,
        "run": folder.config.model_dump(mode="json", exclude_none=True),
    }
    if quantized:
        settings["weights"] = "int8"
    write_whole(path / CONFIG, json.dumps(settings, indent=2, ensure_ascii=False).encode())


def write_shortlist(shortlist: Shortlist, path: Path) -> None:
    """Write the shortlist of a model folder."""
    arrays = {"frequent": shortlist.frequent, "translations": shortlist.translations}
    tensors = {name: torch.from_numpy(array).contiguous() for name, array in arrays.items()}
    write_whole(path / SHORTLIST, tensors_to_bytes(tensors))


def weights(model: nn.Module) -> dict[str, Tensor]:
    """The parameters of a model, and its weights in int8, by name; shared ones once."""
    named = [*model.named_parameters(), *model.named_buffers()]
    return {name: tensor.detach() for name, tensor in named}


def load_folder(path: str | Path, device: str = "cpu", *, int8: bool = False) -> ModelFolder:
    """Read a model folder.

    Args:
        path: The folder that `luong train` or `luong quantize` wrote.
        device: Where to put the network.
        int8: Put the weights in int8; those of an int8 folder are always.

    Raises:
        UserError: A file is missing, cut short or does not belong to the others, the folder was
            written by a newer version, or the device is not there.

    Example:
        >>> load_folder("runs/de-en").config.source_language
        'de'
    """
    return cast(ModelFolder, _load_folder_of("translate", path, device, int8=int8))


def load_classifier_folder(path: str | Path, device: str = "cpu") -> ClassifierFolder:
    """Read the model folder of a classifier, as `load_folder` does.

    Raises:
        UserError: See `load_folder`; or it is of another task.
    """
    return cast(ClassifierFolder, _load_folder_of("classify", path, device))


def load_caption_folder(path: str | Path, device: str = "cpu") -> CaptionFolder:
    """Read the model folder of a captioner, as `load_folder` does.

    Raises:
        UserError: See `load_folder`; or it is of another task.
    """
    return cast(CaptionFolder, _load_folder_of("caption", path, device))


def _load_folder_of(task: str, path: str | Path, device: str, *, int8: bool = False) -> AnyFolder:
    folder = load_any_folder(path, device, int8=int8)
    found = folder.config.task
    if found != task:
        raise UserError(
            f"{path} is {_KINDS[found]}, not {_KINDS[task]}. Use `luong {found}` with it."
        )
    return folder


def load_any_folder(path: str | Path, device: str = "cpu", *, int8: bool = False) -> AnyFolder:
    """Read the model folder of any task, as `load_folder` does; `config.task` says which it is.

    Raises:
        UserError: See `load_folder`; or what is no translator is asked for in int8.
    """
    path = Path(path)
    settings = read_settings(path)
    config = parse_config(settings["run"], str(path / CONFIG))
    source_tokenizer, target_tokenizer = load_tokenizers(path)
    sizes = (source_tokenizer.size, target_tokenizer.size)
    expected = (settings["source_vocabulary_size"], settings["target_vocabulary_size"])
    if sizes != expected:
        raise UserError(
            f"The tokenizers in {path} have {sizes} tokens, but {CONFIG} names {expected}: the "
            "files do not belong together. Copy the whole folder again."
        )
    if int8 and config.task != "translate":
        raise UserError(f"{path} is {_KINDS[config.task]}, and only translators have int8 weights.")
    model: nn.Module
    if isinstance(config, ClassifierConfig):
        model = HierarchicalClassifier(config.model, *sizes)
    elif isinstance(config, CaptionConfig):
        model = CaptionModel(config.model, sizes[1])
    else:
        model = Seq2Seq(config.model, *sizes, first_feature=first_feature(source_tokenizer))
    if holds_int8(settings):
        quantize(model)
    load_weights(model, read_tensors(path / WEIGHTS), path / WEIGHTS)
    if int8:
        quantize(model)
    try:
        model.eval().to(device)
    except (RuntimeError, AssertionError) as error:
        reason = str(error).splitlines()[0]
        raise UserError(
            f"Device '{device}' cannot be used: {reason} Use 'cpu' or 'cuda'."
        ) from None
    repack(model)
    return ModelFolder(
        config,
        model,
        source_tokenizer,
        target_tokenizer,
        settings["alignment_row"],
        settings["scores"],
        settings.get("precision", {}),
        _read_shortlist(path, *sizes),
    )


def refuse_int8(path: Path) -> None:
    """Refuse a folder whose weights are in int8, for what needs those in float32.

    Raises:
        UserError: It is one.
    """
    if (path / CONFIG).exists() and holds_int8(read_settings(path)):
        raise UserError(
            f"{path} holds int8 weights, which can only be used for inference: they cannot be "
            "trained or quantised again. Name the folder that `luong train` wrote."
        )


def holds_int8(settings: dict[str, Any]) -> bool:
    """Whether the settings of a folder say that its weights are in int8."""
    return settings.get("weights") == "int8"


def _read_shortlist(path: Path, source_size: int, target_size: int) -> Shortlist | None:
    file = path / SHORTLIST
    if not file.exists():
        return None
    tensors = read_tensors(file)
    fits = tensors.keys() == {"frequent", "translations"} and all(
        tensor.dtype == torch.int32 and 0 <= tensor.min() <= tensor.max() < target_size
        for tensor in tensors.values()
        if tensor.numel()
    )
    if not fits or tensors["translations"].shape[0] != source_size:
        raise UserError(
            f"{file} does not fit its {CONFIG}. Make it again with `luong shortlist {path}`."
        )
    return Shortlist(tensors["frequent"].numpy(), tensors["translations"].numpy())


def read_tensors(path: Path) -> dict[str, Tensor]:
    """Read a safetensors file.

    Raises:
        UserError: The file is missing or cut short.
    """
    try:
        return load_tensors(path.read_bytes())
    except FileNotFoundError:
        raise UserError(
            f"{path} is missing: training has not reached its first validation, or the folder "
            "was not copied whole."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except safetensors.SafetensorError as error:
        raise UserError(
            f"{path} is cut short or damaged ({error}). Copy it again, or train again."
        ) from None


def load_weights(model: nn.Module, tensors: dict[str, Tensor], source: Path) -> None:
    """Put tensors into a model's parameters, all of them and no others.

    Raises:
        UserError: Names or shapes differ from the model's.
    """
    parameters = weights(model)
    wrong = sorted(parameters.keys() ^ tensors.keys())
    wrong += [
        name
        for name, parameter in parameters.items()
        if name in tensors
        and (tensors[name].shape, tensors[name].dtype) != (parameter.shape, parameter.dtype)
    ]
    if wrong:
        raise UserError(
            f"{source} does not fit its {CONFIG}: {len(wrong)} tensors differ, {wrong[0]} among "
            "them. The files do not belong together; copy the whole folder again."
        )
    for name, parameter in parameters.items():
        parameter.copy_(tensors[name])


def read_settings(path: Path) -> dict[str, Any]:
    """Read config.json of a model folder.

    Raises:
        UserError: It is missing, damaged, or of a newer version.
    """
    file = path / CONFIG
    try:
        settings: dict[str, Any] = json.loads(file.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UserError(
            f"{path} is not a model folder: it has no {CONFIG}. Name the folder that "
            "`luong train` wrote."
        ) from None
    except OSError as error:
        raise UserError(f"{file} cannot be read: {error.strerror}.") from None
    except ValueError as error:
        raise UserError(f"{file} is damaged: {error}. Copy the folder again.") from None
    written = settings.get("format") if isinstance(settings, dict) else None
    if not isinstance(written, int):
        raise UserError(f"{file} is not the settings of a luong model: it names no format.")
    if written > FORMAT:
        raise UserError(
            f"{path} was written by a newer luong ({settings.get('luong_version')}, format "
            f"{written}); this one ({version('luong')}) reads up to format {FORMAT}. "
            "Upgrade with: pip install --upgrade luong"
        )
    missing = {
        "run",
        "alignment_row",
        "scores",
        "source_vocabulary_size",
        "target_vocabulary_size",
    } - settings.keys()
    if missing:
        raise UserError(f"{file} lacks {', '.join(sorted(missing))}. Copy the folder again.")
    return settings
