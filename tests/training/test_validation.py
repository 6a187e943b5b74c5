import copy
from io import StringIO

import pytest
import torch
from rich.console import Console

from luong.evaluation import corpus_scores
from luong.folder import load_folder
from luong.search import Translator
from luong.text.batches import collate
from luong.training import train
from luong.training.loop import Trainer
from luong.training.report import read_metrics


@pytest.fixture
def trainer(toy_config):
    """A trainer of a small model with much dropout, some pairs of its validation unfit."""
    return Trainer(
        toy_config("model.dropout=0.5", "training.batch_tokens=30"),
        resume=False,
        console=Console(file=StringIO()),
    )


def test_the_loss_is_that_of_a_plain_loop(trainer):
    model = copy.deepcopy(trainer.folder.model).double().eval()
    total, tokens = 0.0, 0
    dataset = trainer.task.validator.dataset
    with torch.no_grad():
        for position in range(len(dataset)):
            pair = collate(dataset, [position])
            states, _ = model(pair.source, pair.source_lengths, pair.target_input)
            table = model.output(states)[0].log_softmax(-1)
            for row, token in enumerate(pair.target_output[0].tolist()):
                total -= table[row, token].item()
                tokens += 1
    scores = trainer.task.validator.validate(trainer.folder).scores
    assert scores["loss"] == pytest.approx(total / tokens, rel=1e-6)
    assert scores["perplexity"] == pytest.approx(torch.tensor(scores["loss"]).exp().item())


def test_validation_leaves_no_trace(trainer):
    trainer.model.train()
    random = torch.get_rng_state()
    weights = [parameter.detach().clone() for parameter in trainer.folder.model.parameters()]
    first, second = (trainer.task.validator.validate(trainer.folder).scores for _ in range(2))
    assert first == second  # so dropout was off
    assert torch.equal(torch.get_rng_state(), random)
    for parameter, before in zip(trainer.folder.model.parameters(), weights, strict=True):
        assert torch.equal(parameter, before)
        assert parameter.grad is None


def test_how_often_a_run_validates_does_not_change_its_training(toy_config, tmp_path, console):
    rows = []
    for every in (0, 2):
        for average in (0, 0.9):  # without an average it is the trained model that is validated
            config = toy_config(
                f"training.validate_every={every}",
                f"training.average_decay={average}",
                "training.max_epochs=1",
                output=tmp_path / f"{every} {average}",
            )
            train(config, console=console)
            rows.append(
                [
                    (row["step"], row["loss"], row["gradient_norm"])
                    for row in read_metrics(config.output)
                    if row["kind"] == "train"
                ]
            )
    assert len(rows[0]) == 5
    assert rows[1:] == rows[:1] * 3


def test_scores_and_samples_are_those_of_greedy_translation(toy, toy_config, trained):
    validator = Trainer(toy_config(), resume=False, console=Console(file=StringIO())).task.validator
    folder = load_folder(trained)
    found = validator.validate(folder)
    sources, references = (
        (toy / f"dev.{side}").read_text(encoding="utf-8").splitlines() for side in ("de", "en")
    )
    texts = [result.text for result in Translator(folder).translate(sources, beam_size=1)]
    expected = corpus_scores(texts, references, target_language="en")
    assert found.scores["bleu"] == expected.bleu > 20
    assert found.scores["chrf"] == expected.chrf
    assert found.signatures == {name: expected.signatures[name] for name in ("bleu", "chrf")}
    assert len(found.samples) == 3
    for translation, reference in found.samples:
        line = sources.index(translation.source)
        assert translation.text == texts[line]
        assert reference in [references[n] for n, s in enumerate(sources) if s == sources[line]]


def test_pairs_without_a_loss_are_translated_all_the_same(toy, toy_config, tmp_path):
    for side in ("de", "en"):
        text = (toy / f"dev.{side}").read_text(encoding="utf-8")
        blank = {"de": "\n", "en": "one\n"}[side]
        (tmp_path / f"blank.{side}").write_text(blank + text, encoding="utf-8")
    config = toy_config(
        f"data.valid.source={tmp_path / 'blank.de'}", f"data.valid.target={tmp_path / 'blank.en'}"
    )
    trainer = Trainer(config, resume=False, console=Console(file=StringIO()))
    assert len(trainer.task.validator.sources) == 21
    assert len(trainer.task.validator.dataset) == 20
    assert 0 < trainer.task.validator.validate(trainer.folder).scores["loss"] < 10
