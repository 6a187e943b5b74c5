"""Every window against numbers worked out by hand, at both ends of the source and beyond."""

import math

import pytest
import torch

from luong.attention import SCORES, Attention
from luong.attention.windows import make_window

# Queries of 0 make every dot product 0, so that softmax is even over what the window lets see.


def even(window, positions, source_length, *, half_width=1, lengths=None):
    """Band weights (T, 2D+1) and band starts where all scores are equal."""
    layer = Attention(1, 1, score="dot", window=window, half_width=half_width)
    memory = layer.prepare(torch.ones(1, source_length, 1), lengths=lengths)
    query = torch.zeros(1, len(positions), 1)
    result = layer(query, memory, positions=torch.tensor([positions]))
    assert result.weights.shape == (1, len(positions), 2 * half_width + 1)
    return result.weights[0].tolist(), result.band_start[0].tolist()


def predictive(layer, p_over_length):
    """Make local-p predict one point for every query: p_t / S_b = sigmoid(v_p tanh(100))."""
    layer.window.weight.data.fill_(100.0)
    layer.window.weight_vector.data.fill_(math.log(p_over_length / (1 - p_over_length)))


class TestMonotonic:
    def test_inside_at_the_ends_and_beyond(self):
        third, half = 1 / 3, 1 / 2
        weights, start = even("local-m", [0, 1, 2, 3, 4, 100], 4)
        assert start == [-1, 0, 1, 2, 2, 2]  # t - D, and t beyond the source stays at its last
        assert weights[0] == pytest.approx([0, half, half])
        assert weights[1] == pytest.approx([third, third, third])
        assert weights[2] == pytest.approx([third, third, third])
        assert weights[3] == weights[4] == weights[5] == pytest.approx([half, half, 0])

    def test_the_end_is_that_of_the_own_source(self):
        weights, start = even("local-m", [0, 9], 6, lengths=torch.tensor([2]))
        assert start == [-1, 0]
        assert weights[0] == pytest.approx([0, 1 / 2, 1 / 2])
        assert weights[1] == pytest.approx([1 / 2, 1 / 2, 0])

    def test_a_source_smaller_than_the_window(self):
        weights, start = even("local-m", [0], 2, half_width=4)
        assert start == [-4]
        assert weights[0] == pytest.approx([0, 0, 0, 0, 1 / 2, 1 / 2, 0, 0, 0])

    @pytest.mark.parametrize("source_length", [0, 3])
    def test_an_empty_source(self, source_length):
        weights, _ = even("local-m", [0, 5], source_length, lengths=torch.tensor([0]))
        assert weights == [[0, 0, 0], [0, 0, 0]]

    def test_hand_computed_scores(self):
        # query 1; keys 0, ln 2, ln 3, ln 9; t = 1, D = 1: weights 1, 2, 3 over 6
        layer = Attention(1, 1, score="dot", window="local-m", half_width=1)
        keys = torch.tensor([[[0.0], [math.log(2)], [math.log(3)], [math.log(9)]]])
        values = torch.tensor([[[6.0], [12.0], [18.0], [999.0]]])
        positions = torch.tensor([[1]])
        result = layer(torch.ones(1, 1, 1), layer.prepare(keys, values), positions=positions)
        assert result.weights[0, 0].tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6])
        assert result.context.item() == pytest.approx(1 + 4 + 9)
        assert result.dense(4)[0, 0].tolist() == pytest.approx([1 / 6, 2 / 6, 3 / 6, 0])

    @pytest.mark.parametrize("half_width", [0, -1])
    def test_half_width_is_at_least_one(self, half_width):
        with pytest.raises(ValueError, match=f"half_width is {half_width}"):
            Attention(1, 1, window="local-m", half_width=half_width)


class TestPredictive:
    def gaussian(self, p_over_length, source_length, half_width, lengths=None):
        layer = Attention(1, 1, score="dot", window="local-p", half_width=half_width)
        predictive(layer, p_over_length)
        memory = layer.prepare(torch.zeros(1, source_length, 1), lengths=lengths)
        result = layer(torch.ones(1, 1, 1), memory)
        return result.weights[0, 0].tolist(), result.band_start.item()

    def test_hand_computed_on_a_whole_position(self):
        # p = 4 * .5 = 2, D = 2, sigma = 1; four positions share softmax 1/4:
        # times e^-2 = .1353353, e^-.5 = .6065307, 1, .6065307; the slot of position 4 is outside
        weights, start = self.gaussian(0.5, 4, 2)
        assert start == 0
        assert weights == pytest.approx([0.0338338, 0.1516327, 0.25, 0.1516327, 0], abs=1e-6)
        assert weights[-1] == 0

    def test_hand_computed_between_positions(self):
        # p = 4 * .375 = 1.5, c = 1, D = 1, sigma = .5: softmax 1/3 over 0, 1, 2, times
        # exp(-2.25 / .5) = .0111090, exp(-.25 / .5) = .6065307 and the same: not renormalised
        weights, start = self.gaussian(0.375, 4, 1)
        assert start == 0
        assert weights == pytest.approx([0.0037030, 0.2021769, 0.2021769], abs=1e-6)

    def test_near_the_first_position(self):
        # p = 4 * .01 = .04, c = 0: softmax 1/2 over 0 and 1, sigma = .5:
        # exp(-.0016 / .5) = .9968051, exp(-.9216 / .5) = .1583103
        weights, start = self.gaussian(0.01, 4, 1)
        assert start == -1
        assert weights == pytest.approx([0, 0.4984026, 0.0791552], abs=1e-6)
        assert weights[0] == 0

    def test_near_the_end(self):
        # p = 4 * .99 = 3.96, c = 3: softmax 1/2 over 2 and 3, sigma = .5:
        # exp(-3.8416 / .5) = .0004603, exp(-.9216 / .5) = .1583103
        weights, start = self.gaussian(0.99, 4, 1)
        assert start == 2
        assert weights == pytest.approx([0.0002302, 0.0791552, 0], abs=1e-6)

    def test_at_the_very_end_the_centre_is_the_last_position_and_p_is_the_length(self):
        # sigmoid(30) is 1 in float32, so p = S = 4 and c = 3: distances 2 and 1, sigma = .5
        weights, start = self.gaussian(1 - 1e-13, 4, 1)
        assert start == 2
        assert weights == pytest.approx([math.exp(-8) / 2, math.exp(-2) / 2, 0], abs=1e-6)

    def test_p_counts_from_the_own_length(self):
        # p = 2 * .5 = 1 for a source of 2 in a batch padded to 6; sigma = .5: e^-2, 1
        weights, start = self.gaussian(0.5, 6, 1, torch.tensor([2]))
        assert start == 0
        assert weights == pytest.approx([math.exp(-2) / 2, 1 / 2, 0], abs=1e-6)

    @pytest.mark.parametrize("source_length", [0, 3])
    def test_an_empty_source(self, source_length):
        weights, _ = self.gaussian(0.5, source_length, 1, torch.tensor([0]))
        assert weights == [0, 0, 0]

    def make(self):
        torch.manual_seed(3)
        layer = Attention(2, 2, score="dot", window="local-p", half_width=2, attention_size=3)
        layer = layer.double()
        inputs = [torch.randn(2, size, 2, dtype=torch.float64) for size in (3, 7, 7)]
        return layer, *inputs, torch.tensor([7, 5])

    def test_gradient_through_the_point_against_the_closed_formula(self):
        # weights w_s = softmax_s g_s, g_s = exp(-(s - p)^2 / (2 sigma^2)), so
        # dL/dp = sum_s w_s (s - p) / sigma^2 (dL/dcontext . value_s), and with x = v_p . tanh(..)
        # p = S_b sigmoid(x): dL/dv_p = sum_t dL/dp S_b sigmoid(x) (1 - sigmoid(x)) tanh(W_p h_t)
        layer, query, keys, values, lengths = self.make()
        result = layer(query, layer.prepare(keys, values, lengths=lengths))
        upstream = torch.randn_like(result.context)
        result.context.backward(upstream)

        hidden = torch.tanh(query @ layer.window.weight.T)
        share = torch.sigmoid(hidden @ layer.window.weight_vector)
        sigma, expected = 1.0, torch.zeros(3, dtype=torch.float64)
        for b in range(2):
            for t in range(3):
                point = lengths[b] * share[b, t]
                gradient = sum(
                    result.weights[b, t, j]
                    * (s - point)
                    / sigma**2
                    * (upstream[b, t] @ values[b, s])
                    for j, s in enumerate(range(result.band_start[b, t], 7))
                    if j < 5 and s >= 0
                )
                expected += gradient * lengths[b] * share[b, t] * (1 - share[b, t]) * hidden[b, t]
        torch.testing.assert_close(layer.window.weight_vector.grad, expected.detach())

    def test_gradient_through_the_point_against_finite_differences(self):
        layer, query, keys, values, lengths = self.make()
        memory = layer.prepare(keys, values, lengths=lengths)
        layer(query, memory).context.sum().backward()
        step = 1e-6
        for parameter in layer.window.parameters():
            flat = parameter.data.view(-1)
            for i in range(len(flat)):
                sums = []
                for shift in (step, -2 * step):
                    flat[i] += shift
                    sums.append(layer(query, memory).context.sum().item())
                flat[i] += step
                slope = (sums[0] - sums[1]) / (2 * step)
                assert parameter.grad.view(-1)[i].item() == pytest.approx(slope, abs=1e-8)

    def test_the_predictor_has_the_attention_size(self):
        window = make_window("local-p", 3, query_size=4, attention_size=6)
        assert window.weight.shape == (6, 4)
        assert make_window("local-p", 3, query_size=4).weight.shape == (4, 4)


class TestBands:
    @pytest.mark.parametrize("window", ["local-m", "local-p"])
    @pytest.mark.parametrize("score", SCORES)
    def test_width_and_slots_outside(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window, half_width=3)
        query, keys, values, lengths = make_inputs(layer)
        memory = layer.prepare(keys, values, lengths=lengths)
        result = layer(query, memory, positions=torch.tensor([[0, 4, 50], [3, 2, 4]]))
        assert result.weights.shape == (2, 3, 7)
        slots = result.band_start.unsqueeze(-1) + torch.arange(7)
        outside = (slots < 0) | (slots >= lengths.view(2, 1, 1))
        assert outside.any()
        assert (result.weights[outside] == 0).all()

    @pytest.mark.parametrize("score", SCORES)
    def test_a_window_wider_than_the_source_is_global(self, make_layer, make_inputs, score):
        wide, everywhere = make_layer(score, "local-m", half_width=9), make_layer(score)
        everywhere.score = wide.score
        query, keys, values, lengths = make_inputs(wide)
        memory = wide.prepare(keys, values, lengths=lengths)
        band, full = wide(query, memory), everywhere(query, memory)
        torch.testing.assert_close(band.context, full.context)
        torch.testing.assert_close(band.dense(5), full.weights)

    @pytest.mark.parametrize("score", SCORES)
    def test_wide_local_p_is_global_times_its_gaussian(self, make_layer, make_inputs, score):
        wide, everywhere = make_layer(score, "local-p", half_width=9), make_layer(score)
        everywhere.score = wide.score
        query, keys, values, lengths = make_inputs(wide)
        memory = wide.prepare(keys, values, lengths=lengths)
        point = lengths.unsqueeze(-1) * torch.sigmoid(
            torch.tanh(query @ wide.window.weight.T) @ wide.window.weight_vector
        )
        bell = torch.exp(-((torch.arange(5) - point.unsqueeze(-1)) ** 2) / (2 * 4.5**2))
        expected = everywhere(query, memory).weights * bell
        torch.testing.assert_close(wide(query, memory).dense(5), expected)

    def test_dense_of_a_global_window_is_its_weights(self, make_layer, make_inputs):
        layer = make_layer()
        query, keys, values, _ = make_inputs(layer)
        result = layer(query, layer.prepare(keys, values))
        assert result.band_start is None
        assert result.dense(5) is result.weights

    def test_dense_needs_the_weights(self, make_layer, make_inputs):
        layer = make_layer()
        query, keys, values, _ = make_inputs(layer)
        result = layer(query, layer.prepare(keys, values), need_weights=False)
        with pytest.raises(ValueError, match="need_weights=True"):
            result.dense(5)

    def test_positions_default_to_the_row_number(self, make_layer, make_inputs):
        layer = make_layer("general", "local-m")
        query, keys, values, _ = make_inputs(layer)
        memory = layer.prepare(keys, values)
        named = layer(query, memory, positions=torch.arange(3).expand(2, 3))
        torch.testing.assert_close(layer(query, memory), named)

    def test_an_unknown_window_gives_the_nearest(self):
        with pytest.raises(ValueError, match=r"'local_p' is not a window.*'local-p'"):
            Attention(2, 2, window="local_p")
