"""A system of a paper: how its settings differ from the others', training it, measuring it."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, cast

from rich.console import Console

from luong.config import RunConfig, parse_config
from luong.evaluation import alignment_scores, corpus_scores
from luong.files import write_whole
from luong.folder import load_folder
from luong.reproduce.corpus import Corpus
from luong.search import Translation, Translator, align_pairs
from luong.text.vocabulary import SPECIAL_TOKENS, UNKNOWN
from luong.training import train

RESULT = "result.json"
OUTPUT, REPLACED = "test.out", "test.replaced.out"


class Published(NamedTuple):
    """What a paper's table says of a system, as it is printed there; "" where it says nothing."""

    perplexity: str = ""
    bleu: str = ""
    replaced: str = ""
    error_rate: str = ""


@dataclass(frozen=True)
class System:
    """A system to train.

    Attributes:
        name: What it and its folder are called.
        model: Its settings in `[model]` beyond those that all share; `attention` is nested.
    """

    name: str
    model: Mapping[str, Any]

    def config(self, shared: RunConfig, output: Path) -> RunConfig:
        """The settings of its run.

        Args:
            shared: What all systems of the experiment share.
            output: The folder of the experiment.
        """
        table = shared.model_dump(mode="json", exclude_none=True)
        table["output"] = str(output / self.name)
        own = dict(self.model)
        table["model"]["attention"] |= own.pop("attention", {})
        table["model"] |= own
        return cast(RunConfig, parse_config(table, self.name))


@dataclass(frozen=True)
class Measured:
    """What a system reached on the test pairs.

    Attributes:
        perplexity: Of a target word, the end symbol among them, unknown ones as one word.
        bleu: sacreBLEU of the translations, unknown words as "<unk>".
        replaced: The same with unknown words replaced by the source word attended to most.
        error_rate: Of alignments by forced decoding (AER); None without gold links or attention.
        members: The systems of an ensemble.
    """

    perplexity: float
    bleu: float
    replaced: float
    error_rate: float | None = None
    members: list[str] = field(default_factory=list)


def train_system(config: RunConfig, console: Console) -> bool:
    """Train a system, or go on with it; false if Ctrl-C stopped it.

    Raises:
        UserError: See `luong.training.train`.
    """
    return not train(config, resume=True, console=console).interrupted


def read_result(folder: Path) -> Measured | None:
    """What was measured of a finished system; None if it is not finished."""
    path = folder / RESULT
    return Measured(**json.loads(path.read_bytes())) if path.exists() else None


def measure(folders: Sequence[Path], corpus: Corpus, output: Path) -> Measured:
    """Translate and force-decode the test pairs, and keep what was found.

    Args:
        folders: The model folder, or those of an ensemble.
        corpus: Test pairs, and gold links where there are any.
        output: Where the translations and the result are written.

    Raises:
        UserError: A folder cannot be read.
    """
    members = [load_folder(folder) for folder in folders]
    translations = Translator(members).translate(corpus.sources, replace_unknown=False)
    texts = [translation.text for translation in translations]
    # The search does not depend on what unknown words are replaced by afterwards.
    unknown = [
        line for line, found in enumerate(translations) if SPECIAL_TOKENS[UNKNOWN] in found.tokens
    ]
    again = Translator(members).translate([corpus.sources[line] for line in unknown])
    replaced = list(texts)
    for line, translation in zip(unknown, again, strict=True):
        replaced[line] = translation.text
    bleu, replaced_bleu = (
        corpus_scores(lines, corpus.references, target_language=corpus.target_language).bleu
        for lines in (texts, replaced)
    )
    error_rate = None
    if corpus.gold:
        links = [
            pair.alignment
            for pair in align_pairs(members, corpus.gold.sources, corpus.gold.targets)
        ]
        if any(links):
            error_rate = alignment_scores(links, corpus.gold.links).error_rate
    measured = Measured(
        perplexity=forced_perplexity(align_pairs(members, corpus.sources, corpus.references)),
        bleu=bleu,
        replaced=replaced_bleu,
        error_rate=error_rate,
        members=[folder.name for folder in folders] if len(folders) > 1 else [],
    )
    output.mkdir(parents=True, exist_ok=True)
    for name, lines in ((OUTPUT, texts), (REPLACED, replaced)):
        write_whole(output / name, "".join(line + "\n" for line in lines).encode())
    write_whole(output / RESULT, json.dumps(asdict(measured), indent=2).encode())
    return measured


def forced_perplexity(pairs: Sequence[Translation]) -> float:
    """Perplexity of the targets of force-decoded pairs, see `align_pairs`."""
    shown = [pair for pair in pairs if pair.tokens]
    tokens = sum(len(pair.tokens) + 1 for pair in shown)
    likelihood = -sum(pair.score * (len(pair.tokens) + 1) for pair in shown)
    return math.exp(min(likelihood / max(1, tokens), 700.0))
