"""The encoder is torch's packed LSTM or GRU, without the packing."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from luong.models.encoders import RecurrentEncoder

LENGTHS = torch.tensor([3, 6, 1, 4])
BATCH, SIZE, EMBEDDING_SIZE = len(LENGTHS), 6, 5
VALID = torch.arange(SIZE) < LENGTHS.unsqueeze(1)
EXACT = {"rtol": 0, "atol": 1e-12}


@pytest.fixture
def make_encoder(make_config):
    def make(**options):
        return RecurrentEncoder(make_config(**options)).double()

    return make


def make_embedded(size=SIZE):
    return torch.randn(BATCH, size, EMBEDDING_SIZE, dtype=torch.float64, requires_grad=True)


def torch_encoder(encoder, cell):
    """Torch's module of all layers and directions, with the same weights."""
    layers, directions = len(encoder.layers), len(encoder.layers[0])
    size = encoder.layers[0][0].hidden_size
    module = {"lstm": nn.LSTM, "gru": nn.GRU}[cell](
        EMBEDDING_SIZE, size, layers, batch_first=True, bidirectional=directions == 2
    ).double()
    weights = {}
    for number, layer in enumerate(encoder.layers):
        for direction, recurrent in enumerate(layer):
            for name, weight in recurrent.named_parameters():
                suffix = "_reverse" if direction else ""
                weights[name.replace("_l0", f"_l{number}{suffix}")] = weight
    module.load_state_dict({name: weight.detach() for name, weight in weights.items()})
    return module, weights


def packed_encoding(module, embedded, lengths):
    """States, and final states (B, L, H) with the directions side by side."""
    packed = pack_padded_sequence(embedded, lengths, batch_first=True, enforce_sorted=False)
    outputs, final = module(packed)
    final = final[0] if isinstance(final, tuple) else final
    states, _ = pad_packed_sequence(outputs, batch_first=True, total_length=embedded.shape[1])
    return states, final.view(module.num_layers, -1, *final.shape[1:]).permute(2, 0, 1, 3).flatten(
        2
    )


def reversed_rows(states, lengths):
    """Each row reversed within its own length, padding left where it is."""
    rows = [
        torch.cat([row[:length].flip(0), row[length:]])
        for row, length in zip(states, lengths.tolist(), strict=True)
    ]
    return torch.stack(rows)


@pytest.mark.parametrize("reverse_source", [False, True])
@pytest.mark.parametrize("bidirectional", [True, False])
@pytest.mark.parametrize("layers", [1, 2, 3])
@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_equals_packed_torch(make_encoder, cell, layers, bidirectional, reverse_source):
    encoder = make_encoder(
        cell=cell,
        encoder_layers=layers,
        bidirectional=bidirectional,
        reverse_source=reverse_source,
    )
    module, weights = torch_encoder(encoder, cell)
    embedded = make_embedded()
    read = reversed_rows(embedded, LENGTHS) if reverse_source else embedded
    states, final = packed_encoding(module, read, LENGTHS)
    if reverse_source:
        states = reversed_rows(states, LENGTHS)
    weighing = torch.randn(states.shape, dtype=torch.float64) * VALID.unsqueeze(-1)
    wanted = torch.autograd.grad(
        (states * weighing).sum() + final.square().sum(), (embedded, *module.parameters())
    )

    encoded = encoder(embedded, LENGTHS)
    ((encoded.states * weighing).sum() + encoded.final.square().sum()).backward()

    torch.testing.assert_close(encoded.states[VALID], states[VALID], **EXACT)
    torch.testing.assert_close(encoded.final, final, **EXACT)
    torch.testing.assert_close(embedded.grad, wanted[0], **EXACT)
    for (name, _), gradient in zip(module.named_parameters(), wanted[1:], strict=True):
        torch.testing.assert_close(weights[name].grad, gradient, **EXACT)


@pytest.mark.parametrize("options", [{}, {"reverse_source": True}, {"bidirectional": False}])
def test_what_stands_in_padding_changes_nothing(make_encoder, options):
    encoder = make_encoder(encoder_layers=2, **options)
    embedded = make_embedded().detach()
    garbage = torch.where(VALID.unsqueeze(-1), embedded, 1e3 * torch.randn_like(embedded))
    clean, dirty = encoder(embedded, LENGTHS), encoder(garbage, LENGTHS)
    assert torch.equal(clean.states[VALID], dirty.states[VALID])
    assert torch.equal(clean.final, dirty.final)


@pytest.mark.parametrize("options", [{}, {"reverse_source": True}, {"bidirectional": False}])
def test_a_batch_of_one_equals_a_batch_of_many(make_encoder, options):
    encoder = make_encoder(cell="gru", encoder_layers=2, **options)
    embedded = make_embedded()
    encoded = encoder(embedded, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = encoder(embedded[row : row + 1, :length], LENGTHS[row : row + 1])
        torch.testing.assert_close(alone.states[0], encoded.states[row, :length], **EXACT)
        torch.testing.assert_close(alone.final[0], encoded.final[row], **EXACT)


@pytest.mark.parametrize("reverse_source", [False, True])
def test_empty_sources_are_finite_and_leave_others_alone(make_encoder, reverse_source):
    encoder = make_encoder(encoder_layers=2, reverse_source=reverse_source)
    embedded = make_embedded()
    encoded = encoder(embedded, torch.tensor([0, 6, 0, 4]))
    assert encoded.states.isfinite().all()
    assert encoded.final.isfinite().all()
    (encoded.states[1].sum() + encoded.final.sum()).backward()
    assert embedded.grad.isfinite().all()
    kept = torch.tensor([1, 3])
    others = encoder(embedded[kept], torch.tensor([6, 4]))
    torch.testing.assert_close(others.final, encoded.final[kept], **EXACT)


def test_final_states_of_short_sources_are_read_at_their_end(make_encoder):
    """Read at the end of the padded row they would be those of padding, or zero."""
    encoder = make_encoder(bidirectional=False)
    encoded = encoder(make_embedded(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert torch.equal(encoded.final[row, 0], encoded.states[row, length - 1])


def test_each_direction_ends_at_its_own_side(make_encoder):
    encoder = make_encoder()
    encoded = encoder(make_embedded(), LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        forward, backward = encoded.final[row, 0].chunk(2)
        assert torch.equal(forward, encoded.states[row, length - 1, :3])
        assert torch.equal(backward, encoded.states[row, 0, 3:])


def test_one_direction_takes_an_odd_size(make_encoder, make_config):
    encoded = make_encoder(hidden_size=7, bidirectional=False)(make_embedded(), LENGTHS)
    assert encoded.states.shape == (BATCH, SIZE, 7)
    assert encoded.final.shape == (BATCH, 1, 7)
    with pytest.raises(ValueError, match="must be even, not 7"):
        make_config(hidden_size=7)


def test_reading_backwards_is_not_reading_forwards(make_encoder):
    """In one direction the first source position has then seen the whole source."""
    encoder = make_encoder(bidirectional=False, reverse_source=True)
    embedded = make_embedded()
    encoder(embedded, LENGTHS).states[1, 0].sum().backward()
    assert (embedded.grad[1].abs().sum(-1) > 0).all()
    embedded.grad = None
    encoder(embedded, LENGTHS).states[1, 5].sum().backward()
    assert embedded.grad[1].abs().sum(-1).nonzero().flatten().tolist() == [5]


def test_layer_dropout_stands_between_layers_only(make_encoder):
    embedded = make_embedded()
    one = make_encoder(layer_dropout=0.5).train()
    assert torch.equal(one(embedded, LENGTHS).states, one(embedded, LENGTHS).states)
    two = make_encoder(layer_dropout=0.5, encoder_layers=2).train()
    first, second = two(embedded, LENGTHS), two(embedded, LENGTHS)
    assert not torch.equal(first.states, second.states)
    assert torch.equal(first.final[:, 0], second.final[:, 0])
    two.eval()
    assert torch.equal(two(embedded, LENGTHS).states, two(embedded, LENGTHS).states)


def test_state_dropout_takes_the_same_units_at_every_position(make_encoder):
    encoder = make_encoder(state_dropout=0.5)
    embedded = make_embedded()
    full = encoder.eval()(embedded, LENGTHS)
    dropped = encoder.train()(embedded, LENGTHS)
    kept = dropped.states / full.states
    torch.testing.assert_close(kept, kept[:, :1].expand_as(kept))
    assert set(kept.round(decimals=6).flatten().tolist()) == {0.0, 2.0}
    assert not torch.equal(kept[0], kept[1])


@pytest.mark.parametrize("cell", ["lstm", "gru"])
def test_gradcheck(make_encoder, cell):
    encoder = make_encoder(cell=cell, hidden_size=2, encoder_layers=2, reverse_source=True)
    lengths = torch.tensor([3, 1])
    embedded = torch.randn(2, 3, EMBEDDING_SIZE, dtype=torch.float64, requires_grad=True)
    valid = torch.arange(3) < lengths.unsqueeze(1)

    def encode(embedded, *_):
        encoded = encoder(embedded, lengths)
        return encoded.states[valid], encoded.final

    leaves = (embedded, *encoder.parameters())
    assert torch.autograd.gradcheck(encode, leaves, fast_mode=True)


@pytest.mark.parametrize("options", [{}, {"encoder_layers": 2, "reverse_source": True}])
def test_few_sentences_without_gradients_give_the_same(make_encoder, options):
    encoder, lengths = make_encoder(**options), torch.tensor([6, 3])
    embedded = torch.randn(2, SIZE, EMBEDDING_SIZE)
    expected = encoder(embedded.double(), lengths)
    encoder.float()
    with torch.inference_mode():
        for sentences in (1, 2):
            found = encoder(embedded[:sentences], lengths[:sentences])
            for part, right in zip(found, expected, strict=True):
                torch.testing.assert_close(part.double(), right[:sentences], rtol=1e-5, atol=1e-6)
