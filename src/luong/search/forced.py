"""Forced decoding: how probable a model finds given translations, and how it aligns them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, cast

import torch
from torch import Tensor

from luong.errors import UserError
from luong.search.beam import Hypothesis, MemoryT, StateT, Step
from luong.search.copying import encode, read_copies
from luong.search.ensemble import as_one
from luong.search.links import aligned_rows, word_links
from luong.search.trained import TrainedModel, evaluating
from luong.search.translation import Translation
from luong.text.encoding import Encoding, PieceTokenizer
from luong.text.vocabulary import BEGIN, END, PAD, SPECIAL_TOKENS, UNKNOWN


def forced_decode(
    step: Step[StateT, MemoryT], state: StateT, memory: MemoryT, targets: Tensor
) -> list[Hypothesis]:
    """Step through known outputs, where a search would look for the best.

    Args:
        step: As for `beam_search`.
        state: Before the first token, one row per sentence.
        memory: What the state attends to, one row per sentence.
        targets: The outputs (B, T): tokens, the end symbol, then padding; int64, on the device
            of the state.

    Returns:
        One hypothesis a sentence; its score is the mean log-probability of a token, the end
        symbol among them.

    Example:
        >>> memory, state = model.encode(source, lengths)
        >>> forced_decode(model.step, state, memory, torch.tensor([[17, 4, END]]))[0].score
        -2.1
    """
    logs, weights = [], []
    tokens = torch.full_like(targets[:, 0], BEGIN)
    for column in targets.unbind(1):
        state, output = step(tokens, state, memory)
        aimed = output.log_probabilities.gather(1, column.unsqueeze(1))
        if getattr(output, "copied", None) is not None:
            # As in training, what nothing attends to cannot be copied and is an unknown word.
            unknown = output.log_probabilities[:, UNKNOWN].unsqueeze(1)
            aimed = torch.where(aimed == -torch.inf, unknown, aimed)
        logs.append(aimed)
        weights.append(output.weights)
        tokens = column
    lengths = (targets != PAD).sum(1)
    real = torch.cat(logs, 1).double().masked_fill(targets == PAD, 0.0).sum(1)
    attention = torch.stack(weights, 1)
    return [
        Hypothesis(ids[: length - 1], total / length, total, attention[row, :length])
        for row, (ids, length, total) in enumerate(
            zip(targets.tolist(), lengths.tolist(), real.tolist(), strict=True)
        )
    ]


class _Pair(NamedTuple):
    source_line: str
    target_line: str
    source: Encoding
    target: Encoding


def align_pairs(
    folder: TrainedModel | Sequence[TrainedModel],
    sources: Sequence[str],
    targets: Sequence[str],
    *,
    batch_size: int = 64,
) -> list[Translation]:
    """Align given sentence pairs by forced decoding (Luong 2015, section 5.4).

    Args:
        folder: A loaded model folder, or those of an ensemble.
        sources: Source lines.
        targets: Their translations, as many.
        batch_size: Most pairs in a batch.

    Returns:
        For each pair a `Translation` whose text is the target line, whose score is the mean
        log-probability of its tokens (the end symbol among them), and whose attention and
        alignment are those of the model. A pair with a blank side is not shown to the model.

    Raises:
        UserError: The two sides have different numbers of lines, or the folders of an ensemble
            have different vocabularies.

    Example:
        >>> align_pairs(load_folder("runs/de-en"), ["ein Hund"], ["a dog"])[0].alignment
        [(0, 0), (1, 1)]
    """
    if len(sources) != len(targets):
        raise UserError(
            f"There are {len(sources)} source lines and {len(targets)} target lines: line n of "
            "one must be the translation of line n of the other."
        )
    one = as_one(folder)
    pairs = [
        _Pair(
            source, target, one.source_tokenizer.encode(source), one.target_tokenizer.encode(target)
        )
        for source, target in zip(sources, targets, strict=True)
    ]
    results = [
        Translation(pair.source_line, pair.target_line, 0.0, [], [], torch.zeros(0, 0), [])
        for pair in pairs
    ]
    shown = [place for place, pair in enumerate(pairs) if pair.source.ids and pair.target.ids]
    shown.sort(key=lambda place: -len(pairs[place].target.ids))
    for start in range(0, len(shown), batch_size):
        places = shown[start : start + batch_size]
        for place, result in zip(
            places, _align_batch(one, [pairs[place] for place in places]), strict=True
        ):
            results[place] = result
    return results


def _align_batch(folder: TrainedModel, batch: Sequence[_Pair]) -> list[Translation]:
    """Forced decoding of pairs, none of them with a blank side."""
    model, device = folder.model, torch.device(folder.device)
    lengths = torch.tensor([len(pair.source.ids) + 1 for pair in batch])
    source = _ended([pair.source.ids for pair in batch])
    targets = [pair.target.ids for pair in batch]
    copies = read_copies(
        folder, [pair.source_line for pair in batch], [len(pair.source.ids) for pair in batch]
    )
    if copies is not None:
        writer = cast(PieceTokenizer, folder.target_tokenizer)
        targets = [
            one.targets(writer.pieces(pair.target_line), writer)
            for one, pair in zip(copies, batch, strict=True)
        ]
    target = _ended(targets)
    with torch.inference_mode(), torch.autocast(device.type, enabled=False), evaluating(model):
        memory, state = encode(model, source.to(device), lengths.to(device), copies)
        found = forced_decode(model.step, state, memory, target.to(device))
    return [
        _aligned(folder, pair, hypothesis) for pair, hypothesis in zip(batch, found, strict=True)
    ]


def _ended(rows: Sequence[Sequence[int]]) -> Tensor:
    """Ids with their end symbols, padded."""
    padded = torch.full((len(rows), max(map(len, rows)) + 1), PAD)
    for row, ids in enumerate(rows):
        padded[row, : len(ids) + 1] = torch.tensor([*ids, END])
    return padded


def _aligned(folder: TrainedModel, pair: _Pair, hypothesis: Hypothesis) -> Translation:
    columns = len(pair.source.ids) + 1
    rows = aligned_rows(hypothesis.attention[:, :columns], folder.alignment_row)
    attention = rows.to("cpu", torch.float32, copy=True)

    def raw(line: str, encoding: Encoding, tokens: list[str]) -> list[str]:
        """Tokens as they stand in the line, so that unknown ones can be read."""
        return [
            line[start:end].strip() or token
            for (start, end), token in zip(encoding.spans, tokens, strict=True)
        ]

    source_tokens = folder.source_tokenizer.tokens(pair.source.ids)
    return Translation(
        source=pair.source_line,
        text=pair.target_line,
        score=hypothesis.score,
        tokens=raw(pair.target_line, pair.target, folder.target_tokenizer.tokens(pair.target.ids)),
        source_tokens=[
            *raw(pair.source_line, pair.source, source_tokens),
            SPECIAL_TOKENS[END],
        ],
        attention=attention,
        alignment=word_links(
            attention, pair.source_line, pair.source.spans, pair.target_line, pair.target.spans
        ),
    )
