"""The tokenizers of a translator: learning, saving and loading the two sides."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from itertools import chain
from pathlib import Path
from typing import cast

from luong.config import PairTokensConfig, TokensConfig
from luong.errors import UserError
from luong.text.characters import CharacterTokenizer
from luong.text.decomposed import DecomposedTokenizer
from luong.text.encoding import Encoding, PieceTokenizer, Span, Tokenizer
from luong.text.featured import TAB, FeaturedTokenizer, features_of
from luong.text.labels import Labels
from luong.text.subwords import SubwordTokenizer
from luong.text.symbols import SymbolTokenizer
from luong.text.vocabulary import Vocabulary
from luong.text.words import WordTokenizer

__all__ = [
    "CharacterTokenizer",
    "DecomposedTokenizer",
    "Encoding",
    "FeaturedTokenizer",
    "PieceTokenizer",
    "Span",
    "SubwordTokenizer",
    "SymbolTokenizer",
    "Tokenizer",
    "WordTokenizer",
    "load_tokenizer",
    "load_tokenizers",
    "same_tokenizer",
    "save_tokenizers",
    "train_tokenizer",
    "train_tokenizers",
]

_BY_KIND: dict[str, type[WordTokenizer] | type[CharacterTokenizer]] = {
    tokenizer.kind: tokenizer
    for tokenizer in (WordTokenizer, CharacterTokenizer, DecomposedTokenizer, SymbolTokenizer)
}
"""Those that have nothing but a vocabulary."""

Lines = Callable[[], Iterable[str]]
"""Starts a new pass over the lines of a text."""

SHARED, SOURCE, TARGET = "tokenizer", "source", "target"
"""The names, without ending, of tokenizer files in a folder."""


def train_tokenizers(
    tokens: PairTokensConfig,
    source_lines: Lines,
    target_lines: Lines,
    feature_separator: str | None = None,
) -> tuple[Tokenizer, Tokenizer]:
    """Learn the tokenizers of both sides.

    Args:
        tokens: The kind and size of each side, and whether both share one vocabulary.
        source_lines: Gives the source side of the corpus, anew with each call.
        target_lines: Gives the target side.
        feature_separator: What parts the features that follow a tab in source lines; None where
            there are none.

    Returns:
        The source's and the target's tokenizer; one object twice if they are shared.

    Raises:
        UserError: There is no text to learn from, or the vocabulary cannot hold its characters.

    Example:
        >>> source, target = train_tokenizers(
        ...     config.tokens, corpus.source_lines, corpus.target_lines
        ... )
    """
    if tokens.shared:
        lines = chain(source_lines(), target_lines())
        shared = train_tokenizer(tokens.of("source"), lines, "corpus")
        return shared, shared
    if feature_separator is not None:
        words = (line.partition(TAB)[0] for line in source_lines())
        source = train_tokenizer(tokens.of("source"), words, "source side of the corpus")
        features = features_of(source_lines(), feature_separator)
        # The settings of a run refuse features of subwords.
        base = cast(WordTokenizer | CharacterTokenizer, source)
        source = FeaturedTokenizer(base, features, feature_separator)
    else:
        source = train_tokenizer(tokens.of("source"), source_lines(), "source side of the corpus")
    return (
        source,
        train_tokenizer(tokens.of("target"), target_lines(), "target side of the corpus"),
    )


def train_tokenizer(tokens: TokensConfig, lines: Iterable[str], name: str) -> Tokenizer:
    """Learn one tokenizer from lines; their name is for messages.

    Raises:
        UserError: There is no text to learn from, or the vocabulary cannot hold its characters.
    """
    written = (line for line in lines if line and not line.isspace())
    first = next(written, None)
    if first is None:
        raise UserError(f"The {name} has only blank lines: there is no text to learn tokens from.")
    text = chain([first], written)
    if tokens.kind in _BY_KIND:
        kind = _BY_KIND[tokens.kind]
        return kind.train(text, tokens.vocabulary_size, tokens.minimum_count)
    return SubwordTokenizer.train(text, tokens.vocabulary_size, tokens.algorithm)


def save_tokenizers(folder: Path, source: Tokenizer, target: Tokenizer) -> None:
    """Write both tokenizers into a folder, each file whole.

    A shared tokenizer is `tokenizer.json` or `.model`; others are `source.*` and `target.*`.
    Tokenizer files that another kind left there are removed.

    Raises:
        UserError: A file cannot be written.
    """
    named = {SHARED: source} if source is target else {SOURCE: source, TARGET: target}
    for name, tokenizer in named.items():
        tokenizer.save(folder, name)
    for name in (SHARED, SOURCE, TARGET):
        for ending in (".json", ".model"):
            is_subword = ending == ".model"
            if name not in named or is_subword != (named[name].kind == "subword"):
                (folder / f"{name}{ending}").unlink(missing_ok=True)


def load_tokenizers(folder: Path) -> tuple[Tokenizer, Tokenizer]:
    """Read the tokenizers that `save_tokenizers` wrote.

    Returns:
        The source's and the target's tokenizer; one object twice if they are shared.

    Raises:
        UserError: A file is missing or cannot be read.
    """
    if any((folder / f"{SHARED}{ending}").exists() for ending in (".json", ".model")):
        shared = load_tokenizer(folder, SHARED)
        return shared, shared
    return load_tokenizer(folder, SOURCE), load_tokenizer(folder, TARGET)


def load_tokenizer(folder: Path, name: str) -> Tokenizer:
    """Read the tokenizer that `Tokenizer.save` wrote under a name.

    Raises:
        UserError: The file is missing, cut short, or of something else.
    """
    path = folder / f"{name}.model"
    if not path.exists():
        path = folder / f"{name}.json"
    try:
        data = path.read_bytes()
        if path.suffix == ".model":
            return SubwordTokenizer(data)
        document = json.loads(data)
        if not isinstance(document, dict):
            raise ValueError("expected an object")
        if document.get("kind") == Labels.kind:
            return Labels.from_json(document.get("tokens"))
        vocabulary = Vocabulary.from_json(document.get("tokens"))
        if document.get("kind") == FeaturedTokenizer.kind:
            return FeaturedTokenizer(
                _BY_KIND[document["base"]](vocabulary), document["features"], document["separator"]
            )
        if document.get("kind") in _BY_KIND:
            return _BY_KIND[document["kind"]](vocabulary)
        raise ValueError(f"its kind, {document.get('kind')!r}, is not one of {', '.join(_BY_KIND)}")
    except FileNotFoundError:
        raise UserError(
            f"{folder} has no tokenizer {name}.json or {name}.model: it is not a model folder, "
            "or its training stopped before it was saved. Train it again or name another folder."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}.") from None
    except (ValueError, KeyError) as error:
        raise UserError(
            f"{path} is not a tokenizer of luong: {error}. Copy the folder again, or train again."
        ) from None


def same_tokenizer(first: Tokenizer, second: Tokenizer) -> bool:
    """Whether two tokenizers give every line the same ids, and every id the same text."""
    if isinstance(first, SubwordTokenizer) and isinstance(second, SubwordTokenizer):
        return first.model == second.model
    if isinstance(first, FeaturedTokenizer) and isinstance(second, FeaturedTokenizer):
        equal = (first.features, first.separator) == (second.features, second.separator)
        return equal and same_tokenizer(first.base, second.base)
    for kind in _BY_KIND.values():
        if type(first) is kind and type(second) is kind:
            return first.vocabulary.to_json() == second.vocabulary.to_json()
    return first is second
