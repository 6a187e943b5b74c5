"""Ensembles, against averaging by hand and against the models that they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import luong
from luong.errors import UserError
from luong.folder import load_folder, save_folder, write_shortlist
from luong.search import Ensemble, EnsembleFolder, Translator, averaged_step, beam_search
from luong.text.shortlist import Shortlist
from luong.text.tokenizers import WordTokenizer
from luong.text.vocabulary import END
from luong.training import train

LINES = ["eins zwei drei", "", "fünf", "elf zwölf neun acht sieben", "zwei zwei", "x drei y"]


@pytest.fixture(scope="module")
def second(trained: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The trained folder with other weights, nearly as good."""
    folder = load_folder(trained)
    torch.manual_seed(7)
    with torch.no_grad():
        for parameter in folder.model.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    path = tmp_path_factory.mktemp("second") / "model"
    save_folder(folder, path)
    return path


@torch.inference_mode()
def test_a_step_is_the_log_of_the_mean_probability(trained: Path, second: Path) -> None:
    models = [load_folder(path).model for path in (trained, second)]
    source, lengths = torch.tensor([[5, 6, END], [7, END, 0]]), torch.tensor([3, 2])
    memory, state = Ensemble(models).encode(source, lengths)
    tokens = torch.tensor([2, 2])
    outputs = []
    for model in models:
        own, start = model.encode(source, lengths)
        after, first = model.step(tokens, start, own)
        outputs.append((first, model.step(torch.tensor([5, 6]), after, own)[1]))
    step = averaged_step([model.step for model in models])
    state, found = step(tokens, state, memory)
    _, next_found = step(torch.tensor([5, 6]), state, memory)
    for time, output in enumerate((found, next_found)):
        by_hand = sum(pair[time].log_probabilities.double().exp() for pair in outputs) / 2
        torch.testing.assert_close(
            output.log_probabilities.double(), by_hand.log(), rtol=1e-5, atol=1e-5
        )
        torch.testing.assert_close(
            output.weights, (outputs[0][time].weights + outputs[1][time].weights) / 2
        )


@torch.inference_mode()
def test_a_member_repeated_is_that_member(trained: Path) -> None:
    folder = load_folder(trained)
    source, lengths = torch.tensor([[5, 6, 8, END], [7, END, 0, 0]]), torch.tensor([4, 2])
    limits = 2 * lengths
    alone = beam_search(
        folder.model.step, *_swapped(folder.model, source, lengths), beam_size=4, max_lengths=limits
    )
    for count in (1, 3):
        model = Ensemble([folder.model] * count)
        found = beam_search(
            model.step, *_swapped(model, source, lengths), beam_size=4, max_lengths=limits
        )
        for [one], [other] in zip(alone, found, strict=True):
            assert one.ids == other.ids
            assert other.score == pytest.approx(one.score, abs=1e-6)
            torch.testing.assert_close(one.attention, other.attention)


def _swapped(model, source, lengths):
    memory, state = model.encode(source, lengths)
    return state, memory


def test_a_list_of_one_folder_is_that_folder(trained: Path) -> None:
    folder = load_folder(trained)
    assert Translator([folder]).folder is folder


def test_a_path_is_answered_by_how_to_load_it() -> None:
    with pytest.raises(TypeError, match=r"luong\.load\('runs/de-en'\)"):
        Translator("runs/de-en")  # type: ignore[arg-type]


def test_batch_mates_do_not_matter(trained: Path, second: Path) -> None:
    translator = luong.load([trained, second])
    alone = [translator.translate(line) for line in LINES]
    assert any(result.text for result in alone)
    for size in (2, 64):
        for one, other in zip(alone, translator.translate(LINES, batch_size=size), strict=True):
            assert one.text == other.text
            assert one.score == pytest.approx(other.score, abs=1e-5)
            assert one.alignment == other.alignment


def test_both_members_have_a_say(trained: Path, second: Path) -> None:
    scores = [
        [result.score for result in luong.load(folders).translate(LINES)]
        for folders in (trained, second, [trained, second])
    ]
    assert scores[0] != scores[2] != scores[1]


def test_a_shortlist_keeps_every_member_to_its_tokens(trained_copy: Path, second: Path) -> None:
    folder = load_folder(trained_copy)
    size = folder.target_tokenizer.size
    everything = torch.arange(size, dtype=torch.int32).numpy()
    nothing = torch.zeros(folder.source_tokenizer.size, 0, dtype=torch.int32).numpy()
    write_shortlist(Shortlist(everything, nothing), trained_copy)
    # The second has none; a shortlist of all tokens changes nothing.
    translator = luong.load([second, trained_copy])
    plain, short = (translator.translate(LINES, shortlist=on) for on in (False, True))
    for one, other in zip(plain, short, strict=True):
        assert one.text == other.text
        assert one.score == pytest.approx(other.score, abs=1e-5)
    few = everything[:6]
    write_shortlist(Shortlist(few, nothing), trained_copy)
    allowed = set(folder.target_tokenizer.tokens(few.tolist()))
    translator = luong.load([second, trained_copy])
    results = translator.translate(LINES, shortlist=True, replace_unknown=False)
    assert {token for result in results for token in result.tokens} <= allowed


def test_other_vocabularies_are_refused(trained: Path) -> None:
    folder = load_folder(trained)
    other = WordTokenizer.train(["one two"], size=9)
    for side in ("source", "target"):
        changed = load_folder(trained)
        object.__setattr__(changed, f"{side}_tokenizer", other)
        with pytest.raises(UserError, match=f"Models 1 and 2 .* different {side} vocabularies"):
            EnsembleFolder([folder, changed])
    with pytest.raises(UserError, match="at least one"):
        EnsembleFolder([])
    fed = load_folder(trained)
    object.__setattr__(fed, "alignment_row", "fed")
    with pytest.raises(UserError, match="predicted and fed"):
        Translator([folder, fed])


@pytest.mark.slow
def test_two_models_lose_less_than_they_do_apart(toy_config, toy: Path, tmp_path: Path) -> None:
    paths = [tmp_path / name for name in "ab"]
    for seed, path in enumerate(paths):
        settings = ("training.max_epochs=12", "training.learning_rate=0.02", f"seed={seed}")
        train(toy_config(*settings, output=path))
    sources, references = (
        (toy / f"test.{side}").read_text("utf-8").splitlines() for side in ("de", "en")
    )

    def loss(*folders: Path) -> float:
        from luong.search import align_pairs

        found = align_pairs([load_folder(path) for path in folders], sources, references)
        return -sum(pair.score * (len(pair.tokens) + 1) for pair in found)

    # The logarithm of a mean of probabilities is above the mean of their logarithms.
    assert loss(*paths) < (loss(paths[0]) + loss(paths[1])) / 2
