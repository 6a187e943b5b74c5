"""Reading settings: TOML in, overrides `a.b=c`, all mistakes at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, get_args

from pydantic import BaseModel, ValidationError

from luong.config.captions import CaptionConfig
from luong.config.classification import ClassifierConfig
from luong.config.translation import RunConfig
from luong.errors import UserError, nearest

AnyConfig = RunConfig | ClassifierConfig | CaptionConfig
TASKS: dict[str, type[RunConfig] | type[ClassifierConfig] | type[CaptionConfig]] = {
    "translate": RunConfig,
    "classify": ClassifierConfig,
    "caption": CaptionConfig,
}


def load_config(path: str | Path, overrides: list[str] | None = None) -> AnyConfig:
    """Read a run's settings from a TOML file and apply overrides.

    Args:
        path: The TOML file.
        overrides: Settings as `section.key=value`; the value is TOML, or else a plain string.

    Returns:
        The settings, checked.

    Raises:
        UserError: The file is missing or not TOML, or keys are unknown or of a wrong type; all
            such mistakes are named at once.
    """
    path = Path(path)
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist. `luong init > {path}` writes a file to start from."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Name a TOML file.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}.") from None
    for override in overrides or []:
        _apply(table, override)
    return parse_config(table, str(path))


def parse_config(table: dict[str, Any], name: str = "the settings") -> AnyConfig:
    """Check a nested table of settings, as `load_config` does.

    Raises:
        UserError: Every unknown key and wrong value, with its path and the nearest known key.
    """
    task = table.get("task", "translate")
    if not isinstance(task, str) or task not in TASKS:
        raise UserError(f"{name}: task = {task!r} is not known.{nearest(str(task), TASKS)}")
    try:
        return TASKS[task].model_validate(table)
    except ValidationError as error:
        complaints = [_complaint(dict(item), TASKS[task]) for item in error.errors()]
        raise UserError(f"{name}: " + " ".join(complaints)) from None


def _apply(table: dict[str, Any], override: str) -> None:
    """Put one `a.b=value` into a nested table."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {override}: expected section.key=value, as in training.seed=2.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *sections, last = key.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override}: {section} is a value, not a section.")
    table[last] = value


def _section_at(location: tuple[Any, ...], model: type[BaseModel]) -> type[BaseModel] | None:
    """The settings model that holds the key at a path, if the path leads to one."""
    for part in location[:-1]:
        field = model.model_fields.get(str(part))
        if field is None:
            return None
        types = (field.annotation, *get_args(field.annotation))
        found = [t for t in types if isinstance(t, type) and issubclass(t, BaseModel)]
        if not found:
            return None
        model = found[0]
    return model


def _complaint(item: dict[str, Any], run: type[BaseModel]) -> str:
    """One sentence for one pydantic error."""
    location = tuple(item["loc"])
    path = ".".join(map(str, location))
    if item["type"] == "extra_forbidden":
        model = _section_at(location, run)
        hint = nearest(str(location[-1]), model.model_fields if model else [])
        return f"{path} is not a known key.{hint}"
    if item["type"] == "missing":
        return f"{path} is missing."
    if item["type"] == "value_error":
        message = str(item["ctx"]["error"])
        return f"{path}: {message}." if path else f"{message}."
    hint = ""
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        model = _section_at(location, run)
        field = model.model_fields.get(str(location[-1])) if model else None
        hint = nearest(item["input"], get_args(field.annotation)) if field else ""
    message = item["msg"][0].lower() + item["msg"][1:]
    return f"{path} = {item['input']!r}: {message}.{hint}"
