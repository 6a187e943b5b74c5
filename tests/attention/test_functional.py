"""attend and masked_softmax: nothing kept, nothing learned unless an object brings it."""

import pytest
import torch

from luong.attention import WINDOWS, attend, masked_softmax
from luong.attention.windows import LocalPredictive


class TestAttend:
    @pytest.mark.parametrize("window", ["global", "local-m"])
    @pytest.mark.parametrize("score", ["dot", "scaled-dot"])
    def test_equals_the_layer(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window, half_width=2)
        query, keys, values, lengths = make_inputs(layer)
        options = {"mask": torch.rand(2, 3, 5) < 0.7, "bias": torch.randn(3, 5)}
        options["positions"] = torch.tensor([[0, 3, 1], [2, 2, 9]])
        expected = layer(query, layer.prepare(keys, values, lengths=lengths), **options)
        arguments = {"score": score, "window": window, "half_width": 2, "lengths": lengths}
        result = attend(query, keys, values, **arguments, **options)
        torch.testing.assert_close(result, expected)

    @pytest.mark.parametrize("window", WINDOWS)
    def test_takes_objects_with_parameters(self, make_layer, make_inputs, window):
        layer = make_layer("additive", window)
        query, keys, values, lengths = make_inputs(layer)
        result = attend(
            query, keys, values, score=layer.score, window=layer.window, lengths=lengths
        )
        expected = layer(query, layer.prepare(keys, values, lengths=lengths))
        torch.testing.assert_close(result, expected)

    def test_values_default_to_the_keys(self):
        query, keys = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
        torch.testing.assert_close(attend(query, keys), attend(query, keys, keys))

    def test_hand_computed(self):
        # 1 * [0, ln 3]: weights 1/4, 3/4; context 1/4 * 8 + 3/4 * 4 = 5
        keys = torch.tensor([[[1.0], [3.0]]]).log()
        values = torch.tensor([[[8.0], [4.0]]])
        result = attend(torch.ones(1, 1, 1), keys, values, score="dot")
        assert result.weights[0, 0].tolist() == pytest.approx([0.25, 0.75], abs=1e-6)
        assert result.context.item() == pytest.approx(5, abs=1e-5)

    def test_bias_is_added_to_the_scores(self):
        # even scores, and a bias of ln 2 on the first of two: weights 2/3, 1/3
        bias = torch.tensor([2.0, 1.0]).log()
        result = attend(torch.zeros(1, 1, 4), torch.ones(1, 2, 4), bias=bias)
        assert result.weights[0, 0].tolist() == pytest.approx([2 / 3, 1 / 3])

    def test_a_band_reads_its_own_part_of_the_bias(self):
        query, keys, bias = torch.randn(2, 3, 4), torch.randn(2, 5, 4), torch.randn(2, 3, 5)
        wide = attend(query, keys, window="local-m", half_width=9, bias=bias)
        torch.testing.assert_close(wide.dense(5), attend(query, keys, bias=bias).weights)

    def test_dropout_is_what_the_caller_says(self):
        query, keys = torch.randn(1, 2, 4), torch.randn(1, 5, 4)
        assert not attend(query, keys, dropout=1.0).context.any()
        assert attend(query, keys, dropout=1.0).weights.all()

    def test_no_attention_needs_no_object(self):
        assert attend(torch.ones(1, 2, 4), torch.ones(1, 5, 4), score="none").context.numel() == 0

    @pytest.mark.parametrize("score", ["general", "concat", "additive", "location"])
    def test_a_score_with_parameters_cannot_be_named(self, score):
        with pytest.raises(ValueError, match=f"'{score}' has parameters: pass a Score object"):
            attend(torch.zeros(1, 1, 2), torch.zeros(1, 1, 2), score=score)

    def test_a_window_with_parameters_cannot_be_named(self):
        query = torch.zeros(1, 1, 2)
        with pytest.raises(ValueError, match="LocalPredictive"):
            attend(query, query, window="local-p")
        assert attend(query, query, window=LocalPredictive(1, 2)).weights.shape == (1, 1, 3)

    def test_an_unknown_name_gives_the_nearest(self):
        query = torch.zeros(1, 1, 2)
        with pytest.raises(ValueError, match=r"'scaled_dot'.*Did you mean 'scaled-dot'"):
            attend(query, query, score="scaled_dot")
        with pytest.raises(ValueError, match=r"'locl-m'.*Did you mean 'local-m'"):
            attend(query, query, window="locl-m")

    def test_wrong_sizes_are_named_beside_the_right_ones(self):
        with pytest.raises(ValueError, match="query_size is 3 and key_size is 4"):
            attend(torch.zeros(1, 1, 3), torch.zeros(1, 2, 4), score="dot")

    def test_a_bias_is_float_and_fits(self):
        query, keys = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
        with pytest.raises(TypeError, match=r"bias has dtype torch\.bool"):
            attend(query, keys, bias=torch.ones(3, 5, dtype=torch.bool))
        with pytest.raises(ValueError, match=r"bias has shape \(2, 4\).*\(2, 3, 5\)"):
            attend(query, keys, bias=torch.zeros(2, 4))

    def test_a_bias_of_minus_infinity_hides(self):
        query, keys = torch.randn(1, 2, 4, requires_grad=True), torch.randn(1, 3, 4)
        bias = torch.tensor([[0.0, -torch.inf, 0.0], [-torch.inf] * 3])
        result = attend(query, keys, bias=bias)
        masked = attend(query, keys, mask=bias == 0)
        torch.testing.assert_close(result, masked)
        assert not result.weights[0, 1].any()
        (gradient,) = torch.autograd.grad(result.context.sum(), query)
        assert gradient.isfinite().all()


class TestMaskedSoftmax:
    def test_hand_computed(self):
        # e^0 and e^(ln 3): 1/4 and 3/4
        scores = torch.tensor([0.0, 1.0986123, 7.0])
        weights = masked_softmax(scores, torch.tensor([True, True, False]))
        assert weights.tolist() == pytest.approx([0.25, 0.75, 0])

    def test_what_is_masked_changes_nothing(self):
        mask = torch.tensor([True, False, True])
        expected = masked_softmax(torch.tensor([1.0, 0.0, 2.0]), mask)
        for junk in (torch.nan, torch.inf, -torch.inf, 1e30):
            scores = torch.tensor([1.0, junk, 2.0], requires_grad=True)
            weights = masked_softmax(scores, mask)
            torch.testing.assert_close(weights, expected)
            weights[0].backward()
            # the gradient of w_0 is w_0 (1 - w_0) and -w_0 w_2
            w = expected.tolist()
            assert scores.grad.tolist() == pytest.approx([w[0] * w[2], 0, -w[0] * w[2]])

    def test_nothing_allowed(self):
        scores = torch.tensor([[torch.nan, 1.0], [5.0, 1.0]], requires_grad=True)
        weights = masked_softmax(scores, torch.zeros(2, 2, dtype=torch.bool))
        assert torch.equal(weights, torch.zeros(2, 2))
        weights.sum().backward()
        assert torch.equal(scores.grad, torch.zeros(2, 2))

    def test_nothing_allowed_is_no_nan_on_the_way_either(self):
        scores = torch.randn(2, 2, requires_grad=True)
        with torch.autograd.set_detect_anomaly(True):
            weights = masked_softmax(scores, torch.tensor([[True, True], [False, False]]))
            weights.square().sum().backward()
        assert scores.grad[0].any()

    def test_no_positions_at_all(self):
        assert masked_softmax(torch.zeros(2, 0), torch.ones(2, 0, dtype=torch.bool)).shape == (2, 0)

    def test_the_mask_broadcasts(self):
        weights = masked_softmax(torch.zeros(2, 3, 4), torch.tensor([True, True, False, False]))
        assert torch.equal(weights, torch.tensor([0.5, 0.5, 0, 0]).expand(2, 3, 4))
