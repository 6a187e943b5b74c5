"""Captions of pictures with a trained model: the beam search of translators over a grid."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import NamedTuple, overload

import numpy as np
import torch

from luong.folder import CaptionFolder
from luong.pictures import CaptionCorpus, fitted, normalized, read_picture
from luong.pictures.loader import Picture
from luong.search.beam import Hypothesis, beam_search
from luong.search.caption import Caption
from luong.search.input_tables import InputTables
from luong.search.splitting import search_split
from luong.search.trained import evaluating
from luong.text.vocabulary import BEGIN, PAD, UNKNOWN

_BATCH = 32
_LINE_BREAK = re.compile("[\r\n]")


class NamedPicture(NamedTuple):
    """A picture as the model reads it (size, size, 3), and its name for the result."""

    name: str
    picture: Picture


class Captioner:
    """Writes captions of pictures with a model folder.

    Args:
        folder: A loaded folder of the task `caption`.

    Example:
        >>> captioner = Captioner(load_caption_folder("runs/captions"))
        >>> captioner.caption("dog.png").text
        'a dog on a beach'
    """

    def __init__(self, folder: CaptionFolder) -> None:
        self.folder = folder
        self._tables = InputTables()

    @overload
    def caption(  # type: ignore[overload-overlap]
        self, picture: str | Path | Picture, *, beam_size: int = 5
    ) -> Caption: ...
    @overload
    def caption(
        self, picture: Sequence[str | Path | Picture], *, beam_size: int = 5
    ) -> list[Caption]: ...
    def caption(
        self,
        picture: str | Path | Picture | Sequence[str | Path | Picture],
        *,
        beam_size: int = 5,
    ) -> Caption | list[Caption]:
        """Write the caption of a picture, or of each in a list.

        Args:
            picture: A file, or RGB (height, width, 3) uint8.
            beam_size: Hypotheses kept a picture.

        Raises:
            UserError: A file holds no picture that can be read.
            ValueError: An array is no picture.
        """
        if isinstance(picture, str | Path | np.ndarray):
            return next(self.caption_pictures([self.read(picture)], beam_size=beam_size))
        return list(self.caption_pictures(map(self.read, picture), beam_size=beam_size))

    def read(self, picture: str | Path | Picture) -> NamedPicture:
        """Make a picture fit for the model.

        Raises:
            UserError: A file holds no picture that can be read.
            ValueError: An array is no picture.
        """
        size = self.folder.config.data.picture_size
        if not isinstance(picture, np.ndarray):
            return NamedPicture(str(picture), read_picture(picture, size))
        if picture.dtype != np.uint8 or picture.ndim != 3 or picture.shape[2] != 3:
            raise ValueError(
                f"a picture is uint8 of shape (height, width, 3), not {picture.dtype} of "
                f"{picture.shape}"
            )
        return NamedPicture("", fitted(picture, size))

    def caption_pictures(
        self, pictures: Iterable[NamedPicture], *, beam_size: int = 5
    ) -> Iterator[Caption]:
        """Write captions of any number of pictures, in bounded memory and in their order.

        Raises:
            UserError: The model gives NaN, or one picture alone does not fit in memory.
        """
        remaining = iter(pictures)
        while some := list(islice(remaining, _BATCH)):
            yield from self._captions(some, beam_size)

    def caption_corpus(self, corpus: CaptionCorpus, *, beam_size: int = 5) -> list[Caption]:
        """Write captions of all pictures of a corpus, in its order."""
        pictures = map(NamedPicture, corpus.names, corpus.pictures)
        return list(self.caption_pictures(pictures, beam_size=beam_size))

    def _captions(self, batch: list[NamedPicture], beam_size: int) -> list[Caption]:
        def search(some: Sequence[NamedPicture]) -> list[list[Hypothesis]]:
            return self._search(some, beam_size)

        def too_large(_: NamedPicture) -> str:
            return f"A picture does not fit in the memory of {self.folder.device}. Lower beam_size."

        found = search_split(search, batch, too_large)
        return [self._result(*pair) for pair in zip(batch, found, strict=True)]

    def _search(self, batch: Sequence[NamedPicture], beam_size: int) -> list[list[Hypothesis]]:
        folder, data = self.folder, self.folder.config.data
        model, device = folder.model, folder.device
        rows, columns = folder.config.grid
        cells = torch.full((len(batch),), rows * columns, device=device)
        stacked = np.stack([picture for _, picture in batch])
        source = normalized(stacked, data.mean, data.spread).to(device)
        with torch.inference_mode(), torch.autocast(device.type, enabled=False), evaluating(model):
            memory, state = model.encode(source, cells)
            return beam_search(
                self._tables.step(model),
                state,
                memory,
                beam_size=beam_size,
                max_lengths=torch.full_like(cells, data.max_length),
                # There is no source word to put in the place of an unknown one.
                never=(PAD, BEGIN, UNKNOWN),
            )

    def _result(self, source: NamedPicture, hypotheses: list[Hypothesis]) -> Caption:
        best, tokenizer = hypotheses[0], self.folder.target_tokenizer
        attention = best.attention[:-1].to("cpu", torch.float32, copy=True)
        return Caption(
            source=source.name,
            text=_LINE_BREAK.sub(" ", tokenizer.decode(best.ids)),
            score=best.score,
            words=tokenizer.tokens(best.ids),
            attention=attention.view(-1, *self.folder.config.grid),
            picture=source.picture,
        )
