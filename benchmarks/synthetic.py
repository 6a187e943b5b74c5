"""The model that is measured, on random tokens, so that every size is what a table says it is."""

from __future__ import annotations

import torch
from torch import Tensor

from luong.config import AttentionConfig, ModelConfig, TrainingConfig
from luong.models import Seq2Seq
from luong.search.beam import beam_search
from luong.search.input_tables import InputTables
from luong.text.batches import Batch
from luong.text.vocabulary import BEGIN, END, SPECIAL_TOKENS
from luong.training.update import Updater

NEVER = -1e4
TABLES = InputTables()
"""As a translator has them."""


def make_model(
    *, hidden: int = 512, vocabulary: int = 8000, embedding: int = 256, dropout: float = 0.3
) -> Seq2Seq:
    """Bidirectional LSTM, LSTM, general attention after it, input feeding; it never ends."""
    torch.manual_seed(1)
    config = ModelConfig(
        embedding_size=embedding,
        hidden_size=hidden,
        dropout=dropout,
        tie_embeddings="none",
        attention=AttentionConfig(score="general", input_feeding=True),
    )
    model = Seq2Seq(config, vocabulary, vocabulary)
    with torch.no_grad():
        model.output.logits.bias[END] = NEVER  # so that all outputs have the length asked for
    return model


def make_batch(pairs: int, source: int, target: int, vocabulary: int) -> Batch:
    """Pairs of equal lengths, end symbols counted."""

    def sentences(length: int) -> Tensor:
        ends = torch.full((pairs, 1), END)
        words = torch.randint(len(SPECIAL_TOKENS), vocabulary, (pairs, length - 1))
        return torch.cat((words, ends), 1)

    outputs = sentences(target)
    inputs = torch.cat((torch.full((pairs, 1), BEGIN), outputs[:, :-1]), 1)
    lengths = torch.full((pairs,), source)
    return Batch(sentences(source), lengths, inputs, outputs, torch.arange(pairs))


def make_updater(model: Seq2Seq, dtype: torch.dtype = torch.float32) -> Updater:
    """Adam, clipped at norm 1, without label smoothing."""
    return Updater(model, TrainingConfig(label_smoothing=0.0), dtype)


@torch.inference_mode()
def encoded(model: Seq2Seq, batch: Batch) -> tuple:
    """The memory and the first state of a search."""
    model.eval()
    return model.encode(batch.source, batch.source_lengths)


@torch.inference_mode()
def search(model: Seq2Seq, start: tuple, *, beam: int, length: int) -> None:
    """A search of `length` steps, the last of which gives the end symbol."""
    memory, state = start
    limits = torch.full((len(state.hidden),), length - 1)
    beam_search(TABLES.step(model), state, memory, beam_size=beam, max_lengths=limits)
