"""Steps over some tokens: the model's own probabilities, normalised over what is allowed."""

import pytest
import torch

from luong.models.candidates import CandidateMemory, candidate_step
from luong.models.quantized import quantize

TOKENS = torch.tensor([0, 1, 2, 3, 5, 6, 9])
ALLOWED = torch.tensor([[True] * 7, [True] * 4 + [False, True, False], [True] * 4 + [False] * 3])


@pytest.mark.parametrize("tie", ["none", "target"])
@pytest.mark.parametrize("int8", [False, True])
def test_probabilities(make_model, pairs, tie, int8):
    model = make_model(tie_embeddings=tie)
    if int8:
        quantize(model.float())
    with torch.inference_mode():
        memory, state = model.encode(pairs.source, pairs.lengths)
        state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
        places = torch.tensor([2, 4, 6, 2, 5, 1])
        expected_state, expected = model.step(TOKENS[places], state, memory)
        step = candidate_step(model, TOKENS)
        new_state, found = step(places, state, CandidateMemory(memory, ALLOWED))
        assert torch.equal(new_state.hidden, expected_state.hidden)
        assert torch.equal(found.weights, expected.weights)
        probabilities = expected.log_probabilities[:, TOKENS].exp()
        probabilities *= ALLOWED.repeat_interleave(2, 0)
        probabilities /= probabilities.sum(1, keepdim=True)
        torch.testing.assert_close(
            found.log_probabilities.exp(), probabilities, rtol=1e-5, atol=1e-7
        )


def test_dropped_sentences(make_model, pairs):
    model = make_model()
    with torch.inference_mode():
        memory, state = model.encode(pairs.source, pairs.lengths)
        step = candidate_step(model, TOKENS)
        whole = CandidateMemory(memory, ALLOWED)
        places, kept = torch.tensor([2, 4, 6]), torch.tensor([2, 0])
        _, expected = step(places, state, whole)
        _, found = step(places[kept], state.select(kept), whole.select(kept))
        torch.testing.assert_close(found.log_probabilities, expected.log_probabilities[kept])
