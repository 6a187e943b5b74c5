"""Coverage in the decoder against a loop over equations 10, 11 and 13 of See 2017."""

import pytest
import torch

from luong.models.copying import CopyMemory
from luong.text.batches import Batch
from luong.training.loss import batch_loss

EXACT = {"rtol": 0, "atol": 1e-12}
OPTIONS = [
    {"score": score, "placement": placement, "input_feeding": feeding}
    for score in ("additive", "concat")
    for placement in ("luong", "bahdanau")
    for feeding in (True, False)
]


@pytest.mark.parametrize("options", OPTIONS)
def test_unroll_equals_steps_and_the_coverage_is_the_sum(make_model, pairs, options):
    model = make_model(coverage=True, **options)
    states, weights = model(*pairs, need_weights=True)
    memory, state = model.encode(pairs.source, pairs.lengths)
    seen = torch.zeros_like(weights[:, 0])
    for step, tokens in enumerate(pairs.target.unbind(1)):
        torch.testing.assert_close(state.coverage, seen, **EXACT)
        state, output = model.step(tokens, state, memory)
        torch.testing.assert_close(output.weights, weights[:, step], **EXACT)
        torch.testing.assert_close(state.attentional, states[:, step], **EXACT)
        seen = seen + output.weights
    assert not torch.allclose(weights, make_other(model)(*pairs, need_weights=True)[1])


def make_other(model):
    with torch.no_grad():
        model.decoder.attention.score.coverage_weight.zero_()
    return model


def test_weights_against_a_loop_over_positions(make_model, pairs):
    model = make_model(score="additive", coverage=True, input_feeding=False)
    score = model.decoder.attention.score
    _, weights = model(*pairs, need_weights=True)
    keys = model.encoder(model.source_embedding(pairs.source), pairs.lengths).states
    memory, state = model.encode(pairs.source, pairs.lengths)
    seen = torch.zeros(3, 5).double()
    for step, tokens in enumerate(pairs.target.unbind(1)):
        state, _ = model.step(tokens, state, memory)
        for row, length in enumerate(pairs.lengths.tolist()):
            query = score.query_weight @ state.hidden[row, -1] + score.bias
            scores = []
            for s in range(length):
                feature = score.coverage_weight * seen[row, s]
                inner = query + score.key_weight @ keys[row, s] + feature
                scores.append(score.weight_vector @ torch.tanh(inner))
            expected = torch.softmax(torch.stack(scores), 0)
            torch.testing.assert_close(weights[row, step, :length], expected, **EXACT)
            assert not weights[row, step, length:].any()
        seen = seen + weights[:, step]


def test_the_loss_of_coverage_against_a_loop(make_model, pairs):
    model = make_model(score="additive", coverage=True)
    output = pairs.target.clone()
    output[1, 2:] = 0  # padding
    batch = Batch(pairs.source, pairs.lengths, pairs.target, output, torch.arange(3))
    _, weights = model(*pairs, need_weights=True)
    expected = 0.0
    for row in range(3):
        seen = torch.zeros(5).double()
        for step in range(4):
            if output[row, step]:
                expected += sum(map(min, weights[row, step].tolist(), seen.tolist()))
            seen = seen + weights[row, step]
    plain = batch_loss(model, batch, divisor=10)
    covered = batch_loss(model, batch, coverage_weight=2.0, divisor=10)
    difference = (covered.smoothed - plain.smoothed).item()
    assert difference == pytest.approx(2.0 / 10 * float(expected), abs=1e-12)
    assert torch.equal(covered.likelihood, plain.likelihood)


@pytest.mark.slow
def test_gradients_of_all_parameters_with_coverage_and_copying(make_model, pairs):
    model = make_model(score="additive", coverage=True, copies=True, hidden_size=2)
    copies = pairs.source.masked_fill(pairs.source == 0, -1)
    copies[0, 0], output = 12, pairs.target.clone()
    output[0, 1] = 12
    batch = Batch(pairs.source, pairs.lengths, pairs.target, output, torch.arange(3), copies)
    named = dict(model.named_parameters())

    def loss(*values):
        arguments = (batch, 0.1, 0.7)
        return torch.func.functional_call(
            Lossy(model), dict(zip(map("model.{}".format, named), values, strict=True)), arguments
        )

    values = [value.detach().clone().requires_grad_() for value in named.values()]
    assert torch.autograd.gradcheck(loss, values, atol=1e-6)


class Lossy(torch.nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, batch, smoothing, weight):
        return batch_loss(
            self.model, batch, smoothing=smoothing, coverage_weight=weight, divisor=3
        ).smoothed


def test_beams_keep_their_own_coverage(make_model, pairs):
    model = make_model(score="concat", coverage=True, copies=True)
    copies = torch.full_like(pairs.source, 4)
    memory, state = model.encode(pairs.source, pairs.lengths, copies)
    assert isinstance(memory, CopyMemory)
    state = state.select(torch.arange(len(pairs.lengths)).repeat_interleave(2))
    state, _ = model.step(torch.tensor([4, 5, 4, 5, 4, 5]), state, memory)
    rows = torch.tensor([5, 0])
    chosen = state.select(rows)
    assert torch.equal(chosen.coverage, state.coverage[rows])
    torch.testing.assert_close(state.coverage.sum(1), torch.ones(6).double())
