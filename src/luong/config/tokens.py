"""How text becomes tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field

from luong.config.section import Section


class TokensConfig(Section):
    """How text becomes tokens."""

    kind: Literal["word", "character", "subword"] = "subword"
    vocabulary_size: int = Field(8000, ge=5)
    """An upper bound, special tokens included."""
    shared: bool = True
    """One vocabulary for both sides."""
    algorithm: Literal["unigram", "bpe"] = "unigram"
    """How sentencepiece learns its pieces; for `subword` only."""
    minimum_count: int = Field(1, ge=1)
    """Words or characters seen less often than this are unknown; not for `subword`."""
