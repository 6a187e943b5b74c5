"""Translating lines of text with a trained model: one output per line, whatever the line is."""

from __future__ import annotations

import re
from collections.abc import Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from typing import Any, Literal, Unpack, overload

import torch
from torch import Tensor

from luong.errors import UserError
from luong.search.beam import Hypothesis, beam_search
from luong.search.chunks import Source, batch_places, read_chunks
from luong.search.copying import encode, read_copies, refuse_shortlist, stretches
from luong.search.ensemble import as_one, shortlisted, tabled
from luong.search.input_tables import InputTables
from luong.search.links import aligned_rows, word_links
from luong.search.settings import SearchOptions, SearchSettings
from luong.search.splitting import search_split
from luong.search.trained import TrainedModel, evaluating
from luong.search.translation import Translation, blank_translation
from luong.text.batches import padded
from luong.text.copying import Copies
from luong.text.featured import first_feature
from luong.text.vocabulary import END, SPECIAL_TOKENS, UNKNOWN

_LINE_BREAK = re.compile("[\r\n]")


class Translator:
    """Translates lines with a model folder, or with several as an ensemble.

    Results keep the order of the lines, one for each line, whatever the batch size. Blank lines,
    and lines without a single token, are not shown to the model and become empty translations.

    Args:
        folder: A loaded model folder, or anything with its `model`, `source_tokenizer`,
            `target_tokenizer`, `alignment_row` and `device`; or a list of such, whose
            probabilities are averaged.

    Raises:
        UserError: The folders of an ensemble have different vocabularies.

    Example:
        >>> translator = Translator(load_folder("runs/de-en"))
        >>> translator.translate("ein Hund").text
        'a dog'
    """

    def __init__(self, folder: TrainedModel | Sequence[TrainedModel]) -> None:
        self.folder = as_one(folder)
        self._tables = InputTables()

    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: str, *, n_best: Literal[1] = 1, **options: Unpack[SearchOptions]
    ) -> Translation: ...
    @overload
    def translate(
        self, text: str, *, n_best: int, **options: Unpack[SearchOptions]
    ) -> list[Translation]: ...
    @overload
    def translate(  # type: ignore[overload-overlap]
        self, text: list[str], *, n_best: Literal[1] = 1, **options: Unpack[SearchOptions]
    ) -> list[Translation]: ...
    @overload
    def translate(
        self, text: list[str], *, n_best: int, **options: Unpack[SearchOptions]
    ) -> list[list[Translation]]: ...
    def translate(
        self, text: str | list[str], *, n_best: int = 1, **options: Unpack[SearchOptions]
    ) -> Translation | list[Translation] | list[list[Translation]]:
        """Translate a line, or a list of lines.

        Args:
            text: A line, or lines.
            n_best: Translations per line.
            options: See `SearchSettings`: beam_size=5, batch_size=64, max_length_ratio=2.0,
                max_length_offset=10, max_source_length=1000, normalization="average", alpha=1.0,
                replace_unknown=True, shortlist=False, min_length=0, block_ngrams=0.

        Returns:
            For a line its `Translation`; with n_best > 1 a list of them, best first (fewer where
            the search found fewer, one for a blank line). For a list, a list of those.

        Raises:
            TypeError: An option is unknown.
            ValueError: An option is out of range.
            UserError: The model gives NaN, one sentence alone does not fit in memory, or the
                folder has no shortlist.

        Example:
            >>> [t.text for t in translator.translate("ein Hund", n_best=2)]
            ['a dog', 'one dog']
        """
        lines = [text] if isinstance(text, str) else text
        found = list(self._stream(lines, SearchSettings(n_best=n_best, **options)))
        results = [group[0] for group in found] if n_best == 1 else found
        return results[0] if isinstance(text, str) else results

    @overload
    def translate_lines(  # type: ignore[overload-overlap]
        self, lines: Iterable[str], *, n_best: Literal[1] = 1, **options: Unpack[SearchOptions]
    ) -> Iterator[Translation]: ...
    @overload
    def translate_lines(
        self, lines: Iterable[str], *, n_best: int, **options: Unpack[SearchOptions]
    ) -> Iterator[list[Translation]]: ...
    def translate_lines(
        self, lines: Iterable[str], *, n_best: int = 1, **options: Unpack[SearchOptions]
    ) -> Iterator[Translation] | Iterator[list[Translation]]:
        """Translate a stream of any length in bounded memory.

        Lines are read some thousands ahead, so that lines of like length can share a batch. Lines
        that had to be cut are counted in one warning at the end.

        Args:
            lines: Lines, with or without their line breaks; an open file will do.
            n_best: Translations per line.
            options: As for `translate`.

        Returns:
            An iterator with one item for each line, in order, as `translate` gives for a line.

        Raises:
            TypeError, ValueError, UserError: As `translate`.

        Example:
            >>> with open("test.de", encoding="utf-8") as file:
            ...     for translation in translator.translate_lines(file):
            ...         print(translation.text)
        """
        found = self._stream(lines, SearchSettings(n_best=n_best, **options))
        return (group[0] for group in found) if n_best == 1 else found

    def _stream(
        self, lines: Iterable[str], settings: SearchSettings
    ) -> Iterator[list[Translation]]:
        """Translate chunk by chunk; each line gives a list of translations, best first."""
        with closing(self._chunks(lines, settings)) as chunks:
            for chunk in chunks:
                yield from self._translate_chunk(chunk, settings)

    def _chunks(
        self, lines: Iterable[str], settings: SearchSettings
    ) -> Generator[list[Source], None, None]:
        """The lines, cut as those were that the model was trained on."""
        longest = getattr(self.folder, "max_source_length", 0) or settings.max_source_length
        longest = min(longest, settings.max_source_length)
        settings = replace(settings, max_source_length=longest)
        return read_chunks(lines, self.folder.source_tokenizer, settings)

    def _translate_chunk(
        self, chunk: list[Source], settings: SearchSettings
    ) -> list[list[Translation]]:
        """Translate lines in batches of like length, and put the results in their order."""
        results = [[blank_translation(source.line)] for source in chunk]
        for batch in batch_places(chunk, settings.sentences):
            found = self.translate_batch([chunk[place] for place in batch], settings)
            for place, translations in zip(batch, found, strict=True):
                results[place] = translations
        return results

    def translate_batch(
        self, batch: list[Source], settings: SearchSettings
    ) -> list[list[Translation]]:
        """Translate lines at once; a batch that does not fit in memory is split in two.

        Args:
            batch: Lines with one token or more.
            settings: How to translate.

        Returns:
            For each line its translations, best first.

        Raises:
            UserError: As `translate`.

        Example:
            >>> [[best]] = translator.translate_batch([source], SearchSettings())
        """
        copies = read_copies(
            self.folder, [source.line for source in batch], [len(source.ids) for source in batch]
        )

        def search(places: Sequence[int]) -> list[list[Hypothesis]]:
            some = None if copies is None else [copies[place] for place in places]
            return self._search([batch[place] for place in places], settings, some)

        def too_large(place: int) -> str:
            return (
                f"A line of {len(batch[place].ids)} tokens does not fit in the memory of "
                f"{self.folder.device}. Lower max_source_length or beam_size."
            )

        found = search_split(search, range(len(batch)), too_large)
        extra = [one.extra for one in copies] if copies else [[]] * len(batch)
        return [
            [self._translation(source, hypothesis, settings, new) for hypothesis in hypotheses]
            for source, hypotheses, new in zip(batch, found, extra, strict=True)
        ]

    def _search(
        self, batch: list[Source], settings: SearchSettings, copies: list[Copies] | None
    ) -> list[list[Hypothesis]]:
        """Run the beam search over one padded batch."""
        model, device = self.folder.model, torch.device(self.folder.device)
        lengths = [len(source.ids) for source in batch]
        sources = padded([[*source.ids, END] for source in batch])
        limits = torch.tensor([settings.max_length(length) for length in lengths])
        with torch.inference_mode(), torch.autocast(device.type, enabled=False), evaluating(model):
            ended = torch.tensor(lengths).to(device) + 1
            memory, state = encode(model, sources.to(device), ended, copies)
            step: Any
            tokens = None
            if settings.shortlist:
                tokens, allowed = self._candidates(batch)
                step, memory = shortlisted(model, memory, tokens, allowed, self._tables)
            else:
                step = tabled(model, self._tables)
            found = beam_search(
                step,
                state,
                memory,
                beam_size=settings.beam_size,
                max_lengths=limits.to(device),
                n_best=settings.n_best,
                normalization=settings.normalization,
                alpha=settings.alpha,
                min_length=settings.min_length,
                block_ngrams=settings.block_ngrams,
            )
        if tokens is None:
            return found
        ids = tokens.tolist()
        return [
            [item._replace(ids=[ids[candidate] for candidate in item.ids]) for item in hypotheses]
            for hypotheses in found
        ]

    def _candidates(self, batch: list[Source]) -> tuple[Tensor, Tensor]:
        """The tokens that a batch may be translated to, and which of them each sentence may use."""
        refuse_shortlist(self.folder.model)
        if self.folder.shortlist is None:
            raise UserError(
                "The model folder has no shortlist. Make one with `luong shortlist MODEL`, or "
                "translate without it."
            )
        tokens, allowed = self.folder.shortlist.candidates([source.ids for source in batch])
        device = torch.device(self.folder.device)
        return torch.from_numpy(tokens).to(device), torch.from_numpy(allowed).to(device)

    def _translation(
        self, source: Source, hypothesis: Hypothesis, settings: SearchSettings, extra: list[str]
    ) -> Translation:
        """Turn token ids and attention into text, tokens and word links.

        `extra` has the source's tokens that the target vocabulary does not know.
        """
        columns = len(source.ids) + 1
        rows = aligned_rows(hypothesis.attention[:, :columns], self.folder.alignment_row)
        attention = rows.to("cpu", torch.float32, copy=True)
        replaced = {}
        if settings.replace_unknown:
            limit = first_feature(self.folder.source_tokenizer)
            replaced = _copies(hypothesis.ids, attention, source, limit)
        more: dict[str, Any] = {"extra": extra} if extra else {}
        target = self.folder.target_tokenizer
        text, spans = target.decode_spans(hypothesis.ids, replaced, **more)
        text = _LINE_BREAK.sub(" ", text)
        tokens = target.tokens(hypothesis.ids, **more)
        for place, raw in replaced.items():
            tokens[place] = raw
        source_tokens = self.folder.source_tokenizer.tokens(source.ids)
        for place, (start, end) in enumerate(source.spans):
            if source.ids[place] == UNKNOWN:
                source_tokens[place] = source.line[start:end]
        return Translation(
            source=source.line,
            text=text,
            score=hypothesis.score,
            tokens=tokens,
            source_tokens=[*source_tokens, SPECIAL_TOKENS[END]],
            attention=attention,
            alignment=word_links(attention, source.line, source.spans, text, spans),
            copied=stretches(text, spans, hypothesis.copied),
        )


def _copies(ids: list[int], attention: Tensor, source: Source, limit: int | None) -> dict[int, str]:
    """The raw source token for each unknown target token, by its position; ids below the limit."""
    unknown = [place for place, token in enumerate(ids) if token == UNKNOWN]
    raw = [source.line[start:end].strip(" ") for start, end in source.spans]
    candidates = [
        place
        for place, (word, id) in enumerate(zip(raw, source.ids, strict=True))
        if word and (limit is None or id < limit)
    ]
    if not unknown or not candidates:
        return {}
    weights = attention[unknown][:, candidates]
    best = weights.max(dim=1)
    return {
        place: raw[candidates[column]]
        for place, column, weight in zip(
            unknown, best.indices.tolist(), best.values.tolist(), strict=True
        )
        if weight > 0
    }
