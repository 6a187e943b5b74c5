"""The whole model: its gradient, its invariances, its precision, and that it learns."""

import copy

import pytest
import torch
from torch.nn import functional

from luong.models import Seq2Seq
from luong.models.cells import LSTMCell
from luong.models.encoders import RecurrentEncoder

EXACT = {"rtol": 0, "atol": 1e-12}
SAMPLE = [
    {},
    {"score": "additive", "placement": "bahdanau", "cell": "gru", "encoder_layers": 2},
    {"score": "location", "window": "local-p", "input_feeding": False, "reverse_source": True},
    {"score": "concat", "window": "local-m", "bidirectional": False, "decoder_layers": 2},
    {"score": "scaled-dot", "window": "local-p", "tie_embeddings": "all"},
    {"score": "none", "reverse_source": True, "cell": "gru"},
    {"encoder": "convolutional", "encoder_layers": 2, "decoder_layers": 2},
    {"encoder": "mean", "score": "additive", "placement": "bahdanau"},
    {"encoder": "self-attention", "heads": 2, "encoder_layers": 2, "window": "local-p"},
]


@pytest.fixture
def encoder_stays_wide_where_it_must(monkeypatch):
    """On a CPU without bfloat16 torch has no narrow LSTM; there what uses it is float32."""
    try:
        with torch.autocast("cpu", torch.bfloat16):
            torch.nn.LSTM(2, 2)(torch.zeros(1, 1, 2))
    except RuntimeError:
        forward = RecurrentEncoder.forward
        wide = torch.autocast("cpu", enabled=False)
        monkeypatch.setattr(RecurrentEncoder, "forward", wide(forward))
        monkeypatch.setattr(LSTMCell, "sequence", wide(LSTMCell.sequence))


def loss_of(model, pairs):
    states, _ = model(*pairs)
    return functional.cross_entropy(model.output(states).flatten(0, 1), pairs.target.flatten())


@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_gradcheck_of_the_loss(make_model, pairs, options):
    model = make_model(hidden_size=4, embedding_size=3, **options)
    parameters = tuple(model.parameters())
    few = type(pairs)(pairs.source[:2, :3], torch.tensor([3, 2]), pairs.target[:2, :2])
    assert torch.autograd.gradcheck(lambda *_: loss_of(model, few), parameters, fast_mode=True)


def test_every_parameter_gets_a_gradient(make_model, pairs):
    for options in SAMPLE:
        model = make_model(**options)
        loss_of(model, pairs).backward()
        for name, parameter in model.named_parameters():
            # Distributed training waits for each parameter, an empty one included.
            assert parameter.grad is not None, (options, name)
            if name.endswith("attention.key.bias"):
                continue  # it adds the same to all scores of a query: zero, but for rounding
            assert not parameter.numel() or parameter.grad.abs().max() > 0, (options, name)


@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_a_sentence_does_not_depend_on_its_batch(make_model, pairs, options):
    model = make_model(**options)
    states, weights = model(*pairs, need_weights=True)
    for row, length in enumerate(pairs.lengths.tolist()):
        one = slice(row, row + 1)
        alone, own = model(
            pairs.source[one, :length], pairs.lengths[one], pairs.target[one], need_weights=True
        )
        torch.testing.assert_close(alone[0], states[row], **EXACT)
        torch.testing.assert_close(own[0], weights[row, :, :length], **EXACT)
        assert not weights[row, :, length:].any()


@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_padding_and_order_change_nothing(make_model, pairs, options):
    model = make_model(**options)
    states, weights = model(*pairs, need_weights=True)
    padding = torch.arange(5) >= pairs.lengths.unsqueeze(1)
    garbage = torch.where(padding, torch.randint(0, 11, (3, 5)), pairs.source)
    dirty_states, dirty_weights = model(garbage, pairs.lengths, pairs.target, need_weights=True)
    assert torch.equal(dirty_states, states)
    assert torch.equal(dirty_weights, weights)
    wider = functional.pad(pairs.source, (0, 3))
    wide_states, wide_weights = model(wider, pairs.lengths, pairs.target, need_weights=True)
    torch.testing.assert_close(wide_states, states, **EXACT)
    torch.testing.assert_close(wide_weights[..., :5], weights, **EXACT)
    order = torch.tensor([1, 2, 0])
    shuffled, _ = model(*(part[order] for part in pairs))
    torch.testing.assert_close(shuffled, states[order], **EXACT)


def test_padding_gets_no_gradient(make_model, pairs):
    model = make_model(tie_embeddings="none")
    loss_of(model, pairs).backward()
    assert not model.source_embedding.weight.grad[0].any()


@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_float32_agrees_with_float64(make_model, pairs, options):
    model = make_model(**options)
    narrow = copy.deepcopy(model).float()
    states, weights = model(*pairs, need_weights=True)
    narrow_states, narrow_weights = narrow(*pairs, need_weights=True)
    assert narrow_states.dtype == torch.float32
    torch.testing.assert_close(narrow_states.double(), states, rtol=0, atol=2e-6)
    torch.testing.assert_close(narrow_weights.double(), weights, rtol=0, atol=2e-6)
    loss_of(model, pairs).backward()
    loss_of(narrow, pairs).backward()
    for wide, each in zip(model.parameters(), narrow.parameters(), strict=True):
        torch.testing.assert_close(each.grad.double(), wide.grad, rtol=1e-4, atol=1e-5)


@pytest.mark.usefixtures("encoder_stays_wide_where_it_must")
@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_bfloat16_autocast_stays_close_and_keeps_states_wide(make_config, pairs, options):
    model = Seq2Seq(make_config(hidden_size=16, **options), 11, 11)
    parameters = list(model.parameters())
    loss = loss_of(model, pairs)
    memory, state = model.encode(pairs.source, pairs.lengths)
    _, expected = model.step(pairs.target[:, 0], state, memory)
    wanted = torch.autograd.grad(loss, parameters)
    with torch.autocast("cpu", torch.bfloat16):
        narrow_loss = loss_of(model, pairs)
        memory, state = model.encode(pairs.source, pairs.lengths)
        after, output = model.step(pairs.target[:, 0], state, memory)
    for each in (state, after):
        assert each.hidden.dtype == each.cell.dtype == each.attentional.dtype == torch.float32
    assert output.log_probabilities.dtype == torch.float32
    torch.testing.assert_close(narrow_loss, loss, rtol=0, atol=0.01)
    torch.testing.assert_close(
        output.log_probabilities, expected.log_probabilities, rtol=0, atol=0.02
    )
    found = torch.autograd.grad(narrow_loss, parameters)
    for gradient, exact in zip(found, wanted, strict=True):
        assert gradient.dtype == torch.float32
        assert (gradient - exact).norm() < 0.1 * exact.norm() + 1e-4


@pytest.mark.usefixtures("encoder_stays_wide_where_it_must")
@pytest.mark.parametrize("cell", ["lstm", "gru"])
@pytest.mark.parametrize("placement", ["luong", "bahdanau"])
def test_autocast_unrolls_as_it_steps(make_config, pairs, cell, placement):
    """Whatever way the gradients of the loop's weights take, its products are the same."""
    config = make_config(hidden_size=16, cell=cell, decoder_layers=2, placement=placement)
    model = Seq2Seq(config, 11, 11)
    embedded = model.target_embedding(pairs.target)
    with torch.autocast("cpu", torch.bfloat16):
        memory, state = model.encode(pairs.source, pairs.lengths)
        states, *_ = model.decoder.unroll(embedded, state, memory)
        with torch.no_grad():
            for step in range(embedded.shape[1]):
                state, (attentional, _, _) = model.decoder.step(embedded[:, step], state, memory)
                torch.testing.assert_close(attentional, states[:, step], rtol=0, atol=2e-3)


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"score": "additive", "placement": "bahdanau", "cell": "gru"},
        {"score": "dot", "window": "local-p", "half_width": 2, "input_feeding": False},
        {"score": "concat", "window": "local-m", "bidirectional": False, "tie_embeddings": "all"},
        {"encoder": "convolutional", "encoder_layers": 2},
        {"encoder": "mean", "kernel_width": 1},
        {"encoder": "self-attention", "heads": 4},
        {"encoder": "self-attention", "positions": "relative", "encoder_layers": 2},
    ],
    ids=str,
)
def test_it_learns(make_config, options):
    """Eight pairs to copy, eighty updates: the loss falls to less than half.

    The frequencies of the words alone would bring it to log 7 = 1.95 of log 11 = 2.4.
    """
    model = Seq2Seq(make_config(hidden_size=24, embedding_size=16, **options), 11, 11)
    source = torch.randint(4, 11, (8, 3))
    lengths = torch.full((8,), 3)
    given = torch.cat([torch.full((8, 1), 2), source[:, :-1]], 1)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.02)
    losses = []
    for _ in range(80):
        states, _ = model(source, lengths, given)
        loss = functional.cross_entropy(model.output(states).flatten(0, 1), source.flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_a_seed_decides_everything(make_config, pairs):
    def run():
        torch.manual_seed(5)
        model = Seq2Seq(make_config(dropout=0.3, state_dropout=0.2), 11, 11)
        loss = loss_of(model, pairs)
        loss.backward()
        return [loss, *(parameter.grad for parameter in model.parameters())]

    for first, second in zip(run(), run(), strict=True):
        assert torch.equal(first, second)


@pytest.mark.parametrize("options", SAMPLE, ids=str)
def test_parameters_start_within_a_tenth(make_config, options):
    model = Seq2Seq(make_config(**options), 11, 11)
    own = set() if model.encoder.uniform else set(model.encoder.parameters())
    flat = torch.cat([p.detach().flatten() for p in model.parameters() if p not in own])
    assert flat.abs().max() <= 0.1
    assert flat.abs().max() > 0.099
    assert flat.abs().mean().item() == pytest.approx(0.05, abs=0.005)


def test_log_probabilities_are_those_of_the_next_token(make_model, pairs):
    model = make_model()
    memory, state = model.encode(pairs.source, pairs.lengths)
    state, output = model.step(pairs.target[:, 0], state, memory)
    expected = torch.log_softmax(model.output(state.attentional), -1)
    torch.testing.assert_close(output.log_probabilities, expected)
    torch.testing.assert_close(
        output.log_probabilities.exp().sum(-1), torch.ones(3, dtype=torch.float64)
    )


def test_a_repeated_sentence_is_treated_like_any_other(make_model, pairs):
    """One toolkit drops a source that stands twice in a batch; here both rows count."""
    model, twice = make_model(), torch.tensor([0, 1, 1])
    states, _ = model(*(part[twice] for part in pairs))
    assert states.shape[0] == 3
    torch.testing.assert_close(states[1], states[2], **EXACT)


def test_a_source_without_any_token_is_finite(make_model, pairs):
    for window in ("global", "local-m", "local-p"):
        model = make_model(window=window)
        states, weights = model(
            pairs.source, torch.tensor([5, 0, 1]), pairs.target, need_weights=True
        )
        model.output(states).sum().backward()
        assert states.isfinite().all()
        assert not weights[1].any()
        assert all(parameter.grad.isfinite().all() for parameter in model.parameters())
