"""The vocabulary: tokens and their ids."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

PAD, UNKNOWN, BEGIN, END = 0, 1, 2, 3
SPECIAL_TOKENS = ("<pad>", "<unk>", "<s>", "</s>")
"""The tokens of ids 0 to 3, in every vocabulary."""

CONTROL_IDS = frozenset((PAD, BEGIN, END))
"""Ids that stand for no text."""


class Vocabulary:
    """An immutable numbering of tokens; the special tokens come first.

    Args:
        tokens: All tokens in the order of their ids, the special ones included.

    Raises:
        ValueError: The list does not start with the special tokens, or a token comes twice.

    Example:
        >>> vocabulary = Vocabulary.build({"cat": 2, "a": 5})
        >>> vocabulary.id("a"), vocabulary.id("dog"), vocabulary.token(5)
        (4, 1, 'cat')
    """

    def __init__(self, tokens: Sequence[str]) -> None:
        if tuple(tokens[: len(SPECIAL_TOKENS)]) != SPECIAL_TOKENS:
            raise ValueError(f"a vocabulary starts with {', '.join(SPECIAL_TOKENS)}")
        self._tokens = tuple(tokens)
        self._ids = {token: index for index, token in enumerate(self._tokens)}
        if len(self._ids) != len(self._tokens):
            raise ValueError("a token comes twice in the vocabulary")

    @classmethod
    def build(
        cls, counts: Mapping[str, int], size: int | None = None, minimum_count: int = 1
    ) -> Vocabulary:
        """Number the most frequent tokens; equally frequent ones in the order of their text.

        Args:
            counts: How often each token was seen.
            size: The most tokens to keep, special ones included; None: all.
            minimum_count: Tokens seen less often are left out.

        Returns:
            The special tokens, then the others by falling frequency.
        """
        known = [
            token
            for token, count in counts.items()
            if count >= minimum_count and token not in SPECIAL_TOKENS
        ]
        known.sort(key=lambda token: (-counts[token], token))
        return cls([*SPECIAL_TOKENS, *known][:size])

    def __len__(self) -> int:
        return len(self._tokens)

    def id(self, token: str) -> int:
        """The id of a token; `UNKNOWN` if the vocabulary has no such token."""
        return self._ids.get(token, UNKNOWN)

    def token(self, id: int, extra: Sequence[str] = ()) -> str:
        """The token of an id.

        Args:
            id: From 0 on.
            extra: The tokens of the ids from the size on, see `luong.text.copying`.

        Raises:
            ValueError: The id is negative, or neither the vocabulary nor `extra` has it.
        """
        known = len(self._tokens)
        if not 0 <= id < known + len(extra):
            raise ValueError(f"id {id} is not in a vocabulary of {known} tokens")
        return self._tokens[id] if id < known else extra[id - known]

    def to_json(self) -> list[str]:
        """All tokens in the order of their ids."""
        return list(self._tokens)

    @classmethod
    def from_json(cls, tokens: object) -> Vocabulary:
        """The vocabulary that `to_json` wrote.

        Raises:
            ValueError: This is not a list of tokens with the special ones first, each once.
        """
        if not isinstance(tokens, list) or not all(isinstance(token, str) for token in tokens):
            raise ValueError("expected a list of tokens")
        return cls(tokens)
