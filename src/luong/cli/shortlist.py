"""`luong shortlist`: learn which target tokens a source sentence is likely to need."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

MAX_PAIRS = 200_000  # of a larger corpus every n-th is taken: that bounds time and memory
_LONGEST = 100  # tokens of a side; longer pairs say little about which words translate which


def shortlist(
    model: Annotated[str, typer.Argument(help="The model folder.", metavar="MODEL")],
    source: Annotated[
        str | None,
        typer.Option(help="Source lines.", metavar="FILE", show_default="the training data"),
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="Their translations.", metavar="FILE", show_default="likewise"),
    ] = None,
    frequent: Annotated[
        int, typer.Option(min=1, help="So many frequent tokens may stand in every sentence.")
    ] = 200,
    translations: Annotated[
        int, typer.Option(min=1, help="So many translations for each source token.")
    ] = 50,
) -> None:
    """Learn a lexical shortlist from sentence pairs, and keep it in the model folder.

    With it, `luong translate --shortlist` computes the scores of likely tokens only.
    """
    from luong.errors import UserError

    if (source is None) != (target is None):
        raise UserError("--source and --target belong together: name both files, or neither.")
    used = learn_for_folder(
        Path(model), source, target, frequent=frequent, translations=translations
    )
    typer.echo(f"learnt from {used:,} pairs")
    typer.echo(f"translate:  luong translate {shlex.quote(model)} --shortlist < in > out")


def learn_for_folder(
    model: Path, source: str | None, target: str | None, *, frequent: int, translations: int
) -> int:
    """Learn a shortlist and write it into a model folder.

    Args:
        model: The folder.
        source: Source lines; None, as the target: the data that the model was trained on.
        target: Their translations.
        frequent: See `learn_shortlist`.
        translations: See `learn_shortlist`.

    Returns:
        How many pairs it was learnt from.

    Raises:
        UserError: A folder or file cannot be read, or the files are of unequal length.
    """
    from luong.config import PairFiles
    from luong.errors import UserError
    from luong.folder import load_folder, write_shortlist
    from luong.search.copying import refuse_shortlist
    from luong.text.corpus import ParallelCorpus
    from luong.text.shortlist import learn_shortlist

    folder = load_folder(model)
    refuse_shortlist(folder.model)
    files = folder.config.data.train
    if source is not None and target is not None:
        files = PairFiles(source=Path(source), target=Path(target))
    corpus = ParallelCorpus.open(files)
    tokenizers = folder.source_tokenizer, folder.target_tokenizer
    every = -(-len(corpus) // MAX_PAIRS)

    def pairs() -> Iterator[tuple[list[int], list[int]]]:
        for line, texts in enumerate(corpus):
            if line % every == 0:
                ids = [t.encode(text).ids for t, text in zip(tokenizers, texts, strict=True)]
                if all(0 < len(side) <= _LONGEST for side in ids):
                    yield ids[0], ids[1]

    found = list(pairs())
    if not found:
        raise UserError(f"{corpus.name}: no pair has 1 to {_LONGEST} tokens on both sides.")
    sizes = tokenizers[0].size, tokenizers[1].size
    learnt = learn_shortlist(found, *sizes, frequent=frequent, translations=translations)
    write_shortlist(learnt, model)
    return len(found)
