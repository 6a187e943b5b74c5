"""Embeddings that others have trained, in the text formats of word2vec and GloVe."""

from __future__ import annotations

from pathlib import Path

import torch
from torch import Tensor

from luong.errors import UserError
from luong.text.corpus import LineFile
from luong.text.encoding import Tokenizer
from luong.text.vocabulary import SPECIAL_TOKENS


def read_pretrained(path: Path, tokenizer: Tokenizer, size: int) -> dict[int, Tensor]:
    """The vectors of a vocabulary's words, as far as a file has them.

    Each line is a word and its numbers, separated by spaces; a first line of two numbers, as
    word2vec writes it, is passed over. A word that the file lacks takes the vector of its small
    letters.

    Args:
        path: The file, unpacked.
        tokenizer: Its tokens are the words.
        size: Numbers of a vector.

    Returns:
        Vectors (size,) by token id.

    Raises:
        UserError: The file cannot be read, or a line has another number of numbers.

    Example:
        >>> vectors = read_pretrained(Path("glove.6B.100d.txt"), tokenizer, 100)
    """
    ids: dict[str, list[int]] = {}
    small: dict[str, list[int]] = {}
    for id in range(len(SPECIAL_TOKENS), tokenizer.size):
        (token,) = tokenizer.tokens([id])
        ids.setdefault(token, []).append(id)
        small.setdefault(token.lower(), []).append(id)
    exact: dict[int, Tensor] = {}
    approximate: dict[int, Tensor] = {}
    for number, line in enumerate(LineFile(path), 1):
        word, _, rest = line.rstrip().partition(" ")
        if number == 1 and word.isdigit() and rest.isdigit():
            continue
        wanted = ids.get(word, []), small.get(word, [])
        if not any(wanted):
            continue
        try:
            vector = torch.tensor([float(value) for value in rest.split(" ")])
        except ValueError:
            raise UserError(
                f"{path}, line {number}: expected a word and numbers, separated by spaces."
            ) from None
        if len(vector) != size:
            raise UserError(
                f"{path}, line {number} has {len(vector)} numbers, but model.embedding_size is "
                f"{size}. Set it to {len(vector)}, or name another file."
            )
        exact |= dict.fromkeys(wanted[0], vector)
        approximate |= dict.fromkeys(wanted[1], vector)
    return approximate | exact
