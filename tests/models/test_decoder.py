"""The decoder's wiring, against one step written out in numpy, and its states as values."""

import itertools

import numpy as np
import pytest
import torch
from equations import first_row, stepped

from luong.attention import SCORES, WINDOWS
from luong.models.dropout import keep_mask

EXACT = {"rtol": 0, "atol": 1e-12}
LENGTHS = [5, 3, 1]
ATTENTIONS = itertools.cycle(itertools.product(WINDOWS, SCORES))
WIRINGS = [
    (placement, feeding, cell, layers, window, score)
    for (placement, feeding, cell, layers), (window, score) in zip(
        2 * list(itertools.product(["luong", "bahdanau"], [True, False], ["lstm", "gru"], [1, 2])),
        ATTENTIONS,
        strict=False,
    )
]
SAMPLE = [
    {"score": "general", "window": "local-m"},
    {"score": "additive", "window": "global", "placement": "bahdanau", "cell": "gru"},
    {"score": "location", "window": "local-p", "input_feeding": False},
    {"score": "none", "decoder_layers": 2},
]


def rows_of(state, index):
    """One row of a state in numpy, in the order of the reference."""
    return tuple(part[index].detach().numpy() for part in state[:4])


@pytest.mark.parametrize(("placement", "feeding", "cell", "layers", "window", "score"), WIRINGS)
def test_steps_equal_the_equations(
    make_config, make_model, pairs, placement, feeding, cell, layers, window, score
):
    options = {
        "placement": placement,
        "input_feeding": feeding,
        "cell": cell,
        "decoder_layers": layers,
        "window": window,
        "score": score,
    }
    config, model = make_config(**options), make_model(**options)
    weights = {name: each.numpy() for name, each in model.decoder.state_dict().items()}
    embedded = model.target_embedding(pairs.target)
    encoded = model.encoder(model.source_embedding(pairs.source), pairs.lengths)
    memory, state = model.decoder.start(encoded, pairs.lengths)
    keys = encoded.states.detach().numpy()
    rows = [first_row(weights, config, final) for final in encoded.final.detach().numpy()]
    for step in range(3):
        state, (attentional, found, _) = model.decoder.step(embedded[:, step], state, memory)
        assert attentional is state.attentional
        for index, length in enumerate(LENGTHS):
            inputs = embedded[index, step].detach().numpy()
            rows[index], distribution = stepped(
                weights, config, inputs, rows[index], keys[index, :length]
            )
            hidden, cells, attentional, position = rows_of(state, index)
            np.testing.assert_allclose(hidden, np.stack(rows[index].hidden), **EXACT)
            np.testing.assert_allclose(cells, np.stack(rows[index].cell), **EXACT)
            np.testing.assert_allclose(attentional, rows[index].attentional, **EXACT)
            assert position == step + 1
            padded = np.pad(distribution, (0, 5 - length))
            np.testing.assert_allclose(found[index].detach().numpy(), padded, **EXACT)


@pytest.mark.parametrize(("encoder_layers", "decoder_layers"), [(1, 3), (3, 1), (2, 2)])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_the_bridge_joins_any_number_of_layers(
    make_config, make_model, pairs, encoder_layers, decoder_layers, bidirectional, cell
):
    options = {
        "encoder_layers": encoder_layers,
        "decoder_layers": decoder_layers,
        "bidirectional": bidirectional,
        "cell": cell,
    }
    model = make_model(**options)
    weights = {name: each.numpy() for name, each in model.decoder.state_dict().items()}
    encoded = model.encoder(model.source_embedding(pairs.source), pairs.lengths)
    _, state = model.decoder.start(encoded, pairs.lengths)
    for index, final in enumerate(encoded.final.detach().numpy()):
        expected = first_row(weights, make_config(**options), final)
        hidden, cells, attentional, position = rows_of(state, index)
        np.testing.assert_allclose(hidden, np.stack(expected.hidden), **EXACT)
        np.testing.assert_allclose(cells, np.stack(expected.cell), **EXACT)
        assert not attentional.any()
        assert position == 0


@pytest.mark.parametrize("placement", ["luong", "bahdanau"])
def test_the_query_is_the_top_layer(make_model, pairs, placement):
    """h_t after the update in one placement, h_{t-1} before it in the other."""
    model = make_model(decoder_layers=2, placement=placement)
    queries = []
    model.decoder.attention.register_forward_pre_hook(lambda _, inputs: queries.append(inputs[0]))
    memory, before = model.encode(pairs.source, pairs.lengths)
    after, _ = model.step(pairs.target[:, 0], before, memory)
    state = after if placement == "luong" else before
    assert torch.equal(queries[0], state.hidden[:, -1:])


def test_the_first_layer_reads_embedding_attentional_state_and_context(make_model, pairs):
    """In this order: [embedding; h~_{t-1}; c_t] when both join the input."""
    model = make_model(placement="bahdanau", decoder_layers=2)
    decoder = model.decoder
    memory, state = model.encode(pairs.source, pairs.lengths)
    state, _ = model.step(pairs.target[:, 0], state, memory)
    embedded = model.target_embedding(pairs.target[:, 1])
    context = decoder.attention(state.hidden[:, -1:], memory).context.squeeze(1)
    first = decoder.cells[0]
    joined = torch.cat([embedded, state.attentional, context, state.hidden[:, 0]], -1)
    gates = joined @ torch.cat([first.early_weight, first.late_weight], 1).t() + first.bias
    entry, forget, candidate, out = gates.chunk(4, -1)
    cell = forget.sigmoid() * state.cell[:, 0] + entry.sigmoid() * candidate.tanh()
    after, _ = decoder.step(embedded, state, memory)
    torch.testing.assert_close(after.cell[:, 0], cell, **EXACT)
    torch.testing.assert_close(after.hidden[:, 0], out.sigmoid() * cell.tanh(), **EXACT)


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("placement", ["luong", "bahdanau"])
def test_without_attention_the_top_state_stands_alone(make_model, pairs, window, placement):
    """h~ = tanh(W_c h)."""
    model = make_model(score="none", window=window, placement=placement)
    memory, state = model.encode(pairs.source, pairs.lengths)
    state, output = model.step(pairs.target[:, 0], state, memory)
    expected = torch.tanh(state.hidden[:, -1] @ model.decoder.combine.weight.t())
    torch.testing.assert_close(state.attentional, expected, **EXACT)
    assert output.weights.shape == (3, 5)
    assert not output.weights.any()


@pytest.mark.parametrize("options", SAMPLE)
def test_beams_equal_separate_runs(make_model, pairs, options):
    model, beams = make_model(**options), 3
    memory, start = model.encode(pairs.source, pairs.lengths)
    tokens = torch.randint(4, 11, (4, 3 * beams))
    state, together = start.select(torch.arange(3).repeat_interleave(beams)), []
    for step in tokens:
        state, output = model.step(step, state, memory)
        together.append(output)
    for row in range(3 * beams):
        sentence = torch.tensor([row // beams])
        own_memory, own = memory.select(sentence), start.select(sentence)
        for step, output in zip(tokens, together, strict=True):
            own, alone = model.step(step[row : row + 1], own, own_memory)
            for found, expected in zip(alone[:2], output[:2], strict=True):
                torch.testing.assert_close(found[0], expected[row], **EXACT)


@pytest.mark.parametrize("options", SAMPLE)
def test_rows_are_dropped_and_reordered(make_model, pairs, options):
    model = make_model(**options)
    memory, state = model.encode(pairs.source, pairs.lengths)
    state, _ = model.step(pairs.target[:, 0], state, memory)
    rows = torch.tensor([2, 0, 2])
    tokens = pairs.target[:, 1]
    after, output = model.step(tokens, state, memory)
    chosen, chosen_output = model.step(tokens[rows], state.select(rows), memory.select(rows))
    for found, expected in zip((*chosen, *chosen_output[:2]), (*after, *output[:2]), strict=True):
        torch.testing.assert_close(found, expected[rows], **EXACT)


@pytest.mark.parametrize("options", SAMPLE)
def test_step_changes_nothing_it_was_given(make_model, pairs, options):
    model = make_model(**options)
    memory, state = model.encode(pairs.source, pairs.lengths)

    def tensors(value):
        if isinstance(value, tuple):
            return [each for part in value for each in tensors(part)]
        return [value] if isinstance(value, torch.Tensor) else []

    given = [*tensors((memory, state)), pairs.target, *model.state_dict().values()]
    kept = [each.clone() for each in given]
    first = model.step(pairs.target[:, 0], state, memory)
    for each, before in zip(given, kept, strict=True):
        assert torch.equal(each, before)
    again = model.step(pairs.target[:, 0], state, memory)
    for one, other in zip(tensors(first), tensors(again), strict=True):
        assert torch.equal(one, other)
    assert set(vars(model.decoder)) == set(vars(make_model(**options).decoder))


def test_keys_are_prepared_once_a_source(make_model, pairs, monkeypatch):
    model, calls = make_model(score="additive"), []
    score = model.decoder.attention.score
    prepare = score.prepare
    monkeypatch.setattr(score, "prepare", lambda keys: calls.append(1) or prepare(keys))
    memory, state = model.encode(pairs.source, pairs.lengths)
    for tokens in pairs.target.t():
        state, _ = model.step(tokens, state, memory)
    model(*pairs)
    assert len(calls) == 2


def test_local_windows_follow_the_time_step_of_each_row(make_model, pairs):
    """Also where rows stand at different steps, and where beams were reordered."""
    model = make_model(window="local-m", score="dot")
    memory, state = model.encode(pairs.source, pairs.lengths)
    state = state.select(torch.tensor([0, 0, 1, 1, 2, 2]))
    for step, tokens in enumerate(pairs.target.t()):
        state, output = model.step(tokens.repeat_interleave(2), state, memory)
        state = state.select(torch.tensor([1, 1, 3, 2, 4, 5]))
        for row, weights in enumerate(output.weights):
            length = LENGTHS[row // 2]
            centre = min(step, length - 1)
            seen = range(max(0, centre - 1), min(length, centre + 2))
            assert weights.nonzero().flatten().tolist() == list(seen)
    state = state._replace(position=torch.tensor([0, 4, 0, 2, 0, 0]))
    _, output = model.step(torch.full((6,), 4), state, memory)
    assert output.weights[0].nonzero().flatten().tolist() == [0, 1]
    assert output.weights[1].nonzero().flatten().tolist() == [3, 4]


@pytest.mark.parametrize("placement", ["luong", "bahdanau"])
@pytest.mark.parametrize("feeding", [True, False])
@pytest.mark.parametrize("window", WINDOWS)
def test_unrolling_goes_on_from_any_state(make_model, pairs, placement, feeding, window):
    model = make_model(placement=placement, input_feeding=feeding, window=window)
    embedded = model.target_embedding(pairs.target)
    memory, state = model.encode(pairs.source, pairs.lengths)
    whole, weights, _ = model.decoder.unroll(embedded, state, memory, need_weights=True)
    state, _ = model.decoder.step(embedded[:, 0], state, memory)
    rest, rest_weights, _ = model.decoder.unroll(embedded[:, 1:], state, memory, need_weights=True)
    torch.testing.assert_close(rest, whole[:, 1:], **EXACT)
    torch.testing.assert_close(rest_weights, weights[:, 1:], **EXACT)


ENCODERS = [
    {"bidirectional": True, "encoder_layers": 2, "cell": "gru", "tie_embeddings": "none"},
    {"bidirectional": False, "decoder_layers": 2, "tie_embeddings": "all"},
    {"reverse_source": True, "encoder_layers": 2, "decoder_layers": 2, "window": "local-m"},
    {"reverse_source": True, "bidirectional": False, "cell": "gru", "window": "local-p"},
    {"encoder_layers": 1, "decoder_layers": 3, "placement": "bahdanau", "hidden_size": 4},
    {"bidirectional": False, "hidden_size": 7, "input_feeding": False, "score": "additive"},
    {"reverse_source": True, "input_feeding": False, "decoder_layers": 2, "score": "concat"},
    {"attention_size": 3, "score": "additive", "window": "local-p", "tie_embeddings": "none"},
    {"max_length": 4, "score": "location", "placement": "bahdanau", "window": "local-m"},
]


@pytest.mark.parametrize("options", ENCODERS, ids=lambda options: "-".join(options))
def test_unroll_equals_steps_for_every_encoder(make_model, pairs, options):
    model = make_model(**options)
    states, weights = model(*pairs, need_weights=True)
    expected = torch.log_softmax(model.output(states), -1)
    memory, state = model.encode(pairs.source, pairs.lengths)
    for step, tokens in enumerate(pairs.target.t()):
        state, output = model.step(tokens, state, memory)
        torch.testing.assert_close(output.log_probabilities, expected[:, step], **EXACT)
        torch.testing.assert_close(output.weights, weights[:, step], **EXACT)


@pytest.mark.parametrize("options", [{}, {"placement": "bahdanau", "input_feeding": False}])
def test_dropout_is_off_in_evaluation(make_model, pairs, options):
    rates = {"dropout": 0.5, "state_dropout": 0.5, "decoder_layers": 2}
    model, plain = make_model(**options, **rates), make_model(**options, decoder_layers=2)
    model.decoder.attention.dropout = 0.5
    plain.load_state_dict(model.state_dict())
    plain.train()
    assert torch.equal(model(*pairs)[0], plain(*pairs)[0])
    model.train()
    assert not torch.equal(model(*pairs)[0], model(*pairs)[0])


@pytest.mark.parametrize("rate", ["input_dropout", "layer_dropout", "state_dropout"])
def test_each_dropout_acts_on_its_own(make_model, pairs, rate):
    model = make_model(**{rate: 0.5}).train()
    assert not torch.equal(model(*pairs)[0], model(*pairs)[0])


@pytest.mark.parametrize("options", [{}, {"decoder_layers": 2, "input_feeding": False}])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_state_dropout_keeps_the_same_units_at_every_step(make_model, pairs, options, cell):
    """Each recurrent update then reads the hidden state times one mask (Gal, Ghahramani 2016)."""
    model = make_model(state_dropout=0.5, cell=cell, **options)
    decoder = model.decoder
    embedded = model.target_embedding(pairs.target)
    memory, state = model.encode(pairs.source, pairs.lengths)
    torch.manual_seed(7)
    found, *_ = decoder.train().unroll(embedded, state, memory)
    torch.manual_seed(7)
    mask = keep_mask(*state.hidden.shape, probability=0.5, like=state.hidden)
    decoder.eval()
    for step in range(embedded.shape[1]):
        dropped = state._replace(hidden=state.hidden * mask)
        state, (attentional, _, _) = decoder.step(embedded[:, step], dropped, memory)
        torch.testing.assert_close(found[:, step], attentional, **EXACT)


def test_layer_dropout_acts_on_what_is_fed_back(make_model, pairs):
    """The attentional state that the output layer reads is the one that joins the next input."""
    model = make_model(layer_dropout=0.5).train()
    memory, state = model.encode(pairs.source, pairs.lengths)
    state, (attentional, _, _) = model.decoder.step(
        model.target_embedding(pairs.target[:, 0]), state, memory
    )
    assert (attentional == 0).any()
    assert attentional is state.attentional
