"""An experiment: some systems trained alike on one corpus, each measured when it is done."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple, cast

from rich.console import Console

from luong.config import RunConfig, parse_config
from luong.errors import UserError
from luong.folder import load_folder
from luong.reproduce.budget import VALIDATIONS, make_plan
from luong.reproduce.corpus import Corpus, Words, count_words
from luong.reproduce.system import Measured, System, measure, read_result, train_system
from luong.search import Translation, align_pairs
from luong.training.report import read_metrics
from luong.view.heatmap import heatmap

_LONGEST_DRAWN = 15  # source words of the sentence that is drawn


class Size(NamedTuple):
    """How large the systems are.

    Attributes:
        hidden_size: Units of a layer, and of an embedding.
        layers: Of the encoder and of the decoder.
        vocabulary_size: Words of each side; 0: see `count_words`.
        seed: Of every system.
    """

    hidden_size: int = 128
    layers: int = 1
    vocabulary_size: int = 0
    seed: int = 1


class Experiment(NamedTuple):
    """A finished experiment.

    Attributes:
        corpus: What it was done on.
        words: Their numbers, and how many are unknown.
        updates: Of each system.
        output: Its folder; each system has one in it.
        measured: Of each system, by name.
    """

    corpus: Corpus
    words: Words
    updates: int
    output: Path
    measured: dict[str, Measured]

    def curves(self, names: Sequence[str]) -> dict[str, list[tuple[float, float]]]:
        """Validation perplexity over updates, of some systems."""
        return {
            name: [
                (row["step"], row["perplexity"])
                for row in read_metrics(self.output / name)
                if row["kind"] == "validation"
            ]
            for name in names
        }


def shared_settings(
    corpus: Corpus, words: Words, size: Size, output: Path, model: dict[str, Any]
) -> RunConfig:
    """The settings that all systems of an experiment share.

    Args:
        corpus: Training and validation pairs.
        words: Their vocabulary.
        size: How large the systems are.
        output: The folder of the experiment.
        model: Settings of `[model]` that the paper says.
    """
    settings = parse_config(
        {
            "output": str(output),
            "seed": size.seed,
            "data": {
                "train": corpus.train.model_dump(mode="json", exclude_none=True),
                "valid": corpus.valid.model_dump(mode="json", exclude_none=True),
                "source_language": corpus.source_language,
                "target_language": corpus.target_language,
            },
            "tokens": {
                "kind": "word",
                "shared": False,
                "vocabulary_size": words.vocabulary_size,
            },
            "model": {
                "embedding_size": size.hidden_size,
                "hidden_size": size.hidden_size,
                "encoder_layers": size.layers,
                "decoder_layers": size.layers,
                "tie_embeddings": "none",
                "dropout": 0.0,
                **model,
            },
            "training": {
                "max_epochs": 100_000,
                "batch_tokens": 250,
                "learning_rate": 0.004,
                "decay_start": 0.3,
                "label_smoothing": 0.0,
                "best_by": "loss",
                "log_every": 100,
            },
        },
        "the experiment",
    )
    return cast(RunConfig, settings)


def run_experiment(
    systems: Sequence[System],
    corpus: Corpus,
    size: Size,
    minutes: float,
    output: Path,
    console: Console,
    model: Callable[[float], dict[str, Any]],
) -> Experiment | None:
    """Train and measure systems one after another; what is done already is not done again.

    Args:
        systems: In the order of training.
        corpus: What to train them on.
        size: How large they are.
        minutes: The budget of all systems together.
        output: The folder of the experiment, one for each system in it.
        console: Where to show progress.
        model: Settings of `[model]` that all systems of the paper share, from the mean words of
            a source line.

    Returns:
        What was measured; None if Ctrl-C stopped it, and it can be resumed.

    Raises:
        UserError: The data or the settings are unfit, or the folder holds another experiment.
    """
    if minutes <= 0:
        raise UserError(f"--minutes {minutes:g}: expected more than 0.")
    started = time.monotonic()
    words = count_words(corpus.train, size.vocabulary_size)
    shared = shared_settings(corpus, words, size, output, model(words.source_length))
    configs = {system.name: system.config(shared, output) for system in systems}
    plan = make_plan(configs, shared, minutes, output)

    def say(line: str) -> None:
        console.print(line, highlight=False, markup=False, soft_wrap=True)

    say(
        f"words     {words.vocabulary_size:,} of each side are known; unknown are "
        f"{words.source_unknown:.1%} of the source, {words.target_unknown:.1%} of the target\n"
        f"systems   {len(systems)}, {plan.updates:,} updates each"
    )
    limits = {"max_updates": plan.updates, "validate_every": plan.updates // VALIDATIONS}
    measured: dict[str, Measured] = {}
    for number, (name, config) in enumerate(configs.items(), 1):
        found = read_result(config.output)
        if found is None:
            say(f"\n{number} of {len(systems)}: {name}")
            training = config.training.model_copy(update=limits)
            if not train_system(config.model_copy(update={"training": training}), console):
                return None
            found = measure([config.output], corpus, config.output)
        measured[name] = found
    say(f"\nall systems done after {(time.monotonic() - started) / 60:.1f} minutes")
    return Experiment(corpus, words, plan.updates, output, measured)


def draw_alignments(experiment: Experiment, names: Sequence[str], folder: Path) -> None:
    """Draw how each of some systems aligns the same sentence pair by forced decoding.

    Args:
        experiment: What was trained.
        names: Systems with attention.
        folder: Where the pictures are written, one for each name.
    """
    source, target = _pair_to_draw(experiment.corpus)
    folder.mkdir(parents=True, exist_ok=True)
    for name in names:
        path = folder / f"{name}.png"
        if path.exists():
            continue
        aligned: Translation = align_pairs(
            load_folder(experiment.output / name), [source], [target]
        )[0]
        if aligned.tokens:
            heatmap(aligned.attention, aligned.source_tokens, aligned.tokens, title=name, path=path)


def _pair_to_draw(corpus: Corpus) -> tuple[str, str]:
    """The longest of the first pairs, of those that fit on a page; aligned by people if any is."""
    pairs = corpus.gold or (corpus.sources, corpus.references)
    first = list(zip(pairs[0], pairs[1], strict=True))[:100]
    lengths = [len(source.split()) for source, _ in first]
    best = max(
        range(len(first)), key=lambda n: lengths[n] if lengths[n] <= _LONGEST_DRAWN else -lengths[n]
    )
    return first[best]
