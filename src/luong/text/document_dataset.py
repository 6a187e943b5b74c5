"""Documents as ids: reading them within limits, the data set of a corpus, and its batches."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from luong.config import DocumentsConfig
from luong.errors import UserError
from luong.text.documents import DocumentCorpus
from luong.text.encoding import Encoding, Tokenizer
from luong.text.labels import Labels
from luong.text.vocabulary import PAD, UNKNOWN


class DocumentReader:
    """Turns sentences into ids, as many as the settings allow.

    Args:
        tokenizer: Reads a sentence.
        config: Limits, and whether letters are made small.
    """

    def __init__(self, tokenizer: Tokenizer, config: DocumentsConfig) -> None:
        self.tokenizer = tokenizer
        self.config = config

    def read(self, sentences: Sequence[str]) -> tuple[list[Encoding], int]:
        """The ids of each sentence and their spans in it, and how many sentences were cut."""
        config = self.config
        kept = []
        cut = 0
        for sentence in sentences[: config.max_sentences]:
            text = lowered(sentence) if config.lowercase else sentence
            ids, spans = self.tokenizer.encode(text)
            cut += len(ids) > config.max_words
            kept.append(Encoding(ids[: config.max_words], spans[: config.max_words]))
        return kept, cut


def lowered(text: str) -> str:
    """Text in small letters, of the same length: what has a longer small form stays."""
    small = text.lower()
    if len(small) == len(text):
        return small
    return "".join(s if len(s := sign.lower()) == 1 else sign for sign in text)


class DocumentBatch(NamedTuple):
    """B documents whose N sentences are the rows of one matrix, S words the longest."""

    words: Tensor
    """(N, S) int64, padded with `PAD`: the sentences of the first document, then the next's."""
    word_counts: Tensor
    """(N,) int64: words of each sentence, 0 allowed."""
    sentence_counts: Tensor
    """(B,) int64: sentences of each document, 0 allowed."""
    targets: Tensor
    """(B, C) float32: 1 for the labels that a document has."""

    @property
    def source_tokens(self) -> int:
        """Words."""
        return int(self.word_counts.sum())

    @property
    def target_tokens(self) -> int:
        """Documents: what the loss is divided by."""
        return len(self.sentence_counts)

    @property
    def examples(self) -> int:
        """Documents."""
        return len(self.sentence_counts)

    @property
    def noun(self) -> str:
        """What an example is called."""
        return "document"

    def to(self, device: torch.device | str) -> DocumentBatch:
        """The same batch on a device."""
        return DocumentBatch(*(tensor.to(device, non_blocking=True) for tensor in self))

    def halves(self) -> list[DocumentBatch]:
        """Two batches of half the documents; this one if there is only one document."""
        middle = self.examples // 2
        if not middle:
            return [self]
        cut = int(self.sentence_counts[:middle].sum())
        return [
            DocumentBatch(*(tensor[:cut] for tensor in self[:2]), *(t[:middle] for t in self[2:])),
            DocumentBatch(*(tensor[cut:] for tensor in self[:2]), *(t[middle:] for t in self[2:])),
        ]


class DocumentSummary(NamedTuple):
    """What a data set of documents holds, and what was cut off."""

    documents: int
    blank_lines: int
    empty: int
    """Documents without a word."""
    sentences: int
    words: int
    unknown: int
    """Words that the vocabulary does not have."""
    cut_documents: int
    """Documents with more sentences than are read."""
    cut_sentences: int
    """Sentences with more words than are read."""
    label_counts: list[int]
    """Documents of each label."""


class DocumentDataset:
    """All documents of a corpus as ids: 4 bytes for each word.

    Args:
        corpus: The documents; none is left out, however short.
        reader: Reads them.
        labels: The labels there are.
        multi_label: Whether a document may have none or several.

    Raises:
        UserError: A document has a label that is not known, or not one label where it must.
    """

    def __init__(
        self, corpus: DocumentCorpus, reader: DocumentReader, labels: Labels, *, multi_label: bool
    ) -> None:
        config = reader.config
        ids: list[npt.NDArray[np.int32]] = []
        word_counts: list[int] = []
        sentence_counts: list[int] = []
        self.targets = np.zeros((len(corpus), labels.size), np.float32)
        cut_documents = cut_sentences = unknown = empty = 0
        for number, document in enumerate(corpus):
            check_labels(document.labels, multi_label, f"{corpus.name}, document {number + 1}")
            for name in document.labels:
                if name not in labels:
                    raise UserError(
                        f"{corpus.name}, document {number + 1}: label '{name}' is not among those "
                        f"of the training data: {', '.join(labels.names[:20])}."
                    )
                self.targets[number, labels.ids(name)] = 1.0
            encodings, cut = reader.read(document.sentences)
            read = [encoding.ids for encoding in encodings]
            cut_documents += len(document.sentences) > config.max_sentences
            cut_sentences += cut
            flat = np.array([id for sentence in read for id in sentence], np.int32)
            unknown += int((flat == UNKNOWN).sum())
            empty += not len(flat)
            ids.append(flat)
            word_counts += map(len, read)
            sentence_counts.append(len(read))
        self.word_counts = np.array(word_counts, np.int64)
        self.sentence_counts = np.array(sentence_counts, np.int64)
        self._ids = ids
        self._starts = np.concatenate([[0], np.cumsum(self.sentence_counts)])
        self.words = np.array([len(document) for document in ids], np.int64)
        self.summary = DocumentSummary(
            documents=len(ids),
            blank_lines=corpus.blank_lines,
            empty=empty,
            sentences=len(word_counts),
            words=int(self.words.sum()),
            unknown=unknown,
            cut_documents=cut_documents,
            cut_sentences=cut_sentences,
            label_counts=self.targets.sum(0).astype(int).tolist(),
        )

    def __len__(self) -> int:
        return len(self._ids)

    def plan(self, *, batch_tokens: int, seed: int, epoch: int) -> list[npt.NDArray[np.int64]]:
        """Group documents of like length into batches, in random order.

        Args:
            batch_tokens: Padded words of a batch, at most; a longer document is one of its own.
            seed: Seed of the run.
            epoch: The epoch; the plan is a function of the arguments alone.

        Returns:
            For each batch the positions of its documents; each is in one batch.
        """
        random = np.random.default_rng([seed, epoch])
        longest = [self._counts(document).max(initial=1) for document in range(len(self))]
        noise = random.uniform(0.8, 1.25, len(self))
        batches: list[list[int]] = []
        width = rows = 0
        for document in np.argsort(self.words * noise, kind="stable"):
            width = max(width, int(longest[document]))
            rows += int(self.sentence_counts[document])
            if not batches or width * rows > batch_tokens:
                batches.append([])
                width, rows = int(longest[document]), int(self.sentence_counts[document])
            batches[-1].append(int(document))
        return [np.array(batches[index]) for index in random.permutation(len(batches))]

    def _counts(self, document: int) -> npt.NDArray[np.int64]:
        return self.word_counts[self._starts[document] : self._starts[document + 1]]

    def batch(self, positions: Iterable[int]) -> DocumentBatch:
        """The documents at some positions."""
        chosen = [int(position) for position in positions]
        counts = np.concatenate([self._counts(document) for document in chosen])
        words = np.concatenate([self._ids[document] for document in chosen])
        return make_batch(words, counts, self.sentence_counts[chosen], self.targets[chosen])


def make_batch(
    words: npt.NDArray[np.integer],
    word_counts: npt.NDArray[np.integer],
    sentence_counts: npt.NDArray[np.integer],
    targets: npt.NDArray[np.float32],
) -> DocumentBatch:
    """Pad the sentences of some documents to one matrix.

    Args:
        words: All words, sentence after sentence.
        word_counts: (N,).
        sentence_counts: (B,).
        targets: (B, C).
    """
    width = int(word_counts.max(initial=0))
    padded = np.full((len(word_counts), width), PAD, np.int64)
    padded[np.arange(width) < word_counts[:, None]] = words
    return DocumentBatch(
        torch.from_numpy(padded),
        torch.from_numpy(word_counts.astype(np.int64)),
        torch.from_numpy(sentence_counts.astype(np.int64)),
        torch.from_numpy(targets),
    )


def check_labels(labels: Sequence[str], multi_label: bool, place: str) -> None:
    """Refuse a document that does not have one label, unless there may be any number.

    Raises:
        UserError: It has none or several.
    """
    if not multi_label and len(labels) != 1:
        raise UserError(
            f"{place} has {len(labels)} labels; expected one. For none or several set "
            "data.multi_label = true."
        )
