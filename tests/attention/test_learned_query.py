"""Learned queries: numbers worked out by hand, loops over the formula, and what padding may do.

Where a test answers a public bug report, its docstring names it.
"""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from luong.attention import SCORES, LearnedQueryAttention, orthogonality_penalty
from luong.attention.scores import Concat, General

ATTENDING = [name for name in SCORES if name != "none"]
EXACT = {"rtol": 0, "atol": 1e-12}
LENGTHS = torch.tensor([5, 3, 0])
PRESENT = torch.arange(5) < LENGTHS.unsqueeze(1)
KINDS = [{}, {"views": 3}, {"queries": "per-step", "max_length": 5}]


def make_states(batch=3, length=5, size=4):
    return torch.randn(batch, length, size, dtype=torch.float64, requires_grad=True)


def make_layer(size=4, **options):
    layer = LearnedQueryAttention(size, **{"max_length": 5, **options}).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-0.7, 0.7)
    return layer


def by_hand(layer):
    """W = 1 and b = 0, so u_i = tanh(h_i)."""
    with torch.no_grad():
        layer.hidden.weight.fill_(1.0)
        layer.hidden.bias.zero_()
    return layer


class TestShared:
    def test_hand_computed(self):
        """h = atanh [0, 1/2], so u_i = 0, 1/2; u = 2 ln 3: scores 0, ln 3; weights 1/4, 3/4.

        atanh(1/2) = ln(3) / 2, so the context is 3/4 * ln(3) / 2 = .4119796.
        """
        layer = by_hand(LearnedQueryAttention(1))
        layer.queries.data.fill_(2 * math.log(3))
        states = torch.tensor([[[0.0], [math.log(3) / 2], [7.0]]])
        context, weights, last = layer(states, lengths=torch.tensor([2]))
        torch.testing.assert_close(weights, torch.tensor([[[0.25, 0.75, 0.0]]]))
        assert context.item() == pytest.approx(0.4119796, abs=1e-6)
        assert context.shape == (1, 1, 1)
        assert last is None

    @pytest.mark.parametrize("views", [1, 3])
    @pytest.mark.parametrize("score", ATTENDING)
    def test_every_score_against_a_loop(self, score, views):
        layer, states = make_layer(score=score, views=views, attention_size=6), make_states()
        context, weights, _ = layer(states, lengths=LENGTHS)
        assert context.shape == (3, views, 4)
        for row, length in enumerate(LENGTHS.tolist()[:2]):
            h = states[row, :length]
            u = torch.tanh(h @ layer.hidden.weight.T + layer.hidden.bias)
            for view in range(views):
                query = layer.queries[None, view : view + 1]
                prepared = layer.attention.score.prepare(u[None])
                own = layer.attention.score.scores(query, prepared)[0, 0].softmax(-1)
                torch.testing.assert_close(weights[row, view, :length], own, **EXACT)
                torch.testing.assert_close(context[row, view], own @ h, **EXACT)

    def test_one_view_flattened_is_the_vector_of_a_sequence(self):
        assert make_layer()(make_states()).context.flatten(1).shape == (3, 4)
        assert make_layer(views=2)(make_states()).context.flatten(1).shape == (3, 8)

    def test_the_mask_of_a_sequence(self):
        layer, states = make_layer(), make_states()
        mask = torch.tensor([True, False, True, False, True]).expand(3, 5)
        expected = layer(states[:, [0, 2, 4]]).context
        torch.testing.assert_close(layer(states, mask=mask).context, expected, **EXACT)
        found = layer(states, mask=mask, lengths=torch.tensor([3, 3, 3])).context
        torch.testing.assert_close(found, layer(states[:, [0, 2]]).context, **EXACT)


class TestPerStep:
    def test_hand_computed(self):
        """u_i = 0, 1/2, 1/2 as above; u_0 = 5, u_1 = 2 ln 3, u_2 = 2 ln 2.

        s_0 = h_0 = 0. s_1 = 3/4 * ln(3) / 2 = .4119796. Step 2 has scores 0, ln 2, ln 2, so
        weights 1/5, 2/5, 2/5, and s_2 = 4/5 * ln(3) / 2 = .4394449.
        """
        layer = by_hand(LearnedQueryAttention(1, queries="per-step", max_length=4))
        queries = torch.tensor([[5.0], [2 * math.log(3)], [2 * math.log(2)], [9.0]])
        layer.queries.data = queries
        half = math.log(3) / 2
        states = torch.tensor([[[0.0], [half], [half]]])
        context, weights, last = layer(states)
        expected = torch.tensor([[1.0, 0.0, 0.0], [0.25, 0.75, 0.0], [0.2, 0.4, 0.4]])
        torch.testing.assert_close(weights[0], expected)
        torch.testing.assert_close(context[0, :, 0], torch.tensor([0.0, 0.4119796, 0.4394449]))
        torch.testing.assert_close(last, context[:, 2])
        _, weights, last = layer(states, lengths=torch.tensor([2]))
        torch.testing.assert_close(weights[0, :2], expected[:2])
        assert not weights[0, 2].any()
        assert last.item() == pytest.approx(0.4119796, abs=1e-6)

    @pytest.mark.parametrize("score", ATTENDING)
    def test_every_score_against_a_loop(self, score):
        layer = make_layer(queries="per-step", score=score, max_length=6, attention_size=6)
        states = make_states()
        context, weights, last = layer(states, lengths=LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()[:2]):
            u = torch.tanh(states[row] @ layer.hidden.weight.T + layer.hidden.bias)
            for t in range(length):
                prepared = layer.attention.score.prepare(u[None, : t + 1])
                query = layer.queries[None, t : t + 1]
                own = layer.attention.score.scores(query, prepared)[0, 0].softmax(-1)
                torch.testing.assert_close(weights[row, t, : t + 1], own, **EXACT)
                torch.testing.assert_close(context[row, t], own @ states[row, : t + 1], **EXACT)
            torch.testing.assert_close(last[row], context[row, length - 1], rtol=0, atol=0)
        assert not weights.triu(1).any()
        assert not context[~PRESENT].any()
        assert not weights[~PRESENT].any()
        assert not last[2].any()

    def test_the_last_step_is_that_of_the_last_position_allowed(self):
        layer, states = make_layer(queries="per-step"), make_states(1)
        mask = torch.tensor([[False, True, False, True, False]])
        context, weights, last = layer(states, mask=mask)
        assert torch.equal(last, context[:, 3])
        assert weights[0, 3].gt(0).tolist() == [False, True, False, True, False]
        assert not context[0, 0].any()
        torch.testing.assert_close(context[0, 2], states[0, 1], **EXACT)


class TestPenalty:
    def test_hand_computed(self):
        """A A^T = [[1, 1/2], [1/2, 1/2]], less I: [[0, 1/2], [1/2, -1/2]]; squares: 3/4."""
        weights = torch.tensor([[[1.0, 0.0], [0.5, 0.5]], [[1.0, 0.0], [0.0, 1.0]]])
        assert orthogonality_penalty(weights).tolist() == [0.75, 0.0]

    def test_it_drives_the_views_apart(self):
        layer, states = make_layer(views=2), make_states(2)
        optimizer = torch.optim.Adam(layer.parameters(), lr=0.1)
        before = orthogonality_penalty(layer(states).weights).mean().item()
        for _ in range(60):
            optimizer.zero_grad()
            penalty = orthogonality_penalty(layer(states).weights).mean()
            penalty.backward()
            optimizer.step()
        assert penalty.item() < before / 4

    def test_gradients_and_empty_sequences(self):
        weights = torch.rand(2, 3, 4, dtype=torch.float64, requires_grad=True)
        assert gradcheck(orthogonality_penalty, weights)
        assert orthogonality_penalty(torch.zeros(3, 4)).item() == 3


class TestBugsOfOthers:
    @pytest.mark.parametrize("need_weights", [True, False])
    @pytest.mark.parametrize("options", KINDS, ids=str)
    def test_padding_and_empty_sequences(self, options, need_weights):
        """ematvey/hierarchical-attention-networks#19, caml-mimic#13: pooled padding, NaN."""
        for score in ("dot", "additive"):
            layer, results = make_layer(score=score, **options), []
            clean = make_states().detach()
            for junk in (0.0, torch.nan, 1e30):
                states = torch.where(PRESENT.unsqueeze(-1), clean, junk).requires_grad_()
                layer.zero_grad()
                found = layer(states, lengths=LENGTHS, need_weights=need_weights)
                found.context.square().sum().backward()
                gradients = [p.grad.clone() for p in layer.parameters()]
                results.append([found.context, states.grad, *gradients])
                assert not found.context[2].any()
            for other in results[1:]:
                torch.testing.assert_close(other, results[0], rtol=0, atol=0)

    @pytest.mark.parametrize("options", KINDS, ids=str)
    def test_a_batch_of_one_equals_a_batch_of_many(self, options):
        """tensorflow#512, OpenNMT-py#272."""
        layer, states = make_layer(**options), make_states()
        many = layer(states, lengths=LENGTHS)
        for row, length in enumerate(LENGTHS.tolist()):
            one = layer(states[row : row + 1, :length])
            rows = length if options.get("queries") else None
            torch.testing.assert_close(one.context[0], many.context[row, :rows], **EXACT)
            if one.last is not None:
                torch.testing.assert_close(one.last[0], many.last[row], **EXACT)

    @pytest.mark.parametrize("options", KINDS, ids=str)
    def test_with_and_without_weights(self, options):
        """pytorch#160064, #152028."""
        layer, states = make_layer(**options), make_states()
        one, other = (layer(states, lengths=LENGTHS, need_weights=n) for n in (True, False))
        torch.testing.assert_close(one.context, other.context, **EXACT)
        assert other.weights is None

    @pytest.mark.parametrize("options", KINDS, ids=str)
    def test_gradients(self, options):
        """pytorch#116350: second ones, too."""
        layer, states = make_layer(2, **options), make_states(2, 3, 2)

        def attended(states, *_):
            found = layer(states, lengths=torch.tensor([3, 1]), need_weights=False)
            return found.context if found.last is None else (found.context, found.last)

        inputs = (states, *layer.parameters())
        assert gradcheck(attended, inputs, fast_mode=True)
        assert gradgradcheck(attended, inputs, fast_mode=True)

    @pytest.mark.parametrize(("batch", "length"), [(0, 5), (2, 0), (1, 1)])
    @pytest.mark.parametrize("options", KINDS, ids=str)
    def test_sizes_of_zero_and_one(self, options, batch, length):
        """pytorch#165944, #174939, flash-attention#334."""
        layer, states = make_layer(**options), make_states(batch, length)
        found = layer(states)
        found.context.sum().backward()
        assert found.context.shape == (batch, length if layer.per_step else len(layer.queries), 4)
        assert states.grad.isfinite().all()
        assert not layer.per_step or found.last.shape == (batch, 4)

    def test_half_precision(self):
        layer, states = LearnedQueryAttention(4, views=2), make_states().detach().float()
        expected = layer(states, lengths=LENGTHS).context
        with torch.autocast("cpu", torch.bfloat16):
            found = layer(states, lengths=LENGTHS).context
        torch.testing.assert_close(found.float(), expected, rtol=0, atol=0.03)

    def test_dropout_in_training_only(self):
        layer, states = make_layer(dropout=0.5), make_states()
        assert not torch.equal(layer(states).context, layer(states).context)
        layer.eval()
        assert torch.equal(layer(states).context, layer(states).context)


class TestMistakes:
    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"queries": "per_step"}, "Did you mean 'per-step'"),
            ({"views": 0}, "views is 0; expected at least 1"),
            ({"queries": "per-step"}, "needs max_length"),
            ({"queries": "per-step", "views": 2, "max_length": 3}, "have one view"),
            ({"score": "none"}, "attends to nothing"),
            ({"score": "addditive"}, "Did you mean 'additive'"),
        ],
    )
    def test_settings_that_do_not_fit(self, options, expected):
        with pytest.raises(ValueError, match=expected):
            LearnedQueryAttention(4, **options)

    def test_inputs_that_do_not_fit(self):
        layer = LearnedQueryAttention(4, queries="per-step", max_length=3)
        with pytest.raises(ValueError, match=r"S = 5 steps.*max_length = 3.*Cut the sequences"):
            layer(torch.zeros(1, 5, 4))
        with pytest.raises(ValueError, match=r"expected \(B, S, 4\)"):
            layer(torch.zeros(3, 4))
        with pytest.raises(ValueError, match=r"mask has shape \(2, 2\); expected \(B, S\)"):
            layer(torch.zeros(2, 3, 4), mask=torch.ones(2, 2, dtype=torch.bool))
        with pytest.raises(TypeError, match="expected bool"):
            layer(torch.zeros(2, 3, 4), mask=torch.ones(2, 3))
        with pytest.raises(TypeError, match="expected integers"):
            layer(torch.zeros(2, 3, 4), lengths=torch.ones(2))

    @pytest.mark.parametrize("score", [General(3, 5), Concat(3, 5, attention_size=2)])
    def test_a_score_of_ones_own_decides_the_sizes(self, score):
        layer = LearnedQueryAttention(4, score=score)
        assert layer.queries.shape == (1, 3)
        assert layer.hidden.out_features == 5
        assert layer(torch.randn(2, 3, 4)).context.shape == (2, 1, 4)
