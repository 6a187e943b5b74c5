from __future__ import annotations

from html.parser import HTMLParser

import torch

from luong.search import Translation


class Cells(HTMLParser):
    """Collects tags, texts and titles, and checks that tags close in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[str] = []
        self.texts: list[str] = []
        self.titles: list[str] = []
        self.directions: list[str | None] = []
        self.feed(page)
        assert not self.open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.open.append(tag)
        self.tags.append(tag)
        self.titles += [value or "" for name, value in attrs if name == "title"]
        self.directions += [tag for name, value in attrs if (name, value) == ("dir", "auto")]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def translation(tokens: list[str], source_tokens: list[str], **changes: str) -> Translation:
    attention = torch.linspace(0, 1, len(tokens) * len(source_tokens))
    return Translation(
        source=changes.get("source", "s"),
        text=changes.get("text", "t"),
        score=-1.0,
        tokens=tokens,
        source_tokens=source_tokens,
        attention=attention.view(len(tokens), len(source_tokens)),
        alignment=[],
    )


def test_table_is_escaped_and_complete() -> None:
    nasty = "<script>\"&'</script>"
    page = translation(["x", nasty], [nasty, "b", "</s>"], source=nasty, text=nasty)._repr_html_()
    cells = Cells(page)
    assert "script" not in cells.tags
    assert cells.texts == [nasty, nasty, nasty, "b", "</s>", "x", nasty]
    assert cells.titles[0] == f"x ← {nasty}: 0.000"
    assert cells.titles[-1] == f"{nasty} ← </s>: 1.000"
    assert len(cells.titles) == 6
    assert cells.directions == ["p", "p", "th", "th", "th", "th", "th"]
    assert "http" not in page


def test_blank_translation() -> None:
    page = Translation("  ", "", 0.0, [], [], torch.zeros(0, 0), [])._repr_html_()
    assert "table" not in Cells(page).tags


def test_huge_table_is_cut_and_says_so() -> None:
    cells = Cells(translation(["x"] * 300, ["a"] * 200)._repr_html_())
    assert len(cells.titles) == 120 * 120
    assert "200 source and 300 target" in cells.texts[-1]
