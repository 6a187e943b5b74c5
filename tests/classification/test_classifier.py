import json
import re
from dataclasses import replace

import pytest

import luong
from luong.classification import Classification, Sentence
from luong.errors import UserError
from luong.folder import load_folder
from luong.view.explanation import write_explanation

TEXTS = ["The plot was great.", "", "It was. Actors was dull! Film", "  \n ", "unseen words only"]


@pytest.fixture(scope="module")
def classifier(trained_classifier):
    return luong.load(trained_classifier)


def test_labels_are_learnt(classifier, reviews):
    rows = [json.loads(line) for line in (reviews / "test.jsonl").read_text().splitlines()]
    found = classifier.classify([row["text"] for row in rows])
    assert sum(one.label == row["label"] for one, row in zip(found, rows, strict=True)) >= 18


def test_attention_is_a_distribution_over_what_was_read(classifier):
    result = classifier.classify(TEXTS[2])
    assert [sentence.text for sentence in result.sentences] == [
        "It was.",
        "Actors was dull!",
        "Film",
    ]
    assert sum(sentence.weight for sentence in result.sentences) == pytest.approx(1)
    for sentence in result.sentences:
        assert sum(weight for _, _, weight in sentence.words) == pytest.approx(1)
    words = [result.sentences[1].text[start:end] for start, end, _ in result.sentences[1].words]
    assert words == ["Actors", "was", "dull", "!"]
    assert sum(result.probabilities.values()) == pytest.approx(1)
    assert result.probability == result.probabilities[result.label]


def test_neighbours_change_nothing(classifier):
    alone = [classifier.classify(text) for text in TEXTS]
    together = classifier.classify(TEXTS * 30)
    assert len(together) == 150
    for index, result in enumerate(together):
        expected = alone[index % len(TEXTS)]
        assert (result.source, result.label) == (expected.source, expected.label)
        assert result.probabilities == pytest.approx(expected.probabilities, abs=1e-5)


def test_texts_without_words_have_the_label_of_the_bias(classifier):
    bias = classifier.folder.model.output.bias.softmax(-1).tolist()
    for result in classifier.classify(["", " \n\t"]):
        assert result.sentences == []
        assert list(result.probabilities.values()) == pytest.approx(bias)


def test_no_texts(classifier):
    assert classifier.classify([]) == []


def test_what_is_beyond_the_limits_is_not_read(trained_classifier):
    folder = luong.load(trained_classifier).folder
    data = folder.config.data.model_copy(update={"max_sentences": 2, "max_words": 3})
    config = folder.config.model_copy(update={"data": data})
    limited = luong.Classifier(replace(folder, config=config))
    result = limited.classify("One two three four. Five. Six.")
    assert [len(sentence.words) for sentence in result.sentences] == [3, 2]


def test_a_classifier_is_no_translator(trained_classifier, trained):
    with pytest.raises(UserError, match=r"is a classifier, not a translator.*luong classify"):
        load_folder(trained_classifier)
    with pytest.raises(UserError, match="only translators have int8 weights"):
        luong.load(trained_classifier, int8=True)


def test_pictures_are_escaped_and_shaded():
    evil = "<b>&</b> שלום"
    sentence = Sentence(evil, 1.0, [(0, 8, 0.25), (9, 13, 0.75)])
    html = Classification(evil, ("<x>",), {"<x>": 1.0}, [sentence])._repr_html_()
    assert "<b>" not in html
    assert "&lt;b&gt;&amp;&lt;/b&gt;" in html
    assert 'dir="auto"' in html
    shades = re.findall(r"rgba\(46,134,222,([\d.]+)\)", html)
    assert [float(shade) for shade in shades] == [0.25, 0.75]


def test_the_explanation_page_stands_alone(classifier, tmp_path):
    write_explanation(tmp_path / "why.html", classifier.classify(TEXTS), title="<Why>", total=9)
    page = (tmp_path / "why.html").read_text(encoding="utf-8")
    assert '<h1 dir="auto">&lt;Why&gt;</h1>' in page
    assert "the first 5 of 9 texts" in page
    assert page.count("<article") == 5
    assert page.count("Nothing to read") == 2
    assert "prefers-color-scheme: dark" in page
    assert not re.search(r"(src|href)=|url\(|@import", page)
