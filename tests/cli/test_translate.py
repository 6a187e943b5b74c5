import json
import sys
from types import SimpleNamespace

import pytest

from luong.cli import main

WORDS = "eins zwei drei vier fünf sechs sieben acht neun zehn elf zwölf"
ODD = [
    b"eins zwei\n",
    b"\n",
    b" \t \n",
    "fünf sechs\r\n".encode(),
    "\N{GRINNING FACE} eins \N{GRINNING FACE}\n".encode(),
    "\u2028\u0085\x0b\x0c\n".encode(),  # no line ends of ours
    b"eins\rzwei\n",
    "\N{ARABIC LETTER ALEF}\u0301 \u202e \ufeff\n".encode(),
    (" ".join(["eins"] * 300) + "\n").encode(),
    b"zwei",
]


def test_a_line_for_a_line(luong, trained, translator):
    ended = luong("translate", trained, stdin=b"".join(ODD))
    assert ended.code == 0
    assert ended.error == ""
    assert ended.out.endswith("\n")
    lines = ended.out.removesuffix("\n").split("\n")
    assert len(lines) == len(ODD)
    assert lines[1] == lines[2] == ""
    alone = translator.translate(["eins zwei", "fünf sechs", "zwei"])
    assert [lines[0], lines[3], lines[9]] == [result.text for result in alone]
    assert all(result.text for result in alone)
    assert not any("\r" in line for line in lines)


@pytest.mark.slow
def test_a_line_of_5000_words(luong, trained, translator):
    ended = luong("translate", trained, "--beam-size", 1, stdin=b"eins " * 5000 + b"\nzwei\n")
    assert ended.code == 0
    assert ended.out.count("\n") == 2
    assert ended.out.endswith(f"\n{translator.translate('zwei', beam_size=1).text}\n")


@pytest.mark.parametrize(("stdin", "out"), [(b"", ""), (b"\n", "\n"), (b" ", "\n")])
def test_nothing_in(luong, trained, stdin, out):
    assert luong("translate", trained, stdin=stdin) == (0, out, "")


def test_a_byte_order_mark_is_not_text(luong, trained):
    with_mark = luong("translate", trained, "--scores", stdin=b"\xef\xbb\xbfeins zwei\n")
    assert with_mark == luong("translate", trained, "--scores", stdin=b"eins zwei\n")


def test_batch_size_and_order_do_not_matter(luong, trained):
    lines = [f"{a} {b}\n".encode() for a in WORDS.split()[:6] for b in WORDS.split()[:3]]
    expected = luong("translate", trained, stdin=b"".join(lines)).out.splitlines()
    for size in (1, 7):
        out = luong("translate", trained, "--batch-size", size, stdin=b"".join(lines)).out
        assert out.splitlines() == expected
    backwards = luong("translate", trained, stdin=b"".join(lines[::-1])).out
    assert backwards.splitlines()[::-1] == expected


def test_scores(luong, trained):
    plain = luong("translate", trained, stdin=b"eins zwei\n\n").out.splitlines()
    scored = luong("translate", trained, "--scores", stdin=b"eins zwei\n\n").out.splitlines()
    score, text = scored[0].split("\t")
    assert text == plain[0]
    assert -1 < float(score) < 0
    assert scored[1] == "0.000000\t"


def test_n_best(luong, trained):
    source = "fünf \N{GRINNING FACE}\n\n"
    ended = luong("translate", trained, "--n-best", 3, stdin=source.encode())
    assert ended.code == 0
    assert "fünf \N{GRINNING FACE}" in ended.out  # readable, not escaped
    first, second = map(json.loads, ended.out.splitlines())
    assert first["source"] == source.splitlines()[0]
    results = first["translations"]
    assert len(results) == 3
    scores = [result["score"] for result in results]
    assert scores == sorted(scores, reverse=True)
    assert len({result["text"] for result in results}) > 1
    assert (
        results[0]["text"] == luong("translate", trained, stdin=source.encode()).out.split("\n")[0]
    )
    for left, right in results[0]["alignment"]:
        assert 0 <= left < 2
        assert right >= 0
    assert second == {
        "source": "",
        "translations": [{"text": "", "score": 0.0, "alignment": [], "copied": []}],
    }


def test_alignments(luong, trained, translator, tmp_path):
    path = tmp_path / "links"
    ended = luong("translate", trained, "--alignments", path, stdin=b"eins zwei drei\n\nacht\n")
    results = translator.translate(["eins zwei drei", "", "acht"])
    assert ended.out.splitlines() == [result.text for result in results]
    expected = [" ".join(f"{s}-{t}" for s, t in result.alignment) for result in results]
    assert path.read_text(encoding="utf-8") == "".join(line + "\n" for line in expected)
    assert expected[0]
    assert expected[1] == ""
    assert [entry.name for entry in tmp_path.iterdir()] == ["links"]


def test_alignments_are_whole_or_not_there(luong, trained, tmp_path):
    path = tmp_path / "links"
    path.write_text("old")
    assert luong("translate", trained, "--alignments", path, stdin=b"eins\n\xff\n").code == 1
    assert path.read_text() == "old"
    assert [entry.name for entry in tmp_path.iterdir()] == ["links"]


def test_a_person_who_types_is_answered_line_by_line(trained, translator, monkeypatch, capsys):
    said = []

    class Keyboard:
        def __iter__(self):
            for line in (b"eins zwei\n", b"\n", b"drei\n"):
                yield line
                said.append(capsys.readouterr().out)

    monkeypatch.setattr(sys, "argv", ["luong", "translate", str(trained)])
    terminal = SimpleNamespace(buffer=Keyboard(), isatty=lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == 0
    expected = translator.translate(["eins zwei", "", "drei"])
    assert said == [result.text + "\n" for result in expected]


def test_several_folders_are_an_ensemble(luong, trained, trained_copy, refused):
    once = luong("translate", trained, "--scores", stdin=b"eins zwei\n\ndrei\n")
    twice = luong("translate", trained, trained_copy, "--scores", stdin=b"eins zwei\n\ndrei\n")
    assert twice.code == 0
    assert twice.out == once.out  # the same model twice is that model
    (trained_copy / "target.json").write_text('{"kind": "word", "tokens": []}')
    assert "target.json" in refused("translate", trained, trained_copy)
