"""BLEU over sentence length, with attention and without."""

import pytest

from luong.evaluation import corpus_scores
from luong.reproduce import bahdanau2015, experiment
from luong.reproduce.bahdanau2015 import length_groups
from luong.reproduce.experiment import Size


def test_groups_never_part_a_length():
    lengths = [5] * 70 + [2] * 15 + [7] * 15 + [1] * 15 + [30] * 5
    groups = length_groups(lengths, groups=6)
    assert [len(group.lines) for group in groups] == [30, 70, 20]
    assert [group.length for group in groups] == [1.5, 5.0, (7 * 15 + 30 * 5) / 20]
    assert sorted(line for group in groups for line in group.lines) == list(range(120))
    assert {lengths[line] for line in groups[0].lines} == {1, 2}
    assert len(length_groups([3, 1, 2])) == 1


@pytest.mark.usefixtures("quick")
def test_with_and_without_attention(corpus, tmp_path, console, monkeypatch):
    charts = {}
    monkeypatch.setattr(
        bahdanau2015, "line_chart", lambda series, *, path, **_: charts.update({path.name: series})
    )
    monkeypatch.setattr(experiment, "heatmap", lambda *_, path, **__: path.touch())
    monkeypatch.setattr(bahdanau2015, "_LEAST_SENTENCES", 5)
    size = Size(hidden_size=8)
    output = tmp_path / "out"
    table = bahdanau2015.reproduce(corpus, size, 1.0, output, console)
    lines = table.splitlines()
    assert lines[1].startswith("RNNencdec, without attention")
    assert lines[1].endswith("17.82")
    assert lines[2].endswith("26.75")
    points = charts["bleu-by-length.png"]
    groups = length_groups([len(line.split()) for line in corpus.sources])
    assert len(groups) > 1
    for name in ("rnnencdec", "rnnsearch"):
        texts = (output / name / "test.out").read_text(encoding="utf-8").splitlines()
        for (length, bleu), group in zip(points[name], groups, strict=True):
            assert length == group.length
            chosen = ([side[n] for n in group.lines] for side in (texts, corpus.references))
            assert bleu == corpus_scores(*chosen, target_language="en").bleu
        assert charts["curves.png"][name][-1][0] == 12
    assert not (output / "alignments" / "rnnencdec.png").exists()
    assert (output / "alignments" / "rnnsearch.png").exists()
