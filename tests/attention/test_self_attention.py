"""Self-attention is torch's multi-head attention, and more; what others got wrong, it gets right.

Where a test answers a public bug report, its docstring names it.
"""

import math

import pytest
import torch
from torch import nn
from torch.autograd import gradcheck, gradgradcheck

from luong import kernels
from luong.attention import (
    SCORES,
    RelativePositions,
    SelfAttention,
    masks,
    sinusoidal_positions,
)
from luong.attention.scores import Concat, General

ATTENDING = [name for name in SCORES if name != "none"]
EXACT = {"rtol": 0, "atol": 1e-12}
LENGTHS = torch.tensor([5, 3, 1])
PRESENT = torch.arange(5) < LENGTHS.unsqueeze(1)


def make_states(batch=3, length=5, size=6):
    return torch.randn(batch, length, size, dtype=torch.float64, requires_grad=True)


def make_layer(size=6, **options):
    """In float64, with biases that would show where nothing should be."""
    layer = SelfAttention(size, **{"max_length": 5, **options}).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-0.7, 0.7)
    return layer


def torch_layer(layer, bias=True):
    """Torch's layer with the same weights."""
    theirs = nn.MultiheadAttention(layer.size, layer.heads, bias=bias, batch_first=True).double()
    mine = (layer.query, layer.key, layer.value)
    weights = {
        "in_proj_weight": torch.cat([part.weight for part in mine]),
        "out_proj.weight": layer.output.weight,
    }
    if bias:
        weights["in_proj_bias"] = torch.cat([part.bias for part in mine])
        weights["out_proj.bias"] = layer.output.bias
    theirs.load_state_dict({name: weight.detach() for name, weight in weights.items()})
    return theirs


class TestTorch:
    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("padded", [True, False])
    @pytest.mark.parametrize("causal", [True, False])
    @pytest.mark.parametrize("masked", [True, False])
    @pytest.mark.parametrize(("heads", "bias"), [(1, True), (3, True), (2, False)])
    def test_equals_multihead_attention(self, heads, bias, masked, causal, padded, need_weights):
        layer = make_layer(heads=heads, bias=bias, causal=causal)
        theirs = torch_layer(layer, bias)
        states = make_states()
        # All see the first position at least: torch gives NaN for a row with nothing.
        first = torch.arange(5) == 0
        mask = first | (torch.rand(5, 5) < 0.6) if masked else None
        allowed = torch.ones(5, 5, dtype=torch.bool) if mask is None else mask
        allowed = allowed.tril() if causal else allowed
        expected, expected_weights = theirs(
            states,
            states,
            states,
            key_padding_mask=~PRESENT if padded else None,
            attn_mask=~allowed,
            average_attn_weights=False,
        )
        lengths = LENGTHS if padded else None
        found, weights = layer(states, lengths=lengths, mask=mask, need_weights=need_weights)
        rows = PRESENT if padded else torch.ones_like(PRESENT)
        torch.testing.assert_close(found[rows], expected[rows], **EXACT)
        if need_weights:
            expected_weights = expected_weights * rows[:, None, :, None]
            torch.testing.assert_close(weights, expected_weights, **EXACT)

        weighing = torch.randn_like(expected) * rows.unsqueeze(-1)
        parts = [part.weight for part in (layer.query, layer.key, layer.value)]
        wanted = torch.autograd.grad(
            (expected * weighing).sum(), (states, theirs.in_proj_weight, theirs.out_proj.weight)
        )
        mine = torch.autograd.grad((found * weighing).sum(), (states, *parts, layer.output.weight))
        mine = (mine[0], torch.cat(mine[1:4]), mine[4])
        torch.testing.assert_close(mine, wanted, **EXACT)

    def test_a_mask_of_padded_keys_alone_leaves_their_rows(self):
        """What torch calls key_padding_mask hides keys only: a mask does the same here."""
        layer, states = make_layer(heads=2), make_states()
        expected, _ = torch_layer(layer)(states, states, states, key_padding_mask=~PRESENT)
        mask = masks.from_padding_mask(~PRESENT).unsqueeze(1)
        torch.testing.assert_close(layer(states, mask=mask).states, expected, **EXACT)


class TestFormula:
    def test_hand_computed(self):
        """X = [[1], [2]], W_Q = 1, W_K = ln 2, W_V = 3, no W_O.

        Row 1: scores ln 2 [1, 2], weights 1/3, 2/3, state 1/3 * 3 + 2/3 * 6 = 5.
        Row 2: scores ln 2 [2, 4], weights 1/5, 4/5, state 3/5 + 24/5 = 5.4.
        """
        layer = SelfAttention(1, bias=False, output_projection=False)
        with torch.no_grad():
            for part, value in ((layer.query, 1.0), (layer.key, math.log(2)), (layer.value, 3.0)):
                part.weight.fill_(value)
        states, weights = layer(torch.tensor([[[1.0], [2.0]]]))
        torch.testing.assert_close(weights[0, 0], torch.tensor([[1 / 3, 2 / 3], [1 / 5, 4 / 5]]))
        torch.testing.assert_close(states[0, :, 0], torch.tensor([5, 5.4]))

    @pytest.mark.parametrize("causal", [True, False])
    @pytest.mark.parametrize("score", ATTENDING)
    def test_every_score_with_sizes_of_its_own(self, score, causal):
        """A loop over sequences, heads and rows, with d1, d2, d3 = 6, 4, 10 and two heads."""
        layer = make_layer(
            heads=2, key_size=10, value_size=4, score=score, causal=causal, attention_size=7
        )
        states = make_states()
        found, weights = layer(states, lengths=LENGTHS)
        assert found.shape == (3, 5, 6)
        assert weights.shape == (3, 2, 5, 5)
        for row, length in enumerate(LENGTHS.tolist()):
            inputs = states[row, :length]
            query, key, value = (
                part(inputs).view(length, 2, -1) for part in (layer.query, layer.key, layer.value)
            )
            for t in range(length):
                seen = slice(t + 1 if causal else length)
                contexts = []
                for head in range(2):
                    prepared = layer.attention.score.prepare(key[None, seen, head])
                    with kernels.use_backend("reference"):
                        scores = layer.attention.score.scores(query[None, t, None, head], prepared)
                    own = scores[0, 0].softmax(-1)
                    torch.testing.assert_close(weights[row, head, t, seen], own, **EXACT)
                    contexts.append(own @ value[seen, head])
                expected = layer.output(torch.cat(contexts))
                torch.testing.assert_close(found[row, t], expected, **EXACT)

    @pytest.mark.parametrize("score", [General(3, 4), Concat(3, 4, attention_size=5)])
    def test_a_score_of_ones_own_decides_the_sizes(self, score):
        layer = make_layer(heads=2, score=score, value_size=8, output_projection=False)
        assert (layer.query.out_features, layer.key.out_features) == (6, 8)
        assert layer(make_states()).states.shape == (3, 5, 8)

    @pytest.mark.parametrize("options", [{}, {"score": "additive"}, {"positions": "relative"}])
    def test_gradients(self, options):
        layer = make_layer(4, heads=2, causal=True, **options)
        states = make_states(2, 3, 4)
        lengths = torch.tensor([3, 2])

        def attended(states, *_):
            return layer(states, lengths=lengths, need_weights=False).states

        inputs = (states, *layer.parameters())
        assert gradcheck(attended, inputs, fast_mode=True)
        assert gradgradcheck(attended, inputs, fast_mode=True)

    def test_kernels_serve_float32(self):
        """The fused ways agree with the reference in float64, forward and backward."""
        for score in ("scaled-dot", "additive"):
            layer, states = make_layer(heads=2, score=score, causal=True), make_states()
            expected = layer(states, lengths=LENGTHS, need_weights=False).states
            expected.square().sum().backward()
            wanted, states = states.grad, states.detach().float().requires_grad_()
            found = layer.float()(states, lengths=LENGTHS, need_weights=False).states
            found.square().sum().backward()
            torch.testing.assert_close(found.double(), expected, rtol=1e-5, atol=1e-5)
            torch.testing.assert_close(states.grad.double(), wanted, rtol=1e-4, atol=1e-5)


class TestPositions:
    def test_sinusoids(self):
        """Vaswani 2017, section 3.5, term by term; an odd size ends in a sine."""
        found = sinusoidal_positions(4, 5, dtype=torch.float64)
        for s in range(4):
            for c in range(5):
                wave = (math.sin, math.cos)[c % 2]
                expected = wave(s / 10000 ** ((c - c % 2) / 5))
                assert found[s, c].item() == pytest.approx(expected, abs=1e-12)

    def test_sinusoids_are_added_to_the_inputs(self):
        layer, states = make_layer(heads=2, positions="sinusoidal"), make_states()
        moved = states + sinusoidal_positions(5, 6, dtype=torch.float64)
        found = layer(states, lengths=LENGTHS)
        layer.waves = False
        torch.testing.assert_close(found, layer(moved, lengths=LENGTHS), **EXACT)

    def test_relative_positions_add_a_number_for_each_distance(self):
        """Distances -2, -1, 0, 1, 2 of s - t, those beyond counting as the last."""
        positions = RelativePositions(heads=1, max_distance=2)
        positions.weight.data = torch.tensor([[-2.0, -1, 0, 1, 2]])
        expected = [[0, 1, 2, 2], [-1, 0, 1, 2], [-2, -1, 0, 1], [-2, -2, -1, 0]]
        assert positions(4)[0].tolist() == expected

    def test_relative_positions_suit_every_score(self):
        for score in ATTENDING:
            layer = make_layer(heads=2, score=score, positions=RelativePositions(2, 1))
            plain = layer(make_states(2, 4)).weights
            layer.relative.weight.data[:, 2] = 50  # what comes next, wherever one stands
            weights = layer(make_states(2, 4)).weights
            following = weights[:, :, [0, 1, 2], [1, 2, 3]]
            assert plain[:, :, 0, 1].max() < 0.9
            # Distances beyond 1 count as 1, so the three that follow the first share its weight.
            torch.testing.assert_close(
                weights.triu(1).sum(-1)[:, :, :3],
                torch.ones(2, 2, 3, dtype=torch.float64),
                rtol=0,
                atol=1e-6,
            )
            assert (following[:, :, 2] > 0.99).all()

    def test_without_positions_the_order_is_not_seen_and_with_them_it_is(self):
        states, order = make_states(1, 4), torch.tensor([2, 0, 3, 1])
        for positions in ("none", "sinusoidal", "relative"):
            layer = make_layer(heads=2, positions=positions)
            shuffled = layer(states[:, order]).states
            same = torch.allclose(shuffled, layer(states).states[:, order], rtol=0, atol=1e-9)
            assert same == (positions == "none")


class TestBugsOfOthers:
    def test_nothing_to_attend_is_zeros_in_spite_of_biases(self):
        """pytorch#41508, #24816, #40932, #26098, #103963."""
        for need_weights in (True, False):
            layer, states = make_layer(heads=2), make_states()
            mask = torch.ones(3, 5, 5, dtype=torch.bool)
            mask[1] = False
            mask[2, 3] = False
            found, weights = layer(states, mask=mask, need_weights=need_weights)
            found.square().sum().backward()
            assert not found[1].any()
            assert not found[2, 3].any()
            assert found[0].all()
            assert weights is None or not weights[1].any()
            assert not states.grad[1].any()
            for gradient in (states.grad, *(p.grad for p in layer.parameters())):
                assert gradient.isfinite().all()

    def test_the_same_with_and_without_weights(self):
        """pytorch#160064, #152028: NaN on the one way, zeros on the other."""
        layer, states = make_layer(heads=2, causal=True), make_states()
        mask = torch.rand(3, 5, 5) < 0.4
        one, other = (
            layer(states, lengths=LENGTHS, mask=mask, need_weights=need).states
            for need in (True, False)
        )
        torch.testing.assert_close(one, other, **EXACT)

    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("score", ["scaled-dot", "additive"])
    def test_nan_in_padding_poisons_nothing(self, score, need_weights):
        """pytorch#101967, keras#16108; espnet#397, as the biases make padded keys nonzero."""
        layer, results = make_layer(heads=2, score=score), []
        clean = make_states().detach()
        for junk in (0.0, torch.nan, torch.inf):
            states = torch.where(PRESENT.unsqueeze(-1), clean, junk).requires_grad_()
            layer.zero_grad()
            found, _ = layer(states, lengths=LENGTHS, need_weights=need_weights)
            found.square().sum().backward()
            results.append([found, states.grad, *(p.grad.clone() for p in layer.parameters())])
        assert not results[0][0][~PRESENT].any()
        for other in results[1:]:
            torch.testing.assert_close(other, results[0], rtol=0, atol=0)

    def test_causal_and_padding_are_both_kept(self):
        """pytorch#27968, #63271: merged masks that hid whole rows by mistake."""
        layer = make_layer(heads=2, causal=True)
        weights = layer(make_states(1), lengths=torch.tensor([4])).weights[0]
        expected = torch.ones(5, 5, dtype=torch.bool).tril()
        expected[4] = False
        assert torch.equal(weights > 0, expected.expand(2, 5, 5))

    def test_causal_with_lengths_of_zero(self):
        """pytorch#41508 once more, and tensorflow/nmt#210."""
        layer, states = make_layer(heads=2, causal=True), make_states()
        for lengths in (torch.tensor([5, 0, 2]), torch.tensor([0, 0, 0])):
            for need_weights in (True, False):
                found, _ = layer(states, lengths=lengths, need_weights=need_weights)
                present = masks.from_lengths(lengths, 5)
                assert not found[~present].any()
                assert found[present].all()
                assert torch.autograd.grad(found.sum(), states)[0].isfinite().all()

    def test_causal_holds_with_weights_and_without(self):
        """pytorch#118972, #99282: is_causal was only a hint where weights were asked for."""
        layer, states = make_layer(heads=2, causal=True), make_states(1)
        changed = states.detach().clone()
        changed[:, 3:] = 9.0
        for need_weights in (True, False):
            one, other = (layer(x, need_weights=need_weights) for x in (states, changed))
            torch.testing.assert_close(one.states[:, :3], other.states[:, :3], **EXACT)
        assert not layer(states).weights.triu(1).any()

    def test_a_mask_for_each_sequence_in_training_and_evaluation(self):
        """pytorch#97409: masks for each row crashed in the fast way of evaluation."""
        layer, states, mask = make_layer(heads=2), make_states(), torch.rand(3, 5, 5) < 0.5
        with torch.no_grad():
            trained = layer.train()(states, mask=mask, need_weights=False)
            evaluated = layer.eval()(states, mask=mask, need_weights=False)
        torch.testing.assert_close(evaluated, trained, **EXACT)

    def test_one_sense_of_true(self):
        """pytorch#170400, #170415, #120668, TransformerEngine#614."""
        layer, mask = make_layer(), torch.tensor([True, True, False, False, False])
        assert torch.equal(layer(make_states(), mask=mask).weights[0, 0, 0] > 0, mask)
        for wrong in (mask.byte(), mask.float()):
            with pytest.raises(TypeError, match="expected bool, True = may attend"):
                layer(make_states(), mask=wrong)

    def test_a_mask_that_only_fits_where_sizes_agree(self):
        """keras#21483, #21595: (B, S) is not (T, S)."""
        with pytest.raises(ValueError, match=r"\(3, 5\).*\(B, T, S\) = \(3, 5, 5\)"):
            make_layer(heads=2)(make_states(), mask=PRESENT)

    def test_no_dropout_in_evaluation(self):
        """pytorch#124464, #99293, timm#1978, wenet#2699."""
        layer, states = make_layer(heads=2, dropout=0.5), make_states()
        assert not torch.equal(layer(states).states, layer(states).states)
        layer.eval()
        assert torch.equal(layer(states).states, layer(states).states)

    def test_nearly_all_dropped(self):
        """nki-samples#80."""
        layer, states = make_layer(heads=2, dropout=0.999), make_states()
        found, weights = layer(states)
        found.sum().backward()
        assert states.grad.isfinite().all()
        torch.testing.assert_close(weights.sum(-1), torch.ones_like(weights[..., 0]))

    @pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0), (0, 0), (1, 1)])
    def test_sizes_of_zero_and_one(self, batch, length):
        """pytorch#165944, #166318, #174939, flash-attention#334, #443."""
        for options in ({}, {"score": "additive", "positions": "relative"}, {"score": "location"}):
            layer = make_layer(heads=2, causal=True, **options)
            states = make_states(batch, length)
            for lengths in (None, torch.full((batch,), length)):
                found, weights = layer(states, lengths=lengths)
                found.sum().backward()
                assert found.shape == (batch, length, 6)
                assert weights.shape == (batch, 2, length, length)
                assert states.grad.isfinite().all()

    def test_the_output_has_the_size_of_the_values(self):
        """keras#19257, fla-org/flash-linear-attention: d2 beyond d3."""
        layer = make_layer(key_size=2, value_size=130, output_projection=False)
        assert layer(make_states()).states.shape == (3, 5, 130)

    def test_half_precision(self):
        """fairseq#3575, transformers#382, tensorflow#46064: fills that overflow."""
        layer = SelfAttention(6, heads=2, causal=True)
        states = make_states().detach().float()
        expected = layer(states, lengths=LENGTHS).states
        with torch.autocast("cpu", torch.bfloat16):
            for dtype in (torch.float32, torch.bfloat16):
                found = layer(states.to(dtype), lengths=LENGTHS).states
                assert found.dtype == dtype
                torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.05)

    @pytest.mark.parametrize("options", [{}, {"score": "additive"}, {"positions": "relative"}])
    def test_a_batch_of_one_equals_a_batch_of_many(self, options):
        """tensorflow#512, OpenNMT-py#272; and nothing of a call is kept, espnet#461."""
        layer, states = make_layer(heads=2, **options), make_states()
        many = layer(states, lengths=LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            one = layer(states[row : row + 1, :length])
            torch.testing.assert_close(one.states[0], many.states[row, :length], **EXACT)
            own = many.weights[row, :, :length, :length]
            torch.testing.assert_close(one.weights[0], own, **EXACT)

    def test_backward_is_the_same_every_time(self):
        """flash-attention#414, #429, #349, #2244."""
        layer = SelfAttention(16, heads=4, positions="relative")
        states = torch.randn(4, 33, 16, requires_grad=True)
        inputs = (states, *layer.parameters())

        def gradients():
            return torch.autograd.grad(layer(states).states.sum(), inputs)

        first = gradients()
        for _ in range(5):
            assert all(map(torch.equal, gradients(), first))

    @pytest.mark.slow
    def test_exported_lengths_are_not_frozen(self):
        """pytorch#120075, #143107, #149662."""
        layer = SelfAttention(6, heads=2, causal=True, positions="sinusoidal").eval()
        length = torch.export.Dim("length", min=2, max=50)
        lengths = torch.tensor([4, 2])
        program = torch.export.export(
            layer,
            (torch.randn(2, 4, 6),),
            {"lengths": lengths, "need_weights": False},
            dynamic_shapes={"states": {1: length}, "lengths": None, "need_weights": None},
        )
        states, lengths = torch.randn(2, 9, 6), torch.tensor([9, 3])
        found = program.module()(states, lengths=lengths, need_weights=False).states
        expected = layer(states, lengths=lengths, need_weights=False).states
        torch.testing.assert_close(found, expected)


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"heads": 4}, "value_size is 6, which cannot be split over 4 heads"),
            ({"heads": 4, "value_size": 8}, "key_size is 6, which cannot be split over 4 heads"),
            ({"heads": 0}, "cannot be split over 0 heads"),
            ({"score": "none"}, "score='none' attends to nothing"),
            ({"score": "scaled_dot"}, "Did you mean 'scaled-dot'"),
            ({"score": "location"}, "needs max_length"),
            ({"positions": "relativ"}, "Did you mean 'relative'"),
            ({"positions": RelativePositions(3)}, "for 3 heads, but heads is 1"),
        ],
    )
    def test_settings_that_do_not_fit(self, options, expected):
        with pytest.raises(ValueError, match=expected):
            SelfAttention(6, **options)

    def test_a_distance_of_zero(self):
        with pytest.raises(ValueError, match="max_distance is 0; expected at least 1"):
            RelativePositions(1, 0)

    def test_inputs_that_do_not_fit(self):
        layer = SelfAttention(6)
        for shape in ((2, 6), (2, 5, 7)):
            with pytest.raises(ValueError, match=r"expected \(B, S, 6\)"):
                layer(torch.zeros(shape))
        with pytest.raises(ValueError, match="lengths run from 1 to 6; expected 0 to 5"):
            layer(torch.zeros(2, 5, 6), lengths=torch.tensor([1, 6]))
