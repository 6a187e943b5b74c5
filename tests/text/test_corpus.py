import gzip
import os
import random
import tracemalloc
import zlib
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from luong.config import PairFiles
from luong.errors import UserError
from luong.text import corpus as corpus_module
from luong.text.corpus import LineFile, ParallelCorpus


def write(path, data):
    path.write_bytes(data)
    return path


def expected_lines(data):
    """What the file holds, by another way than the index."""
    lines = data.decode("utf-8-sig").split("\n")
    if lines[-1] == "":
        lines.pop()
    return [line[:-1] if line.endswith("\r") else line for line in lines]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    bom=st.booleans(),
    text=st.text(st.sampled_from("ab\n\n\r\té日😀\u2028\x0b\x0c\x85\ufeff"), min_size=1),
    block=st.integers(1, 9),
)
def test_lines_match_the_text(tmp_path, monkeypatch, bom, text, block):
    # The first sign of a file is either a byte order mark or not, never text that looks like one.
    data = (b"\xef\xbb\xbf" if bom else b"a") + text.encode()
    monkeypatch.setattr(corpus_module, "_BLOCK_BYTES", max(block, 3))
    lines = LineFile(write(tmp_path / "text", data))
    truth = expected_lines(data)
    assert list(lines) == truth
    assert [lines[index] for index in range(len(lines))] == truth


@pytest.mark.parametrize(
    ("data", "lines"),
    [
        (b"a\r\nb\r\n", ["a", "b"]),
        (b"a\n\n", ["a", ""]),
        (b"\n", [""]),
        (b"\xef\xbb\xbfa\nb", ["a", "b"]),
        (b"a\rb\n", ["a\rb"]),
        (b"a\r\r\n", ["a\r"]),
    ],
)
def test_line_ends(tmp_path, data, lines):
    assert list(LineFile(write(tmp_path / "text", data))) == lines


def test_wrong_index(tmp_path):
    lines = LineFile(write(tmp_path / "text", b"a\n"))
    for index in (-1, 1):
        with pytest.raises(IndexError):
            lines[index]


@pytest.mark.parametrize("block", [4, 7, 1 << 20])
def test_latin1_is_refused_with_line_and_remedy(tmp_path, monkeypatch, block):
    monkeypatch.setattr(corpus_module, "_BLOCK_BYTES", block)
    path = write(tmp_path / "text.de", "süß\n".encode() * 2 + "süß\n".encode("latin1"))
    with pytest.raises(UserError, match=r"text\.de, line 3: byte 0xfc is not UTF-8") as error:
        LineFile(path)
    assert "iconv -f latin1 -t utf-8" in str(error.value)


def test_a_character_cut_at_the_end_is_refused(tmp_path):
    with pytest.raises(UserError, match="line 2: byte 0xc3"):
        LineFile(write(tmp_path / "text", b"a\nb\xc3"))


def test_utf16_is_recognised(tmp_path):
    with pytest.raises(UserError, match="iconv -f utf-16"):
        LineFile(write(tmp_path / "text", "abc".encode("utf-16")))


def test_unfit_files_are_refused(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    write(tmp_path / "cut.gz", gzip.compress(b"a line\n")[:-6])
    write(tmp_path / "blank", gzip.compress(b""))
    write(tmp_path / "empty", b"")
    write(tmp_path / "mark", b"\xef\xbb\xbf")
    for name, message in {
        "missing": "does not exist",
        ".": "is a folder",
        "pipe": "is not a regular file",
        "cut.gz": "is damaged or cut short",
        "blank": "is empty",
        "empty": "is empty",
        "mark": "is empty",
    }.items():
        with pytest.raises(UserError, match=message):
            LineFile(tmp_path / name)


def test_a_file_that_changes_underneath_is_noticed(tmp_path):
    path = write(tmp_path / "text", b"a\nbcd\n")
    lines = LineFile(path)
    write(path, b"a\nb")
    with pytest.raises(UserError, match=r"has changed since it was opened \(line 2\)"):
        lines[1]
    with pytest.raises(UserError, match=r"line 2"):
        list(lines)


def test_threads_may_read(tmp_path):
    truth = [f"line {number}" * (number % 7) for number in range(500)]
    lines = LineFile(write(tmp_path / "text", "\n".join(truth).encode()))
    wanted = random.Random(1).choices(range(500), k=4000)
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(lines.__getitem__, wanted)) == [truth[index] for index in wanted]


def test_memory_is_bounded(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus_module, "_BLOCK_BYTES", 1 << 16)
    path = write(tmp_path / "text", (b"x" * 199 + b"\n") * 50_000)
    tracemalloc.start()
    try:
        lines = LineFile(path)
        count = sum(1 for _ in lines)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 50_000
    assert lines.nbytes == 8 * 50_001
    assert peak < 2_000_000 < path.stat().st_size // 4


def test_parallel_files(tmp_path):
    source = write(tmp_path / "a.de", b"eins\r\nzwei\r\n")
    target = write(tmp_path / "a.en", b"one\ntwo")
    corpus = ParallelCorpus.open(PairFiles(source=source, target=target))
    assert list(corpus) == [("eins", "one"), ("zwei", "two")]
    assert [corpus[index] for index in range(len(corpus))] == list(corpus)
    assert list(corpus.source_lines()) == ["eins", "zwei"]
    assert list(corpus.target_lines()) == ["one", "two"]
    assert corpus.fingerprint == {
        "source": {"bytes": 12, "lines": 2, "crc32": zlib.crc32(source.read_bytes())},
        "target": {"bytes": 7, "lines": 2, "crc32": zlib.crc32(target.read_bytes())},
    }


def test_unequal_lengths_are_refused_with_both_counts(tmp_path):
    source = write(tmp_path / "a.de", b"eins\nzwei\n\n")
    target = write(tmp_path / "a.en", b"one\ntwo\n")
    with pytest.raises(UserError, match=r"a\.de has 3 lines and .*a\.en has 2"):
        ParallelCorpus.open(PairFiles(source=source, target=target))


def test_tab_separated_pairs(tmp_path):
    data = '"eins\t"one"\n  \n\t\nzwei\ttwo\tcomment\tmore\r\ndrei\t\n'
    corpus = ParallelCorpus.open(PairFiles(file=write(tmp_path / "a.tsv", data.encode())))
    pairs = [('"eins', '"one"'), ("", ""), ("", ""), ("zwei", "two"), ("drei", "")]
    assert list(corpus) == pairs
    assert [corpus[index] for index in range(len(corpus))] == pairs
    assert list(corpus.source_lines()) == [source for source, _ in pairs]
    assert list(corpus.target_lines()) == [target for _, target in pairs]
    assert corpus.extra_columns == 1
    crc = zlib.crc32(data.encode())
    assert corpus.fingerprint == {"pairs": {"bytes": len(data), "lines": 5, "crc32": crc}}


def test_a_line_without_a_tab_is_refused(tmp_path):
    path = write(tmp_path / "a.tsv", b"eins\tone\nzwei two\n")
    with pytest.raises(UserError, match=r"a\.tsv, line 2 has no tab"):
        ParallelCorpus.open(PairFiles(file=path))


@pytest.mark.parametrize("name", ["text.gz", "text"])
@pytest.mark.parametrize("block", [5, 1 << 22])
def test_a_compressed_file_is_read_like_a_plain_one(tmp_path, monkeypatch, name, block):
    monkeypatch.setattr(corpus_module, "_BLOCK_BYTES", block)
    data = b"\xef\xbb\xbf" + "süß\r\nein Haus\n\nEnde".encode()
    plain = LineFile(write(tmp_path / "plain", data))
    packed = LineFile(write(tmp_path / name, gzip.compress(data)))
    assert list(packed) == list(plain) == [packed[index] for index in range(len(packed))]
    assert packed[1] == "ein Haus"
    assert (packed.size_in_bytes, packed.checksum) == (plain.size_in_bytes, plain.checksum)


def test_a_compressed_file_names_the_line_that_is_not_utf8(tmp_path):
    with pytest.raises(UserError, match=r"a\.gz, line 2: byte 0xfc is not UTF-8"):
        LineFile(write(tmp_path / "a.gz", gzip.compress("ab\nü\n".encode("latin1"))))


def test_columns_that_are_named_are_read(tmp_path):
    path = write(tmp_path / "a.tsv", b"gehen\tging\tV;PST\n \t\nsein\twar\tV;PST\n")
    corpus = ParallelCorpus.open(PairFiles(file=path, source_column=3, target_column=1))
    assert list(corpus) == [("V;PST", "gehen"), ("", ""), ("V;PST", "sein")]
    assert corpus[0] == ("V;PST", "gehen")
    assert corpus.extra_columns == 0
    assert list(corpus.target_lines()) == ["gehen", "", "sein"]


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"target_column": 4}, r"line 1 has 3 columns .*\('a\\tb\\tc'\), but target_column is 4"),
        ({"source_column": 3, "target_column": 1}, r"line 2 has 1 column .*source_column is 3"),
        ({"source_column": 1}, r"line 2 has 1 column .*\('d'\), but target_column is 2"),
    ],
)
def test_a_missing_column_is_named_with_its_line(tmp_path, columns, message):
    path = write(tmp_path / "a.tsv", b"a\tb\tc\nd\n")
    with pytest.raises(UserError, match=r"a\.tsv, " + message):
        ParallelCorpus.open(PairFiles(file=path, **columns))
