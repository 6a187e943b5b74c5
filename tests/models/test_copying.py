"""The pointer-generator against equations 8 and 9 of See 2017, in float64 and by hand."""

import itertools
import math

import pytest
import torch
from torch.nn import functional

from luong.attention import SCORES, WINDOWS
from luong.config import AttentionConfig, ModelConfig
from luong.models import Seq2Seq
from luong.models.copying import CopyMemory, mixed, mixture
from luong.text.vocabulary import END, PAD, UNKNOWN

V = 11
EXACT = {"rtol": 0, "atol": 1e-12}


def copy_memory(tokens, size):
    return CopyMemory(None, torch.tensor(tokens), size)


def test_the_mixture_by_hand():
    # P_vocab = (1/2, 1/4, 1/4), p_gen = 3/4; attention 1/2, 1/4 to token 2, 1/8 to new token 3,
    # and 1/8 to what cannot be copied: 4/7 + 2/7 = 6/7 for token 2, 1/7 for token 3.
    vocabulary = torch.tensor([[0.5, 0.25, 0.25]], dtype=torch.float64)
    weights = torch.tensor([[0.5, 0.125, 0.25, 0.125]], dtype=torch.float64)
    gate = torch.tensor([math.log(3)], dtype=torch.float64)
    found = mixed(vocabulary.log(), gate, weights, copy_memory([[2, 3, 2, -1]], 4))
    expected = [3 / 8, 3 / 16, 3 / 16 + 6 / 28, 1 / 28]
    torch.testing.assert_close(found.log_probabilities.exp()[0].tolist(), expected)
    shares = [0.0, 0.0, (6 / 28) / (3 / 16 + 6 / 28), 1.0]
    torch.testing.assert_close(found.copied[0].tolist(), shares)


def naive(vocabulary, gate, weights, tokens, size):
    """Equation 9, a word at a time."""
    generate = 1 / (1 + math.exp(-gate))
    copyable = [i for i, token in enumerate(tokens) if token >= 0 and weights[i] > 0]
    total = sum(weights[i] for i in copyable)
    generate = generate if total else 1.0
    probabilities = [generate * vocabulary[w] if w < len(vocabulary) else 0.0 for w in range(size)]
    for i in copyable:
        probabilities[tokens[i]] += (1 - generate) * weights[i] / total
    return probabilities


def test_all_words_against_a_loop_with_two_rows_a_source():
    tokens = [[4, 12, 4, 13, -1], [12, 5, -1, -1, -1], [-1] * 5]
    logits, gates = torch.randn(6, V).double(), torch.randn(6).double()
    weights = torch.rand(6, 5).double()  # not normalised, as with local-p
    weights[1] = 0.0
    vocabulary = torch.softmax(logits, 1)
    found = mixed(vocabulary.log(), gates, weights, copy_memory(tokens, 14))
    for row in range(6):
        arguments = vocabulary[row].tolist(), gates[row].item(), weights[row].tolist()
        expected = naive(*arguments, tokens[row // 2], 14)
        torch.testing.assert_close(found.log_probabilities[row].exp().tolist(), expected)
    probabilities = found.log_probabilities.exp()
    torch.testing.assert_close(probabilities.sum(1), torch.ones(6).double())
    # What copying adds, and nothing to padding and the end symbol.
    share = (probabilities * found.copied)[:, [PAD, UNKNOWN, END]]
    assert not share.any()
    assert not found.copied[[1, 4, 5]].any()
    # The parts of the loss say the same.
    targets = torch.tensor([[4, 12], [5, 13], [4, 12]])
    parts = mixture(weights.view(3, 2, 5), torch.tensor(tokens), gates.view(3, 2), targets, V)
    table = vocabulary.view(3, 2, V).log().gather(2, parts.targets.unsqueeze(2)).squeeze(2)
    logs = torch.logaddexp(parts.generate + table, parts.copy)
    expected = found.log_probabilities.view(3, 2, 14).gather(2, targets.unsqueeze(2)).squeeze(2)
    # Row 1 attends to nothing, and words of no position cannot be copied: they are unknown.
    unknown = found.log_probabilities.view(3, 2, 14)[..., UNKNOWN]
    expected = torch.where(expected == -torch.inf, unknown, expected)
    torch.testing.assert_close(logs, expected)


def test_nothing_to_copy_gives_no_gradient_and_no_nan():
    weights = torch.tensor([[[0.0, 1.0]]], dtype=torch.float64, requires_grad=True)
    gates = torch.zeros(1, 1, dtype=torch.float64, requires_grad=True)
    parts = mixture(weights, torch.tensor([[4, -1]]), gates, torch.tensor([[4]]), V)
    assert parts.generate.tolist() == [[0.0]]
    assert parts.copy.tolist() == [[-math.inf]]
    torch.logaddexp(parts.generate - 1.0, parts.copy).sum().backward()
    assert weights.grad.tolist() == [[[0.0, 0.0]]]
    assert gates.grad.tolist() == [[0.0]]


def test_gradients_of_the_mixture():
    tokens = torch.tensor([[4, 12, 4, -1], [5, 13, -1, -1]])
    targets = torch.tensor([[4, 12, 7], [5, 4, 13]])
    table = torch.randn(2, 3, V).double()

    def loss(scores, gates, logits):
        parts = mixture(torch.softmax(scores, -1), tokens, gates, targets, V)
        logs = torch.log_softmax(logits, -1).gather(2, parts.targets.unsqueeze(2)).squeeze(2)
        return torch.logaddexp(parts.generate + logs, parts.copy)

    inputs = [torch.randn(2, 3, 4).double(), torch.randn(2, 3).double(), table]
    assert torch.autograd.gradcheck(loss, [x.requires_grad_() for x in inputs])


@pytest.fixture
def copies(pairs):
    """Of the three sources of `pairs`: each word is its own, 9 and 10 are new to the target."""
    ends = torch.arange(5) >= (pairs.lengths - 1).unsqueeze(1)
    beyond = pairs.source + (pairs.source >= 9) * 2
    return beyond.masked_fill(ends, -1)


COMBINATIONS = list(
    itertools.product(
        (score for score in SCORES if score != "none"),
        WINDOWS,
        ("luong", "bahdanau"),
        (True, False),
    )
)


@pytest.mark.parametrize(("score", "window", "placement", "feeding"), COMBINATIONS)
def test_unroll_equals_steps(make_model, pairs, copies, score, window, placement, feeding):
    options = {"score": score, "window": window, "placement": placement, "input_feeding": feeding}
    model = make_model(copies=True, **options)
    targets = pairs.target
    targets[:, 1:3] = copies[:, :1].clamp_min(UNKNOWN)
    fed = targets.masked_fill(targets >= V, UNKNOWN)
    states, weights, gates = model(
        pairs.source, pairs.lengths, fed, need_weights=True, need_gates=True
    )
    # The gate of equation 8, from what a step has.
    tables = []
    with torch.no_grad():
        parts = mixture(weights, copies, gates, targets, V)
        logs = torch.log_softmax(model.output(states), -1).gather(2, parts.targets.unsqueeze(2))
        memory, state = model.encode(pairs.source, pairs.lengths, copies)
        for step, tokens in enumerate(targets.unbind(1)):
            state, output = model.step(tokens, state, memory)
            tables.append(output.log_probabilities)
            torch.testing.assert_close(output.weights, weights[:, step], **EXACT)
            total = output.log_probabilities.exp().sum(1)
            torch.testing.assert_close(total, torch.ones_like(total), **EXACT)
    expected = torch.stack(tables, 1).gather(2, targets.unsqueeze(2)).squeeze(2)
    unknown = torch.stack(tables, 1)[..., UNKNOWN]
    expected = torch.where(expected == -torch.inf, unknown, expected)
    found = torch.logaddexp(parts.generate + logs.squeeze(2), parts.copy)
    torch.testing.assert_close(found, expected, **EXACT)


def test_the_gate_is_equation_8(make_model, pairs, copies):
    model = make_model(copies=True, placement="bahdanau")
    memory, state = model.encode(pairs.source, pairs.lengths, copies)
    embedded = model.target_embedding(pairs.target[:, 0])
    context = model.decoder.attention(
        state.hidden[:, -1:], memory.memory, positions=state.position.unsqueeze(1)
    ).context[:, 0]
    after, decoded = model.decoder.step(embedded, state, memory.memory)
    parts = torch.cat((context, after.hidden[:, -1], embedded), 1)
    gate = model.decoder.copy_gate
    torch.testing.assert_close(
        decoded.gates, functional.linear(parts, gate.weight, gate.bias)[:, 0]
    )


def test_batch_mates_and_padding_change_nothing(make_model, pairs, copies):
    model = make_model(copies=True)
    memory, state = model.encode(pairs.source, pairs.lengths, copies)
    _, together = model.step(pairs.target[:, 0], state, memory)
    for row, length in enumerate(pairs.lengths.tolist()):
        one = slice(row, row + 1)
        source, own = pairs.source[one, :length], copies[one, :length]
        memory, state = model.encode(source, pairs.lengths[one], own)
        _, alone = model.step(pairs.target[one, 0], state, memory)
        size = alone.log_probabilities.shape[1]
        expected = together.log_probabilities[one]
        torch.testing.assert_close(alone.log_probabilities, expected[:, :size], **EXACT)
        assert (expected[:, size:] == -torch.inf).all()
        torch.testing.assert_close(alone.copied, together.copied[one, :size], **EXACT)


def test_copying_without_attention_is_refused():
    with pytest.raises(ValueError, match=r"copy = true copies the words that are attended"):
        ModelConfig(copies=True, attention=AttentionConfig(score="none"))


def test_copies_are_wanted_just_where_the_model_copies(make_model, pairs, copies):
    for copying, given in ((True, ()), (False, (copies,))):
        with pytest.raises(ValueError, match="needs `copies`"):
            make_model(copies=copying).encode(pairs.source, pairs.lengths, *given)


def test_a_model_without_copying_is_as_it_was():
    torch.manual_seed(1)
    plain = Seq2Seq(ModelConfig(embedding_size=4, hidden_size=4), V, V)
    assert not any("copy" in name or "coverage" in name for name, _ in plain.named_parameters())
