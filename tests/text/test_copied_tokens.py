"""Numbering of source tokens as target tokens, and text from the numbers."""

import pytest

from luong.config import PairFiles, TokensConfig
from luong.text.batches import collate
from luong.text.characters import CharacterTokenizer
from luong.text.copying import NOT_COPIED, Copies, copies_of
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.featured import FeaturedTokenizer
from luong.text.subwords import SubwordTokenizer
from luong.text.tokenizers import train_tokenizer
from luong.text.vocabulary import END, PAD, UNKNOWN
from luong.text.words import WordTokenizer

LINE = "the “Größe” of x™ (日本語-1.5), don't (x™)!"


def tokenizer_of(kind, text):
    if kind == "word":
        return WordTokenizer.train(text, 100)
    if kind == "character":
        return CharacterTokenizer.train(text, 100)
    return SubwordTokenizer.train(text, 60)


def test_new_tokens_are_numbered_as_they_come():
    target = WordTokenizer.train(["the and"], 100)
    copies = copies_of(["the", "gnome", "and", "￭,", "gnome"], target, 5)
    the, and_ = target.id("the"), target.id("and")
    assert copies == Copies([the, 6, and_, 7, 6], ["gnome", "￭,"])
    assert copies.targets(["gnome", "the", "elf"], target) == [6, the, UNKNOWN]


@pytest.mark.parametrize("kind", ["word", "character", "subword"])
def test_a_copied_line_is_the_line(kind):
    reader = tokenizer_of(kind, [LINE, "other words " * 9])
    # Another vocabulary on the target side: little of the line is in it.
    writer = tokenizer_of(kind, ["the of other words and some more text (to learn from) 1 "] * 9)
    for tokenizer in (reader, writer):
        pieces = tokenizer.pieces(LINE)
        assert [tokenizer.id(piece) for piece in pieces] == tokenizer.ids(LINE)
        copies = copies_of(pieces, writer, len(pieces))
        assert copies.extra
        text, spans = writer.decode_spans(copies.ids, extra=copies.extra)
        assert text == LINE
        assert len(spans) == len(writer.tokens(copies.ids, copies.extra)) == len(copies.ids)
        assert min(copies.ids) > END
        assert UNKNOWN not in copies.ids


@pytest.mark.parametrize("kind", ["word", "subword", "character"])
def test_text_that_reads_like_a_special_token_is_none(kind):
    tokenizer = tokenizer_of(kind, ["a b c d"] * 20)
    pieces = tokenizer.pieces("<s> </s> <pad> <unk>")
    copies = copies_of(pieces, tokenizer, len(pieces))
    assert min(copies.ids) > END


def test_features_are_not_copied():
    letters = CharacterTokenizer.train(["abV;"], 100)
    reader = FeaturedTokenizer(letters, ["V", "PST"], ";")
    line = "ab\tV;PST"
    ids = reader.ids(line)
    copies = copies_of(reader.pieces(line), letters, len(ids))
    assert copies.ids == [letters.id("a"), letters.id("b"), NOT_COPIED, NOT_COPIED]
    assert copies.extra == []


def make_dataset(folder, **options):
    (folder / "pairs.tsv").write_text("zwei neue Wörter hier\tneue Wörter da\nb\tb\n", "utf-8")
    corpus = ParallelCorpus.open(PairFiles(file=folder / "pairs.tsv"))
    words = train_tokenizer(TokensConfig(kind="word"), ["b hier da"], "words")
    return words, Dataset(corpus, words, words, max_length=10, **options)


def test_batches_of_copies(tmp_path):
    words, dataset = make_dataset(tmp_path, copies=True)
    batch = collate(dataset, [0, 1])
    b, hier, da, new = words.id("b"), words.id("hier"), words.id("da"), words.size
    assert batch.copies.tolist() == [[new, new + 1, new + 2, hier, -1], [b, -1, -1, -1, -1]]
    assert batch.source.tolist()[0] == [UNKNOWN, UNKNOWN, UNKNOWN, hier, END]
    assert batch.target_output.tolist() == [[new + 1, new + 2, da, END], [b, END, PAD, PAD]]
    assert batch.target_input.tolist()[0][1:] == [UNKNOWN, UNKNOWN, da]
    first, second = batch.to("cpu").halves()
    assert first.copies.tolist() == batch.copies[:1].tolist()
    assert second.copies.tolist() == batch.copies[1:].tolist()
    assert collate(make_dataset(tmp_path)[1], [0]).copies is None


def test_long_sources_are_cut_and_counted(tmp_path):
    for copies in (False, True):
        words, dataset = make_dataset(tmp_path, copies=copies, max_source_length=2)
        assert dataset.summary.sources_cut == 1
        assert dataset.source_lengths.tolist() == [3, 2]
        batch = collate(dataset, [0])
        assert batch.source.tolist() == [[UNKNOWN, UNKNOWN, END]]
        # A word of the part that was cut off cannot be copied any more.
        second = words.size + 1 if copies else UNKNOWN
        expected = [second, UNKNOWN, words.id("da"), END]
        assert batch.target_output.tolist() == [expected]
