"""How text becomes tokens."""

from __future__ import annotations

from typing import Literal

from pydantic import Field, model_validator

from luong.config.section import Section

TokenKind = Literal["word", "character", "subword", "symbol", "decomposed"]
Algorithm = Literal["unigram", "bpe"]


class TokensConfig(Section):
    """How text becomes tokens."""

    kind: TokenKind = "subword"
    """`symbol`: what stands between spaces, as it is; `decomposed`: the parts of characters, as
    Hangul letters."""
    vocabulary_size: int = Field(8000, ge=5)
    """An upper bound, special tokens included."""
    shared: bool = True
    """One vocabulary for both sides."""
    algorithm: Algorithm = "unigram"
    """How sentencepiece learns its pieces; for `subword` only."""
    minimum_count: int = Field(1, ge=1)
    """Words, characters or symbols seen less often than this are unknown; not for `subword`."""


class SideTokensConfig(Section):
    """What is different on one side of the pairs; what is not set is as in `[tokens]`."""

    kind: TokenKind | None = None
    vocabulary_size: int | None = Field(None, ge=5)
    algorithm: Algorithm | None = None
    minimum_count: int | None = Field(None, ge=1)


class PairTokensConfig(TokensConfig):
    """How the text of both sides of pairs becomes tokens."""

    source: SideTokensConfig = SideTokensConfig()
    target: SideTokensConfig = SideTokensConfig()

    def of(self, side: Literal["source", "target"]) -> TokensConfig:
        """The settings of one side, all of them.

        Example:
            >>> PairTokensConfig(kind="word", shared=False, source={"kind": "character"}).of(
            ...     "source"
            ... ).kind
            'character'
        """
        apart = (self.source if side == "source" else self.target).model_dump(exclude_none=True)
        common = self.model_dump(exclude={"source", "target"})
        return TokensConfig.model_validate({**common, **apart})

    @model_validator(mode="after")
    def _shared_sides_are_equal(self) -> PairTokensConfig:
        source, target = self.of("source"), self.of("target")
        if self.shared and source != target:
            key = next(k for k, v in source.model_dump().items() if v != getattr(target, k))
            raise ValueError(
                f"the source has {key} = {getattr(source, key)!r} and the target "
                f"{getattr(target, key)!r}, but one vocabulary for both sides is asked for: set "
                "tokens.shared = false"
            )
        return self
