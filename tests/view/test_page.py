import re
from html.parser import HTMLParser

import pytest
import torch

from luong.errors import UserError
from luong.search.translation import Translation
from luong.view import write_report

VOID = {"meta", "link", "br", "img", "input", "hr"}
LOADING = {"src", "href", "srcset", "data", "action", "poster", "xlink:href"}
METRICS = [
    {"kind": "train", "step": 50, "epoch": 1, "seconds": 5.0, "loss": 4.0, "learning_rate": 1e-3},
    {"kind": "train", "step": 1200, "epoch": 2, "seconds": 130.0, "loss": 2.0},
    {"kind": "validation", "step": 1200, "epoch": 2, "seconds": 134.6, "loss": 2.5, "bleu": 12.5},
]
SIGNATURE = "nrefs:1|case:mixed|eff:no|tok:13a|smooth:exp|version:2.6.0"


class Page(HTMLParser):
    """Checks that elements are closed in order, and gathers what tests ask about."""

    def __init__(self, html):
        super().__init__()
        self.open, self.elements, self.text = [], [], []
        self.feed(html)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.elements.append((tag, dict(attributes)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open[-1:] != ["style"]:
            self.text.append(data)


def sample(source, text, score=-0.25):
    source_tokens, tokens = [*source.split(), "</s>"], text.split()
    attention = torch.full((len(tokens), len(source_tokens)), 1 / len(source_tokens))
    return Translation(source, text, score, tokens, source_tokens, attention, [])


def report(tmp_path, **changes):
    values = {
        "title": "German to English",
        "config": {"model": {"hidden_size": 256, "attention": {"score": "general"}}},
        "scores": {"bleu": 35.25, "exact_match": 0.125, "signatures": {"bleu": SIGNATURE}},
        "metrics": [],
        "samples": [sample("Guten Tag", "good day"), sample("Zwei Hunde", "two cats")],
        "references": ["good day", "two dogs"],
        "environment": {"torch": "2.13.0"},
    }
    path = tmp_path / "report.html"
    write_report(path, **(values | changes))
    return path.read_text(encoding="utf-8")


@pytest.fixture(scope="module")
def full(tmp_path_factory):
    """A page with curves, which take most of the time."""
    return report(tmp_path_factory.mktemp("report"), metrics=METRICS)


def test_everything_handed_in_is_on_the_page(full):
    text = " ".join(Page(full).text)
    for expected in (
        *("German to English", "35.2", "12.5%", SIGNATURE),
        *("1,200 updates", "2 epochs", "2 min 15 s"),
        *("Loss", "Validation scores", "Learning rate", "Tokens per second"),
        *("Guten Tag", "good day", "two cats", "two dogs", "−0.25"),
        *("model.hidden_size", "256", "model.attention.score", '"general"'),
        *("torch", "2.13.0"),
    ):
        assert expected in text


def test_nothing_is_loaded_from_outside(full):
    page = Page(full)
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in page.elements}
    anchors = {attributes["id"] for _, attributes in page.elements if "id" in attributes}
    targets = [
        value
        for _, attributes in page.elements
        for name, value in attributes.items()
        if name in LOADING
    ] + re.findall(r"url\(([^)]*)\)", full)
    assert targets
    assert all(target.startswith("#") and target[1:] in anchors for target in targets)
    assert "@import" not in full


def test_text_is_escaped_everywhere(tmp_path):
    evil = "<script>alert('x')</script> & \"q\""
    html = report(
        tmp_path,
        title=evil,
        config={evil: evil},
        scores={evil: 1.0, "signatures": {evil: evil}},
        samples=[sample(evil, evil)],
        references=[evil],
        environment={evil: evil},
    )
    assert "<script" not in html
    page = Page(html)
    assert "".join(page.text).count(evil) >= 8
    assert not any(name.startswith("on") for _, attributes in page.elements for name in attributes)


def test_sentences_choose_their_own_direction(tmp_path):
    page = Page(report(tmp_path, samples=[sample("سلام", "peace")], references=["peace"]))
    directions = [attributes.get("dir") for tag, attributes in page.elements if tag == "span"]
    assert directions.count("auto") == 3


def test_weights_are_shown_under_the_pointer(tmp_path):
    page = Page(report(tmp_path))
    titles = [attributes["title"] for _, attributes in page.elements if "title" in attributes]
    assert any("good" in title and "Guten" in title and "0.333" in title for title in titles)


def test_only_outputs_equal_to_their_reference_are_ticked(tmp_path):
    page = Page(report(tmp_path))
    classes = [
        attributes["class"]
        for tag, attributes in page.elements
        if tag == "td" and attributes.get("data-name") == "Output"
    ]
    assert classes == ["exact", ""]


def test_without_references_there_is_no_such_column(tmp_path):
    assert "Reference" not in "".join(Page(report(tmp_path, references=None)).text)


def test_an_empty_run_still_gives_a_page(tmp_path):
    html = report(
        tmp_path, config={}, scores={}, metrics=[], samples=[], references=[], environment={}
    )
    assert "German to English" in "".join(Page(html).text)
    assert "<h2>" not in html


def test_a_blank_line_has_no_picture(tmp_path):
    blank = Translation("", "", 0.0, [], [], torch.zeros(0, 0), [])
    html = report(tmp_path, samples=[blank], references=[""])
    Page(html)
    assert 'class="samples"' in html
    assert 'class="card"' not in html


def test_half_a_surrogate_pair_does_not_lose_the_page(tmp_path):
    html = report(tmp_path, samples=[sample("a\ud83d", "b")], references=["c"])
    assert "a?" in html


def test_the_same_run_gives_the_same_bytes(full, tmp_path):
    assert report(tmp_path, metrics=METRICS) == full


def test_curves_take_the_colour_and_font_of_the_page(full):
    svg = re.findall(r"<svg .*?</svg>", full, flags=re.DOTALL)
    assert len(svg) == 4
    assert "currentColor" in svg[0]
    assert "#ffffff" not in svg[0]
    assert ">training</text>" in svg[0]


def test_both_schemes_and_small_screens_are_styled(tmp_path):
    html = report(tmp_path)
    assert "prefers-color-scheme: dark" in html
    assert "width=device-width" in html


def test_references_must_match_the_samples(tmp_path):
    with pytest.raises(ValueError, match="2 samples need as many references, not 1"):
        report(tmp_path, references=["good day"])
    assert not list(tmp_path.iterdir())


def test_a_missing_folder_is_named(tmp_path):
    with pytest.raises(UserError, match="nowhere"):
        report(tmp_path / "nowhere")
