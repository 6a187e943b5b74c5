"""What holds for every encoder, and the formulas of those that are not recurrent."""

import math
from typing import get_args

import pytest
import torch
from torch import nn

from luong.attention import sinusoidal_positions
from luong.config import EncoderName
from luong.models import Seq2Seq
from luong.models.encoders import ENCODERS, make_encoder

LENGTHS = torch.tensor([3, 6, 1, 4])
BATCH, SIZE, EMBEDDING_SIZE = len(LENGTHS), 6, 5
VALID = torch.arange(SIZE) < LENGTHS.unsqueeze(1)
EXACT = {"rtol": 0, "atol": 1e-12}
PARALLEL = [
    {"encoder": "convolutional", "encoder_layers": 2},
    {"encoder": "convolutional", "kernel_width": 5, "positions": "none"},
    {"encoder": "mean"},
    {"encoder": "mean", "kernel_width": 1},
    {"encoder": "self-attention", "encoder_layers": 2, "heads": 2},
    {"encoder": "self-attention", "heads": 3, "positions": "relative"},
]
ALL = [{"encoder": "recurrent", "encoder_layers": 2}, *PARALLEL]


@pytest.fixture
def make(make_config):
    """In float64, with biases and norms that would show in padding."""

    def make(**options):
        encoder = make_encoder(make_config(**options)).double()
        with torch.no_grad():
            for parameter in encoder.parameters():
                parameter.uniform_(-0.7, 0.7)
        return encoder

    return make


def make_embedded(size=SIZE):
    return torch.randn(BATCH, size, EMBEDDING_SIZE, dtype=torch.float64, requires_grad=True)


def input_states(encoder, row):
    """W (sqrt(e) x + PE) + b of the embeddings of one source."""
    waves = sinusoidal_positions(len(row), EMBEDDING_SIZE, dtype=torch.float64)
    inputs = math.sqrt(EMBEDDING_SIZE) * row + waves
    return inputs @ encoder.input.weight.T + encoder.input.bias


def test_settings_name_every_encoder():
    assert get_args(EncoderName) == tuple(ENCODERS)


class TestAll:
    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_shapes(self, make, options):
        encoded = make(**options)(make_embedded(), LENGTHS)
        assert encoded.states.shape == (BATCH, SIZE, 6)
        assert encoded.final.shape == (BATCH, options.get("encoder_layers", 1), 6)

    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_padding_changes_nothing(self, make, options):
        encoder = make(**options)
        embedded = make_embedded()
        encoded = encoder(embedded, LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            alone = encoder(embedded[row : row + 1, :length], LENGTHS[row : row + 1])
            torch.testing.assert_close(alone.states[0], encoded.states[row, :length], **EXACT)
            torch.testing.assert_close(alone.final[0], encoded.final[row], **EXACT)

    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_sources_without_a_word(self, make, options):
        encoder = make(**options)
        embedded = make_embedded()
        encoded = encoder(embedded, torch.tensor([0, 6, 0, 4]))
        assert encoded.states.isfinite().all()
        assert encoded.final.isfinite().all()
        (encoded.states.sum() + encoded.final.sum()).backward()
        assert embedded.grad.isfinite().all()

    @pytest.mark.parametrize("options", PARALLEL, ids=str)
    def test_a_batch_without_a_position(self, make, options):
        embedded = make_embedded(0)
        encoded = make(**options)(embedded, torch.zeros(BATCH, dtype=torch.long))
        assert encoded.states.shape == (BATCH, 0, 6)
        assert not encoded.final.any()

    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_dropout_is_for_training(self, make, options):
        encoder = make(state_dropout=0.5, layer_dropout=0.5, **options)
        embedded = make_embedded()
        one, other = encoder(embedded, LENGTHS), encoder(embedded, LENGTHS)
        assert not torch.equal(one.states, other.states)
        encoder.eval()
        assert torch.equal(encoder(embedded, LENGTHS).states, encoder(embedded, LENGTHS).states)

    @pytest.mark.parametrize("options", ALL, ids=str)
    def test_state_dropout_takes_the_same_units_at_every_position(self, make, options):
        encoder = make(state_dropout=0.5, **options)
        embedded = make_embedded()
        full = encoder.eval()(embedded, LENGTHS).states
        kept = encoder.train()(embedded, LENGTHS).states / full
        for row, length in enumerate(LENGTHS.tolist()):
            units = kept[row, :length]
            torch.testing.assert_close(units, units[:1].expand_as(units))
            assert set(units.round(decimals=6).flatten().tolist()) <= {0.0, 2.0}


class TestParallel:
    @pytest.mark.parametrize("options", PARALLEL, ids=str)
    def test_nan_in_padding_poisons_nothing(self, make, options):
        encoder, results = make(**options), []
        clean = make_embedded().detach()
        for junk in (0.0, 1e30, torch.nan):
            embedded = torch.where(VALID.unsqueeze(-1), clean, junk).requires_grad_()
            encoder.zero_grad()
            encoded = encoder(embedded, LENGTHS)
            (encoded.states.square().sum() + encoded.final.square().sum()).backward()
            gradients = [parameter.grad.clone() for parameter in encoder.parameters()]
            results.append([*encoded, embedded.grad, *gradients])
            assert not embedded.grad[~VALID].any()
        for other in results[1:]:
            torch.testing.assert_close(other, results[0], rtol=0, atol=0)

    @pytest.mark.parametrize("options", PARALLEL, ids=str)
    def test_the_decoder_starts_from_the_average_state(self, make, options):
        encoded = make(**options)(make_embedded(), LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            average = encoded.states[row, :length].mean(0)
            for final in encoded.final[row]:
                torch.testing.assert_close(final, average, **EXACT)

    @pytest.mark.parametrize("options", PARALLEL, ids=str)
    def test_gradients(self, make, options):
        encoder = make(hidden_size=6, **options)
        lengths = torch.tensor([3, 1])
        embedded = torch.randn(2, 3, EMBEDDING_SIZE, dtype=torch.float64, requires_grad=True)
        leaves = (embedded, *encoder.parameters())
        assert torch.autograd.gradcheck(
            lambda embedded, *_: tuple(encoder(embedded, lengths)), leaves, fast_mode=True
        )

    @pytest.mark.parametrize(
        ("options", "seen"),
        [
            ({"encoder": "convolutional", "encoder_layers": 2}, [1, 2, 3, 4, 5]),
            ({"encoder": "convolutional", "kernel_width": 5}, [1, 2, 3, 4, 5]),
            ({"encoder": "mean"}, [2, 3, 4]),
            ({"encoder": "self-attention", "heads": 2}, [0, 1, 2, 3, 4, 5, 6]),
        ],
        ids=str,
    )
    def test_how_far_a_state_sees(self, make, options, seen):
        embedded = torch.randn(1, 7, EMBEDDING_SIZE, dtype=torch.float64, requires_grad=True)
        make(**options)(embedded, torch.tensor([7])).states[0, 3].square().sum().backward()
        assert embedded.grad[0].abs().sum(-1).nonzero().flatten().tolist() == seen

    def test_positions_tell_a_sentence_from_its_shuffle(self, make):
        order = torch.tensor([2, 0, 1, 5, 3, 4])
        full = torch.full((BATCH,), SIZE)
        for name in ("mean", "self-attention"):
            for positions in ("sinusoidal", "none"):
                encoder = make(encoder=name, heads=2, positions=positions, kernel_width=1)
                embedded = make_embedded()
                one, other = encoder(embedded, full), encoder(embedded[:, order], full)
                same = torch.allclose(one.states[:, order], other.states, rtol=0, atol=1e-9)
                assert same == (positions == "none")

    def test_layers_start_as_they_should_in_a_model(self, make_config):
        """U(-0.1, 0.1) would halve the norms' scale and blow up or starve the layers."""
        config = make_config(encoder="self-attention", heads=2, hidden_size=64)
        layer = Seq2Seq(config, 11, 11).encoder.layers[0]
        assert layer.norm.weight.eq(1).all()
        assert not layer.attention.output.bias.any()
        bound = math.sqrt(6 / (64 + 256))
        assert bound * 0.99 < layer.widen.weight.abs().max() <= bound
        config = make_config(encoder="convolutional", hidden_size=64, layer_dropout=0.5)
        model = Seq2Seq(config, 11, 11)
        deviation = model.encoder.layers[0].weight.std().item()
        assert deviation == pytest.approx(math.sqrt(4 * 0.5 / (3 * 64)), rel=0.03)
        for part in (model.source_embedding, model.decoder, model.output):
            assert all(parameter.abs().max() <= 0.1 for parameter in part.parameters())


class TestFormulas:
    def test_convolutional(self, make):
        """x' = sqrt(1/2) (x + A sigmoid(B)) over windows, by a loop; then normalised."""
        encoder = make(encoder="convolutional", encoder_layers=2)
        embedded = make_embedded()
        found = encoder(embedded, LENGTHS).states
        for row, length in enumerate(LENGTHS.tolist()):
            states = input_states(encoder, embedded[row, :length])
            for layer in encoder.layers:
                zeros = states.new_zeros(1, 6)
                padded = torch.cat([zeros, states, zeros])
                rows = []
                for s in range(length):
                    window = padded[s : s + 3]
                    both = torch.einsum("oik,ki->o", layer.weight, window) + layer.bias
                    gated = both[:6] / (1 + torch.exp(-both[6:]))
                    rows.append((states[s] + gated) / math.sqrt(2))
                states = torch.stack(rows)
            centred = states - states.mean(-1, keepdim=True)
            spread = (centred.square().mean(-1, keepdim=True) + 1e-5).sqrt()
            states = centred / spread * encoder.norm.weight + encoder.norm.bias
            torch.testing.assert_close(found[row, :length], states, **EXACT)

    def test_mean(self, make):
        encoder = make(encoder="mean", kernel_width=3)
        embedded = make_embedded()
        found = encoder(embedded, LENGTHS).states
        for row, length in enumerate(LENGTHS.tolist()):
            states = input_states(encoder, embedded[row, :length])
            for s in range(length):
                expected = states[max(0, s - 1) : s + 2].mean(0)
                torch.testing.assert_close(found[row, s], expected, **EXACT)

    @pytest.mark.parametrize("inner", [None, 7])
    def test_self_attention_is_torchs_transformer_encoder(self, make, inner):
        encoder = make(
            encoder="self-attention", encoder_layers=2, heads=3, feed_forward_size=inner
        ).eval()
        layer = nn.TransformerEncoderLayer(
            6, 3, inner or 24, dropout=0.0, batch_first=True, norm_first=True
        )
        theirs = nn.TransformerEncoder(layer, 2, nn.LayerNorm(6), enable_nested_tensor=False)
        weights = {f"norm.{name}": value for name, value in encoder.norm.state_dict().items()}
        for number, mine in enumerate(encoder.layers):
            parts = (mine.attention.query, mine.attention.key, mine.attention.value)
            own = {
                "self_attn.in_proj_weight": torch.cat([part.weight for part in parts]),
                "self_attn.in_proj_bias": torch.cat([part.bias for part in parts]),
            }
            names = {
                "self_attn.out_proj": mine.attention.output,
                "linear1": mine.widen,
                "linear2": mine.narrow,
                "norm1": mine.attention_norm,
                "norm2": mine.norm,
            }
            for name, part in names.items():
                own |= {f"{name}.weight": part.weight, f"{name}.bias": part.bias}
            weights |= {f"layers.{number}.{name}": value for name, value in own.items()}
        theirs = theirs.double()
        theirs.load_state_dict({name: value.detach() for name, value in weights.items()})
        embedded = make_embedded()
        inputs = torch.stack([input_states(encoder, row) for row in embedded])
        expected = theirs(inputs, src_key_padding_mask=~VALID)
        found = encoder(embedded, LENGTHS).states
        torch.testing.assert_close(found[VALID], expected[VALID], **EXACT)
        wanted = torch.autograd.grad(expected[VALID].square().sum(), embedded)
        mine = torch.autograd.grad(found[VALID].square().sum(), embedded)
        torch.testing.assert_close(mine, wanted, **EXACT)
