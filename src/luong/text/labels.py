"""The labels of a classifier, which stand where a translator has its target tokens."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from luong.files import write_whole
from luong.text.encoding import Encoding, Span


class Labels:
    """An immutable numbering of labels from 0 on: a tokenizer whose only token is the whole line.

    Args:
        names: The labels in the order of their ids.

    Raises:
        ValueError: A label comes twice.

    Example:
        >>> labels = Labels(["negative", "positive"])
        >>> labels.ids("positive"), labels.decode([0])
        ([1], 'negative')
    """

    kind = "label"

    def __init__(self, names: Sequence[str]) -> None:
        self.names = tuple(names)
        self._ids = {name: id for id, name in enumerate(self.names)}
        if len(self._ids) != len(self.names):
            raise ValueError("a label comes twice")

    @property
    def size(self) -> int:
        """How many labels there are."""
        return len(self.names)

    def __contains__(self, name: str) -> bool:
        return name in self._ids

    def ids(self, line: str) -> list[int]:
        """The id of a label; a KeyError if there is no such label."""
        return [self._ids[line]]

    def encode(self, line: str) -> Encoding:
        """See `Tokenizer.encode`."""
        return Encoding(self.ids(line), [(0, len(line))])

    def tokens(self, ids: Sequence[int]) -> list[str]:
        """The labels of ids."""
        return [self.names[id] for id in ids]

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """The labels of ids, separated by commas."""
        return self.decode_spans(ids, replacements)[0]

    def decode_spans(
        self, ids: Sequence[int], replacements: Mapping[int, str] | None = None
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`; no label is unknown, so nothing is replaced."""
        text = ""
        spans: list[Span] = []
        for name in self.tokens(ids):
            text += "," if spans else ""
            spans.append((len(text), len(text) + len(name)))
            text += name
        return text, spans

    def save(self, folder: Path, name: str) -> None:
        """See `Tokenizer.save`."""
        document = {"kind": self.kind, "tokens": list(self.names)}
        data = json.dumps(document, ensure_ascii=False, indent=0)
        write_whole(folder / f"{name}.json", data.encode())

    @classmethod
    def from_json(cls, names: object) -> Labels:
        """The labels that `save` wrote under "tokens".

        Raises:
            ValueError: This is not a list of texts, each once.
        """
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
            raise ValueError("expected a list of labels")
        return cls(names)
