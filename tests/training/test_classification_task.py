"""The task `classify` in the loop that trains translators."""

import json

import pytest
import torch
from safetensors.torch import load_file
from torch.nn import functional
from untimed import rows

from luong.config import load_config
from luong.errors import UserError
from luong.training import train
from luong.training.classification import ClassificationTask
from luong.training.loop import Trainer
from luong.training.loss import classification_loss
from luong.training.page import write_run_page


def test_a_killed_run_equals_one_that_was_not(
    reviews, reviews_config, console, stop_after, tmp_path
):
    settings = [
        "training.save_every=2",
        "training.class_weights=balanced",
        "model.word_dropout=0.1",
    ]
    whole = tmp_path / "whole"
    train(load_config(reviews / "run.toml", [f"output={whole}", *settings]), console=console)
    config = reviews_config(*settings)
    stop_after(9, kill=True)
    with pytest.raises(SystemExit, match="killed"):
        train(config, console=console)
    train(config, resume=True, console=console)
    assert rows(config.output) == rows(whole)
    for name in ("model.safetensors", "state/last.safetensors"):
        found, expected = load_file(config.output / name), load_file(whole / name)
        assert found.keys() == expected.keys()
        assert all(torch.equal(found[key], expected[key]) for key in found), name


def test_a_resumed_run_has_the_same_data(reviews_config, reviews, tmp_path, console):
    config = reviews_config("training.max_epochs=1")
    train(config, console=console)
    other = reviews_config("training.max_epochs=2", f"data.valid.file={reviews / 'test.jsonl'}")
    with pytest.raises(UserError, match="cannot be resumed with other settings or data: valid"):
        train(other, resume=True, console=console)


def test_the_report_names_what_was_read_and_cut(reviews_config, console):
    result = train(reviews_config("training.max_epochs=2", "data.max_words=3"), console=console)
    text = console.file.getvalue()
    assert "documents 80, none left out; 0 without a word" in text
    assert "cut       0 documents after 100 sentences, " in text
    assert "accuracy  macro F1" in text
    assert 0 <= result.scores["accuracy"] <= 1
    page = write_run_page(result.folder).read_text(encoding="utf-8")
    assert "Accuracy" in page
    assert "word's blue" in page
    assert (result.folder / "README.md").read_text().startswith("# Classifier: bad, good")


def test_the_validation_is_what_the_classifier_says(reviews_config, console, reviews):
    trainer = Trainer(reviews_config(), resume=False, console=console)
    scores = trainer.task.validate(trainer.folder).scores
    from luong.classification import Classifier

    lines = [json.loads(line) for line in (reviews / "dev.jsonl").read_text().splitlines()]
    found = Classifier(trainer.folder).classify([line["text"] for line in lines])
    right = sum(one.label == line["label"] for one, line in zip(found, lines, strict=True))
    assert scores["accuracy"] == pytest.approx(right / len(lines))
    log = [one.probabilities[line["label"]] for one, line in zip(found, lines, strict=True)]
    assert scores["loss"] == pytest.approx(-torch.tensor(log).log().mean().item(), abs=1e-5)


def test_the_loss_is_torchs():
    logits = torch.randn(5, 3, dtype=torch.float32)
    classes, weights = torch.tensor([0, 2, 1, 1, 0]), torch.tensor([0.5, 1.0, 3.0])
    targets = functional.one_hot(classes, 3).float()
    loss, likelihood = classification_loss(
        logits, targets, weights, multi_label=False, smoothing=0.0, divisor=7
    )
    expected = functional.cross_entropy(logits, classes, weight=weights, reduction="sum") / 7
    torch.testing.assert_close(loss, expected)
    torch.testing.assert_close(
        likelihood, functional.cross_entropy(logits, classes, reduction="sum")
    )
    loss, _ = classification_loss(
        logits, targets, torch.ones(3), multi_label=False, smoothing=0.2, divisor=5
    )
    torch.testing.assert_close(loss, functional.cross_entropy(logits, classes, label_smoothing=0.2))
    several = torch.tensor([[1.0, 1, 0], [0, 0, 0], [1, 0, 1], [0, 1, 0], [1, 1, 1]])
    loss, likelihood = classification_loss(logits, several, weights, multi_label=True, divisor=5)
    p = torch.sigmoid(logits)
    each = -(weights * several * p.log() + (1 - several) * (1 - p).log())
    torch.testing.assert_close(loss, each.sum() / 5)
    plain = functional.binary_cross_entropy(p, several, reduction="sum")
    torch.testing.assert_close(likelihood, plain)


@pytest.fixture
def uneven(reviews_config, tmp_path):
    """A task on three documents of `a` and one of `b`."""

    def make(*settings):
        path = tmp_path / "uneven.tsv"
        path.write_text("a\tx y\na\tx\nb\tz\na\ty\n")
        files = [f"data.{part}.file={path}" for part in ("train", "valid")]
        task = ClassificationTask(reviews_config(*files, *settings))
        task.prepare(None)
        return task

    return make


def test_class_weights(uneven):
    assert uneven().weights.tolist() == [1, 1]
    balanced = uneven("training.class_weights=balanced").weights
    assert balanced.tolist() == [pytest.approx(4 / 6), 2]
    assert uneven("training.class_weights={b = 5.0}").weights.tolist() == [1, 5]
    with pytest.raises(UserError, match="there is no label 'B'"):
        uneven("training.class_weights={B = 5.0}")
    several = uneven("training.class_weights=balanced", "data.multi_label=true").weights
    assert several.tolist() == [pytest.approx(1 / 3), 3]


def test_pretrained_vectors_are_where_training_starts(uneven, tmp_path):
    (tmp_path / "vectors.txt").write_text("x 1 2 3\nz 4 5 6\nq 7 8 9\n")
    task = uneven(f"model.pretrained={tmp_path / 'vectors.txt'}", "model.embedding_size=3")
    rows = task.make_model().embedding.weight[task.tokenizers[0].ids("x z")]
    assert rows.tolist() == [[1, 2, 3], [4, 5, 6]]
    assert any(line.startswith("vectors   2 of 7 words are in") for line in task.data_lines())


def test_several_labels_a_document(reviews_config, console, tmp_path):
    path = tmp_path / "several.jsonl"
    labels = {"red": ["r"], "blue": ["b"], "red and blue": ["r", "b"], "grey": []}
    lines = [json.dumps({"text": text, "label": names}) for text, names in labels.items()]
    path.write_text("\n".join(lines * 10))
    files = [f"data.{part}.file={path}" for part in ("train", "valid")]
    settings = ["data.multi_label=true", "training.batch_tokens=20", "training.max_epochs=20"]
    result = train(reviews_config(*files, *settings), console=console)
    assert result.scores["accuracy"] == 1.0
    import luong

    found = luong.load(result.folder).classify(list(labels))
    assert [list(one.labels) for one in found] == [sorted(names) for names in labels.values()]
    assert found[3].label == ""


def test_one_label_is_nothing_to_tell_apart(reviews_config, tmp_path, console):
    (tmp_path / "one.tsv").write_text("a\tx\na\ty\n")
    with pytest.raises(UserError, match="has 1 label: there is nothing to tell apart"):
        train(reviews_config(f"data.train.file={tmp_path / 'one.tsv'}"), console=console)
