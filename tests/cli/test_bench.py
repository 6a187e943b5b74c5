"""`luong bench --quick`: all of it at small sizes, in this process."""

import json

from luong import kernels


def test_all_sections_on_the_screen_and_in_files(luong, tmp_path):
    ended = luong(
        "bench", "--quick", "--threads", 1,
        "--output", tmp_path / "page.md", "--json", tmp_path / "all.json",
    )  # fmt: skip
    assert ended.code == 0
    assert max(map(len, ended.out.splitlines())) <= 100
    for title in ("Additive scores: luong and others", "Whole attention", "Local windows"):
        assert f"## {title}" in ended.out
    page = (tmp_path / "page.md").read_text()
    assert ended.out.strip() in page
    assert "- threads: 1\n" in page
    found = json.loads((tmp_path / "all.json").read_text())
    assert {row["section"] for row in found["rows"]} == {"additive", "attention", "local"}
    assert found["rows"][0]["measurements"]["luong"]["timing"]["repeats"] >= 7
    assert "additive (4, 9, 11, 64) fwd+bwd" in ended.error


def test_wrong_results_end_in_code_1(luong, monkeypatch):
    right = kernels.additive_scores
    monkeypatch.setattr(kernels, "additive_scores", lambda *inputs: right(*inputs) + 1)
    ended = luong("bench", "--quick", "--only", "attention", "--threads", 1)
    # A number added to all scores changes no softmax; another slope does.
    assert ended.code == 0
    monkeypatch.setattr(kernels, "additive_scores", lambda *inputs: right(*inputs) * 1.1)
    ended = luong("bench", "--quick", "--only", "attention", "--threads", 1)
    assert ended.code == 1
    assert "WRONG" in ended.out
    assert "luong: Wrong results, their times mean nothing: additive at 4,9,11,64" in ended.error
    assert "Local windows" not in ended.out
