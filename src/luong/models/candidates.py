"""Steps that score only some of the target's tokens: the products of a lexical shortlist.

The batch shares one output layer of the tokens that any of its sentences may use, and each
sentence is kept to its own: the probabilities of a sentence do not depend on its batch.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from luong.attention import Memory
from luong.models.decoder import DecoderState
from luong.models.encoder_decoder import StepOutput
from luong.models.quantized_matrix import QuantizedMatrix, linear
from luong.models.seq2seq import Seq2Seq


class CandidateMemory(NamedTuple):
    """A memory, and what each of its sentences may be continued with.

    Attributes:
        memory: Of the sentences.
        allowed: Which candidates a sentence may use, bool (B, n).
    """

    memory: Memory
    allowed: Tensor

    def select(self, rows: Tensor) -> CandidateMemory:
        """The same for the given sentences (integers), in their order."""
        return CandidateMemory(self.memory.select(rows), self.allowed.index_select(0, rows))


CandidateStep = Callable[[Tensor, DecoderState, CandidateMemory], tuple[DecoderState, StepOutput]]


def candidate_step(model: Seq2Seq, tokens: Tensor, inputs: Tensor | None = None) -> CandidateStep:
    """The step of a search that knows only some target tokens, and numbers them 0 to n - 1.

    Args:
        model: In evaluation.
        tokens: Their ids (n,), ascending; the special ones (0 to 3) are among them, so that they
            keep their numbers.
        inputs: The model's `input_table`, if there is one.

    Returns:
        A function like `Seq2Seq.step`, with candidates in place of tokens, whose probabilities are
        normalised over what is allowed to a sentence.

    Example:
        >>> step = candidate_step(model, tokens)
        >>> memory = CandidateMemory(memory, allowed)
        >>> found = beam_search(step, state, memory, beam_size=5, max_lengths=limits)
        >>> ids = [tokens[candidate] for candidate in found[0][0].ids]
    """
    layer = model.output
    whole: Tensor | QuantizedMatrix = layer.logits.weight
    weight: Tensor | QuantizedMatrix
    if isinstance(whole, QuantizedMatrix):
        weight = whole.selected(tokens)
    else:
        weight = whole.index_select(0, tokens)
    bias = layer.logits.bias.index_select(0, tokens)

    def step(
        candidates: Tensor, state: DecoderState, memory: CandidateMemory
    ) -> tuple[DecoderState, StepOutput]:
        def logits(attentional: Tensor) -> Tensor:
            states = layer.factors(attentional)[0]
            if isinstance(weight, QuantizedMatrix):
                return weight.product(states, start=torch.where(memory.allowed, bias, -torch.inf))
            scores = linear(states, weight, bias)
            by_sentence = scores.view(len(memory.allowed), -1, len(tokens))
            by_sentence.masked_fill_(~memory.allowed.unsqueeze(1), -torch.inf)
            return scores

        return model.step(tokens[candidates], state, memory.memory, logits, inputs)

    return step
