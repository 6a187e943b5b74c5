"""The plain PyTorch loop that toolkits are compared with: what a careful user writes in a morning.

An nn.LSTM encoder, an nn.LSTMCell decoder, general attention, input feeding, batches of near-equal
length. PRECISION=medium lets torch multiply by oneDNN, BF16=1 trains under bfloat16 autocast.

    python plain.py train DATA MODEL UPDATES
    python plain.py translate DATA MODEL BEAM BATCH SOURCE OUTPUT
"""

from __future__ import annotations

import contextlib
import math
import os
import random
import sys
import time
from pathlib import Path

import sentencepiece
import torch
from torch import Tensor, nn
from torch.nn import functional

PAD, BEGIN, END = 0, 2, 3
LONGEST = 100
LOG_EVERY = 5

torch.set_float32_matmul_precision(os.environ.get("PRECISION", "highest"))


def read(data: Path, path: Path) -> list[list[int]]:
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{data}/spm.model")
    return [processor.encode(line.strip())[:LONGEST] for line in path.read_text().splitlines()]


def padded(rows: list[list[int]]) -> Tensor:
    longest = max(map(len, rows))
    return torch.tensor([row + [PAD] * (longest - len(row)) for row in rows])


class Translator(nn.Module):
    """Encoder, decoder and output layer; V pieces, states of `hidden`."""

    def __init__(self, pieces: int = 8000, embedding: int = 256, hidden: int = 512) -> None:
        super().__init__()
        self.source_embedding = nn.Embedding(pieces, embedding, PAD)
        self.target_embedding = nn.Embedding(pieces, embedding, PAD)
        self.encoder = nn.LSTM(embedding, hidden // 2, bidirectional=True, batch_first=True)
        self.cell = nn.LSTMCell(embedding + hidden, hidden)
        self.key = nn.Linear(hidden, hidden, bias=False)
        self.combine = nn.Linear(2 * hidden, hidden, bias=False)
        self.output = nn.Linear(hidden, pieces)
        self.dropout = nn.Dropout(0.3)
        for parameter in self.parameters():
            nn.init.uniform_(parameter, -0.1, 0.1)

    def encode(self, source: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]]:
        lengths = (source != PAD).sum(1)
        embedded = self.dropout(self.source_embedding(source))
        packed = nn.utils.rnn.pack_padded_sequence(
            embedded, lengths, batch_first=True, enforce_sorted=False
        )
        states, (hidden, cell) = self.encoder(packed)
        values, _ = nn.utils.rnn.pad_packed_sequence(states, batch_first=True)
        memory = (values, self.key(values), source == PAD)
        return memory, (torch.cat([*hidden], 1), torch.cat([*cell], 1))

    def step(self, embedded, fed, state, memory):
        values, keys, blocked = memory
        hidden, cell = self.cell(torch.cat([embedded, fed], 1), state)
        scores = torch.bmm(keys, hidden[:, :, None])[:, :, 0].masked_fill(blocked, -math.inf)
        context = torch.bmm(scores.softmax(1)[:, None], values)[:, 0]
        combined = torch.tanh(self.combine(torch.cat([context, hidden], 1)))
        return self.dropout(combined), (hidden, cell)

    def forward(self, source: Tensor, target: Tensor) -> Tensor:
        memory, state = self.encode(source)
        embedded = self.dropout(self.target_embedding(target))
        fed = memory[0].new_zeros(len(source), memory[0].shape[2])
        attentional = []
        for position in range(target.shape[1]):
            fed, state = self.step(embedded[:, position], fed, state, memory)
            attentional.append(fed)
        return self.output(torch.stack(attentional, 1))


def batches(pairs: list[tuple[list[int], list[int]]]):
    """64 pairs of near-equal target length at a time, in random order, for ever."""
    while True:
        random.shuffle(pairs)
        ordered = sorted(pairs, key=lambda pair: len(pair[1]))
        groups = [ordered[start : start + 64] for start in range(0, len(ordered), 64)]
        random.shuffle(groups)
        yield from groups


def train(data: Path, path: Path, updates: int) -> None:
    torch.manual_seed(1)
    random.seed(1)
    sources, targets = read(data, data / "train.en"), read(data, data / "train.de")
    pairs = [([*source, END], target) for source, target in zip(sources, targets, strict=True)]
    model = Translator()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3)
    narrow = os.environ.get("BF16")
    cast = torch.autocast("cpu", torch.bfloat16) if narrow else contextlib.nullcontext()
    marked, tokens = time.perf_counter(), 0
    for update, batch in enumerate(batches(pairs), 1):
        wanted = padded([[*target, END] for _, target in batch])
        with cast:
            logits = model(
                padded([source for source, _ in batch]),
                padded([[BEGIN, *target] for _, target in batch]),
            )
            loss = functional.cross_entropy(
                logits.flatten(0, 1), wanted.flatten(), ignore_index=PAD
            )
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        tokens += int((wanted != PAD).sum())
        if update % LOG_EVERY == 0:
            now = time.perf_counter()
            rate = tokens / (now - marked)
            print(f"update {update} loss {loss.item():.3f} tokens/s {rate:.1f}", flush=True)
            marked, tokens = now, 0
        if update == updates:
            break
    torch.save(model.state_dict(), path)


def greedy(model: Translator, source: Tensor) -> list[list[int]]:
    memory, state = model.encode(source)
    fed = memory[0].new_zeros(len(source), memory[0].shape[2])
    last = torch.full((len(source),), BEGIN)
    found = []
    for _ in range(LONGEST):
        fed, state = model.step(model.target_embedding(last), fed, state, memory)
        last = torch.where(last == END, END, model.output(fed).argmax(1))
        found.append(last)
        if bool((last == END).all()):
            break
    rows = torch.stack(found, 1).tolist()
    return [row[: row.index(END)] if END in row else row for row in rows]


def beam_search(model: Translator, source: Tensor, width: int) -> list[list[int]]:
    """Hypotheses are ranked by mean log-probability; a sentence ends with `width` of them."""
    memory, state = model.encode(source)
    count = len(source)
    memory = tuple(part.repeat_interleave(width, 0) for part in memory)
    state = tuple(part.repeat_interleave(width, 0) for part in state)
    fed = memory[0].new_zeros(count * width, memory[0].shape[2])
    last = torch.full((count * width,), BEGIN)
    written = last.new_empty(count * width, 0)
    totals = torch.full((count, width), -math.inf)
    totals[:, 0] = 0.0
    finished: list[list[tuple[float, list[int]]]] = [[] for _ in range(count)]
    first_row = torch.arange(count)[:, None] * width
    for length in range(1, LONGEST + 1):
        fed, state = model.step(model.target_embedding(last), fed, state, memory)
        steps = model.output(fed).log_softmax(1).view(count, width, -1)
        pieces = steps.shape[2]
        best, places = (totals[:, :, None] + steps).view(count, -1).topk(2 * width)
        rows, tokens = places // pieces, places % pieces
        ended = (tokens == END) & (best > -math.inf)
        for sentence, rank in ended[:, :width].nonzero().tolist():
            row = sentence * width + int(rows[sentence, rank])
            score = best[sentence, rank].item() / length
            finished[sentence].append((score, written[row].tolist()))
        totals, kept = best.masked_fill(tokens == END, -math.inf).topk(width)
        for sentence, hypotheses in enumerate(finished):
            if len(hypotheses) >= width:
                totals[sentence] = -math.inf
        if all(len(hypotheses) >= width for hypotheses in finished):
            break
        chosen = (first_row + rows.gather(1, kept)).flatten()
        last = tokens.gather(1, kept).flatten()
        written = torch.cat([written[chosen], last[:, None]], 1)
        fed, state = fed[chosen], tuple(part[chosen] for part in state)
    return [
        max(hypotheses)[1] if hypotheses else written[sentence * width].tolist()
        for sentence, hypotheses in enumerate(finished)
    ]


@torch.inference_mode()
def translate(data: Path, path: Path, width: int, size: int, source: Path, output: Path) -> None:
    model = Translator()
    model.load_state_dict(torch.load(path))
    model.eval()
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{data}/spm.model")

    def search(batch: list[list[int]]) -> list[list[int]]:
        return (
            greedy(model, padded(batch)) if width == 1 else beam_search(model, padded(batch), width)
        )

    search([[*row, END] for row in read(data, source)[:8]][:size])
    start = time.perf_counter()
    rows = [[*row, END] for row in read(data, source)]
    order = sorted(range(len(rows)), key=lambda row: len(rows[row]))
    found: list[str] = [""] * len(rows)
    for first in range(0, len(order), size):
        batch = order[first : first + size]
        for row, ids in zip(batch, search([rows[row] for row in batch]), strict=True):
            found[row] = processor.decode(ids)
    print(f"seconds {time.perf_counter() - start:.4f}")
    output.write_text("".join(f"{line}\n" for line in found))


if __name__ == "__main__":
    verb, data, path, *rest = sys.argv[1:]
    if verb == "train":
        train(Path(data), Path(path), int(rest[0]))
    else:
        width, size, source, output = rest
        translate(Path(data), Path(path), int(width), int(size), Path(source), Path(output))
