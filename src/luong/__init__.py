"""Attention for sequences: layers, and a trainer, translator and evaluator built on them.

Names are loaded when they are first used, so that `import luong` is instant.

Example:
    >>> import luong
    >>> luong.load("runs/de-en").translate("ein Hund").text
    'a dog'
"""

from __future__ import annotations

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from luong.attention import Attention, LearnedQueryAttention, SelfAttention, attend
    from luong.errors import UserError
    from luong.search import Translation, Translator, TranslatorPool

__all__ = [
    "Attention",
    "LearnedQueryAttention",
    "SelfAttention",
    "Translation",
    "Translator",
    "TranslatorPool",
    "UserError",
    "attend",
    "load",
]

_HOMES = {
    "Attention": "luong.attention",
    "LearnedQueryAttention": "luong.attention",
    "SelfAttention": "luong.attention",
    "attend": "luong.attention",
    "Translation": "luong.search",
    "Translator": "luong.search",
    "TranslatorPool": "luong.search",
    "UserError": "luong.errors",
}


def load(
    folder: str | Path | Sequence[str | Path], *, device: str = "cpu", int8: bool = False
) -> Translator:
    """Open a model folder for translation, or several as an ensemble.

    Args:
        folder: What `luong train` or `luong quantize` wrote; a list of folders averages the
            probabilities of their models, which need the same vocabularies.
        device: Where to compute: "cpu", "cuda", ...
        int8: Put the weights in int8: faster on CPUs, and nearly as good.

    Returns:
        A translator; `.translate(text_or_list)` gives results with `.text`, `.score`, `.tokens`,
        `.alignment` and `.attention`.

    Raises:
        UserError: A folder is incomplete, damaged, or of a newer version, or those of an ensemble
            have different vocabularies.

    Example:
        >>> luong.load(["runs/a", "runs/b"]).translate("ein Hund").text
        'a dog'
    """
    from luong.search import Translator, load_folders

    return Translator(load_folders(folder, device, int8=int8))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("luong")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'luong' has no attribute '{name}'")
