import pytest

from luong.config import PairFiles
from luong.errors import UserError
from luong.text.corpus import ParallelCorpus
from luong.text.dataset import Dataset
from luong.text.words import WordTokenizer


def pairs(tmp_path, text):
    path = tmp_path / "pairs.tsv"
    path.write_text(text, encoding="utf-8")
    return ParallelCorpus.open(PairFiles(file=path))


WORDS = WordTokenizer.train(["a b c"], size=100)


def test_every_pair_is_kept_or_counted_under_one_reason(tmp_path):
    corpus = pairs(
        tmp_path,
        "a b\tc\n"  # kept
        "\tc\n"
        " \t\n"  # both blank: the source is named
        "a\t \u00a0\n"
        "a b c a\tc\n"
        "a b c a\ta b c a\n"
        "a\ta b c a\n"
        "a x y\tb z\n",  # kept, with three unknown
    )
    dataset = Dataset(corpus, WORDS, WORDS, max_length=3)
    summary = dataset.summary
    assert dataset.lines.tolist() == [0, 7]
    assert dataset.source_lengths.tolist() == [3, 4]
    assert dataset.target_lengths.tolist() == [2, 3]
    assert summary.left_out == {
        "blank source": 2,
        "blank target": 1,
        "source too long": 2,
        "target too long": 1,
    }
    assert (summary.lines, summary.kept, len(dataset)) == (8, 2, 2)
    assert (summary.source_tokens, summary.target_tokens) == (7, 5)
    assert summary.source_unknown_rate == 2 / 5
    assert summary.target_unknown_rate == 1 / 3
    assert summary.source_histogram == [0, 0, 0, 1, 1]
    assert summary.target_histogram == [0, 0, 1, 1]


def test_nothing_left_is_refused_with_the_reasons(tmp_path):
    corpus = pairs(tmp_path, "\tb\na a a\tb\na a a\tb\n")
    with pytest.raises(UserError, match=r"pairs\.tsv: none of 3 .*1 blank source, 2 source too"):
        Dataset(corpus, WORDS, WORDS, max_length=2)


def test_a_pair_longer_than_the_counters_is_left_out_not_wrapped(tmp_path):
    corpus = pairs(tmp_path, "a " * 65_536 + "\tb\na\tb\n")
    dataset = Dataset(corpus, WORDS, WORDS, max_length=10**6)
    assert dataset.lines.tolist() == [1]
    assert dataset.summary.left_out["source too long"] == 1


def test_memory_is_at_most_32_bytes_a_line(corpus, tokenizers):
    dataset = Dataset(corpus, tokenizers["bpe"], tokenizers["bpe"], max_length=250)
    assert len(dataset) == len(corpus)
    assert corpus.nbytes < dataset.nbytes <= 32 * len(corpus)
