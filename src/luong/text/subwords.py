"""Subword pieces as tokens, learnt and found by sentencepiece."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import sentencepiece

from luong.errors import UserError
from luong.files import write_whole
from luong.text.encoding import Encoding, Span
from luong.text.vocabulary import (
    BEGIN,
    CONTROL_IDS,
    END,
    PAD,
    SPECIAL_TOKENS,
    UNKNOWN,
)

_SPACE = "▁"
_UPPER_ONE_EIGHTH = "▅"

# One code point for one, so that spans hold. A "▁" of the text would turn into a space.
_ENCODED = {code: " " for code in range(0x3001) if chr(code).isspace()} | {ord(_SPACE): "_"}
# The trainer drops lines that have its own sign for unknown text.
_TRAINED = _ENCODED | {ord(_UPPER_ONE_EIGHTH): " "}

# The trainer drops lines of more than 4192 bytes, and holds at most so many in memory.
_LINE_CHARACTERS = 1000
_SAMPLED_LINES = 500_000


class SubwordTokenizer:
    """Tokens are pieces of words, of a unigram or BPE model; "▁" in a piece is a space.

    Text is taken as it is, without Unicode normalisation; runs of white space become one space.

    Args:
        model: The bytes of a sentencepiece model whose first ids are the special tokens.

    Raises:
        ValueError: These are not such bytes.

    Example:
        >>> tokenizer = SubwordTokenizer.train(lines, size=8000)
        >>> tokenizer.tokens(tokenizer.encode("unseen words").ids)
        ['▁un', 'seen', '▁words']
    """

    kind = "subword"

    def __init__(self, model: bytes) -> None:
        self._processor = sentencepiece.SentencePieceProcessor()
        try:
            self._processor.LoadFromSerializedProto(model)
        except RuntimeError:
            raise ValueError("this is not a sentencepiece model") from None
        first = range(min(len(SPECIAL_TOKENS), self.size))
        if tuple(self._processor.IdToPiece(id) for id in first) != SPECIAL_TOKENS:
            raise ValueError(f"the model's first pieces are not {', '.join(SPECIAL_TOKENS)}")
        self.model = model

    @classmethod
    def train(cls, lines: Iterable[str], size: int, algorithm: str = "unigram") -> SubwordTokenizer:
        """Learn pieces from lines, in bounded memory; the same lines give the same pieces.

        Args:
            lines: Text to learn from; of more than 500,000 lines, a random sample is used.
            size: The most pieces to learn, special tokens included.
            algorithm: "unigram" or "bpe".

        Raises:
            UserError: `size` is too small for the characters of the text.
        """
        failures: list[Exception] = []
        writer = io.BytesIO()
        sentencepiece.set_random_generator_seed(1)
        try:
            sentencepiece.SentencePieceTrainer.train(
                sentence_iterator=_training_lines(lines, failures),
                model_writer=writer,
                model_type=algorithm,
                vocab_size=size,
                hard_vocab_limit=False,
                normalization_rule_name="identity",
                input_sentence_size=_SAMPLED_LINES,
                shuffle_input_sentence=True,
                # The number of threads changes the order of sums, and so the pieces.
                num_threads=2,
                pad_id=PAD,
                unk_id=UNKNOWN,
                bos_id=BEGIN,
                eos_id=END,
                pad_piece=SPECIAL_TOKENS[PAD],
                unk_piece=SPECIAL_TOKENS[UNKNOWN],
                bos_piece=SPECIAL_TOKENS[BEGIN],
                eos_piece=SPECIAL_TOKENS[END],
                minloglevel=3,
            )
        except RuntimeError as error:
            if failures:
                raise failures[0] from None
            needed = re.search(rf"\b{size} vs (\d+)", str(error))
            if needed is None:
                raise
            raise UserError(
                f"tokens.vocabulary_size = {size} is too small: the characters of the text "
                f"alone need {needed[1]}. Set it to at least that."
            ) from None
        return cls(writer.getvalue())

    @property
    def size(self) -> int:
        """See `Tokenizer.size`."""
        return int(self._processor.GetPieceSize())

    def encode(self, line: str) -> Encoding:
        """See `Tokenizer.encode`; spans leave out spaces, so that of a lone "▁" is empty."""
        text = line.translate(_ENCODED)
        spans: list[Span] = []
        end = 0
        # An unknown piece reads as the text it stands for, so lengths add up to the line.
        for piece in self._processor.encode(text, out_type=str):
            if piece.startswith(_SPACE):
                while text.startswith(" ", end):
                    end += 1
            start, end = end, end + len(piece.removeprefix(_SPACE))
            spans.append((start, end))
        return Encoding(self.ids(line), spans)

    def ids(self, line: str) -> list[int]:
        """See `Tokenizer.ids`; half the work of `encode`."""
        ids: list[int] = self._processor.encode(line.translate(_ENCODED), out_type=int)
        return ids

    def pieces(self, line: str) -> list[str]:
        """See `PieceTokenizer.pieces`; an unknown one is the text it stands for."""
        pieces: list[str] = self._processor.encode(line.translate(_ENCODED), out_type=str)
        return pieces

    def id(self, piece: str) -> int:
        """See `PieceTokenizer.id`."""
        id = int(self._processor.PieceToId(piece))
        # Text that reads like a special token is no such token.
        return UNKNOWN if id in CONTROL_IDS else id

    def _piece(self, id: int, extra: Sequence[str]) -> str:
        """The piece of an id, or of one beyond the vocabulary."""
        piece: str = self._processor.IdToPiece(id) if id < self.size else extra[id - self.size]
        return piece

    def tokens(self, ids: Sequence[int], extra: Sequence[str] = ()) -> list[str]:
        """See `Tokenizer.tokens`; a space is shown as ▁."""
        return [self._piece(id, extra) for id in ids]

    def decode(self, ids: Sequence[int], replacements: Mapping[int, str] | None = None) -> str:
        """See `Tokenizer.decode`."""
        return self.decode_spans(ids, replacements)[0]

    def decode_spans(
        self,
        ids: Sequence[int],
        replacements: Mapping[int, str] | None = None,
        extra: Sequence[str] = (),
    ) -> tuple[str, list[Span]]:
        """See `Tokenizer.decode_spans`; the spans leave out the spaces between words."""
        text = ""
        spans: list[Span] = []
        for position, id in enumerate(ids):
            if id in CONTROL_IDS:
                piece = ""
            elif id == UNKNOWN:
                piece = (replacements or {}).get(position, SPECIAL_TOKENS[UNKNOWN])
            else:
                piece = self._piece(id, extra)
                if piece.startswith(_SPACE):
                    piece = piece.removeprefix(_SPACE)
                    text += " " if text else ""
            spans.append((len(text), len(text) + len(piece)))
            text += piece
        return text, spans

    def save(self, folder: Path, name: str) -> None:
        """See `Tokenizer.save`."""
        write_whole(folder / f"{name}.model", self.model)


def _training_lines(lines: Iterable[str], failures: list[Exception]) -> Iterator[str]:
    """Lines as the trainer takes them; an error on the way is kept, for the trainer hides it."""
    try:
        for line in lines:
            text = line.translate(_TRAINED)
            for start in range(0, len(text), _LINE_CHARACTERS):
                yield text[start : start + _LINE_CHARACTERS]
    except Exception as error:
        failures.append(error)
        raise
