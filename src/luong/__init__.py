"""Attention for sequences: layers, and translators, classifiers and captioners built on them.

Names are loaded when they are first used, so that `import luong` is instant.

Example:
    >>> import luong
    >>> luong.load("runs/de-en").translate("ein Hund").text
    'a dog'
"""

from __future__ import annotations

import importlib
import importlib.metadata
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

    from luong.attention import Attention, LearnedQueryAttention, SelfAttention, attend
    from luong.classification import Classification, Classifier
    from luong.errors import UserError
    from luong.search import Caption, Captioner, Translation, Translator, TranslatorPool

__all__ = [
    "Attention",
    "Caption",
    "Captioner",
    "Classification",
    "Classifier",
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
    "Caption": "luong.search",
    "Captioner": "luong.search",
    "Classification": "luong.classification",
    "Classifier": "luong.classification",
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
) -> Any:
    """Open a model folder for use, or several translators as an ensemble.

    Args:
        folder: What `luong train` or `luong quantize` wrote; a list of folders averages the
            probabilities of their models, which need the same vocabularies.
        device: Where to compute: "cpu", "cuda", ...
        int8: Put the weights of a translator in int8: faster on CPUs, and nearly as good.

    Returns:
        Of a folder of translation a translator; `.translate(text_or_list)` gives results with
        `.text`, `.score`, `.tokens`, `.alignment` and `.attention`. Of a folder of classification
        a classifier; `.classify(text_or_list)` gives results with `.label`, `.probability`,
        `.probabilities` and `.sentences`. Of a folder of captions a captioner;
        `.caption(picture_or_list)` gives results with `.text`, `.words` and `.attention`.

    Raises:
        UserError: A folder is incomplete, damaged, or of a newer version, or those of an ensemble
            have different vocabularies.

    Example:
        >>> luong.load(["runs/a", "runs/b"]).translate("ein Hund").text
        'a dog'
    """
    from luong.search import Translator, load_folders

    if isinstance(folder, str | Path):
        from luong.folder import load_any_folder

        opened = load_any_folder(folder, device, int8=int8)
        if opened.config.task == "classify":
            from luong.classification import Classifier

            return Classifier(opened)
        if opened.config.task == "caption":
            from luong.search import Captioner

            return Captioner(opened)
        return Translator(opened)
    return Translator(load_folders(folder, device, int8=int8))


def __getattr__(name: str) -> Any:
    if name == "__version__":
        return importlib.metadata.version("luong")
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name]), name)
    raise AttributeError(f"module 'luong' has no attribute '{name}'")
