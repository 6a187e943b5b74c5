"""The layer as a whole: every score with every window, derivatives, precision, and plug-ins."""

import contextlib
import io
import math
import re
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn
from torch.autograd import gradcheck, gradgradcheck

from luong import kernels
from luong.attention import SCORES, WINDOWS, Attention, Score, Window, attend
from luong.attention.windows import Located

PAGE = Path(__file__).parents[2] / "docs" / "attention.md"
ATTENDING = [name for name in SCORES if name != "none"]


def paper_score(layer, query, keys, s):
    """The papers' score of one query (q) and position s of keys (S, k), one float at a time."""
    score, key = layer.score, keys[s]
    match type(score).__name__:
        case "Dot":
            return sum(a * b for a, b in zip(query, key, strict=True))
        case "ScaledDot":
            return sum(a * b for a, b in zip(query, key, strict=True)) / math.sqrt(len(key))
        case "General":
            rows = score.weight.tolist()
            return sum(
                a * w * b
                for a, row in zip(query, rows, strict=True)
                for w, b in zip(row, key, strict=True)
            )
        case "Location":
            row = score.weight[s].tolist()
            return sum(w * a for w, a in zip(row, query, strict=True))
        case "Concat":
            matrix, bias = score.weight.tolist(), [0.0] * len(score.weight)
        case "Additive":
            matrix = torch.cat([score.query_weight, score.key_weight], -1).tolist()
            bias = score.bias.tolist()
    both, total = [*query, *key], 0.0
    for v, row, b in zip(score.weight_vector.tolist(), matrix, bias, strict=True):
        total += v * math.tanh(sum(w * x for w, x in zip(row, both, strict=True)) + b)
    return total


def paper_weights(layer, query, keys, t, length):
    """The papers' weights of one query over a source of `length` positions, as {s: weight}."""
    low, high, bell = 0, length - 1, lambda s: 1.0
    half_width = getattr(layer.window, "half_width", None)
    match type(layer.window).__name__:
        case "LocalMonotonic":
            centre = min(t, length - 1)
            low, high = centre - half_width, centre + half_width
        case "LocalPredictive":
            hidden = (math.tanh(row @ query) for row in layer.window.weight.detach())
            total = sum(
                v * h for v, h in zip(layer.window.weight_vector.tolist(), hidden, strict=True)
            )
            point = length / (1 + math.exp(-total))
            centre, sigma = min(math.floor(point), length - 1), half_width / 2
            low, high = centre - half_width, centre + half_width
            bell = lambda s: math.exp(-((s - point) ** 2) / (2 * sigma**2))  # noqa: E731
    seen = range(max(low, 0), min(high, length - 1) + 1)
    exponentials = {s: math.exp(paper_score(layer, query.tolist(), keys.tolist(), s)) for s in seen}
    total = sum(exponentials.values())
    return {s: e / total * bell(s) for s, e in exponentials.items()}


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", ATTENDING)
def test_every_pair_against_the_papers_written_out(make_layer, make_inputs, score, window):
    layer = make_layer(score, window)
    if score == "additive":
        nn.init.normal_(layer.score.bias)
    inputs = make_inputs(layer, batch=3)
    query, keys, values, lengths = (tensor.detach() for tensor in inputs)
    positions = torch.tensor([[0, 1, 2], [4, 9, 3], [2, 2, 2]])
    memory = layer.prepare(keys, values, lengths=lengths)
    result = layer(query, memory, positions=positions)
    for b in range(3):
        for t in range(3):
            args = (query[b, t], keys[b], positions[b, t].item(), lengths[b].item())
            weights = torch.zeros(5, dtype=torch.float64)
            for s, weight in paper_weights(layer, *args).items():
                weights[s] = weight
            torch.testing.assert_close(result.dense(5)[b, t], weights)
            torch.testing.assert_close(result.context[b, t], weights @ values[b])


class Whole(nn.Module):
    """prepare and attend in one call, so that torch.func can swap every parameter."""

    def __init__(self, layer, lengths):
        super().__init__()
        self.layer, self.lengths = layer, lengths

    def forward(self, query, keys, values):
        result = self.layer(query, self.layer.prepare(keys, values, lengths=self.lengths))
        return result.context, result.weights


def as_function(layer, inputs):
    """A function of tensors alone, and its arguments: query, keys, values, all parameters."""
    whole = Whole(layer, inputs.lengths)
    names = [name for name, _ in whole.named_parameters()]

    def function(query, keys, values, *parameters):
        swapped = dict(zip(names, parameters, strict=True))
        return torch.func.functional_call(whole, swapped, (query, keys, values))

    return function, (*inputs[:3], *(p.detach().requires_grad_() for p in whole.parameters()))


class TestDerivatives:
    @pytest.mark.parametrize("window", WINDOWS)
    @pytest.mark.parametrize("score", ATTENDING)
    def test_gradcheck(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window, query_size=2, attention_size=2, max_length=3)
        inputs = make_inputs(layer, steps=2, source_length=3, value_size=2)
        function, arguments = as_function(layer, inputs)
        assert gradcheck(function, arguments)

    @pytest.mark.parametrize("window", WINDOWS)
    @pytest.mark.parametrize("score", ["general", "additive"])
    def test_gradgradcheck(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window, query_size=2, attention_size=2)
        inputs = make_inputs(layer, batch=1, steps=2, source_length=3, value_size=1)
        function, arguments = as_function(layer, inputs)
        assert gradgradcheck(lambda *tensors: function(*tensors)[0], arguments, fast_mode=True)

    @pytest.mark.parametrize("window", WINDOWS)
    def test_every_parameter_gets_a_gradient(self, make_layer, make_inputs, window):
        for score in ATTENDING:
            layer = make_layer(score, window, half_width=2)
            query, keys, values, lengths = make_inputs(layer)
            memory = layer.prepare(keys, values, lengths=lengths)
            layer(query, memory).context.square().sum().backward()
            for name, parameter in layer.named_parameters():
                assert parameter.grad.abs().sum() > 0, (score, name)


class TestNothingKept:
    def test_a_call_changes_nothing_in_the_layer(self, make_layer, make_inputs):
        for score in SCORES:
            layer = make_layer(score, "local-p")
            before = {name: tensor.clone() for name, tensor in layer.state_dict().items()}
            attributes = set(vars(layer))
            query, keys, values, lengths = make_inputs(layer)
            layer(query, layer.prepare(keys, values, lengths=lengths))
            assert set(vars(layer)) == attributes
            assert not list(layer.buffers())
            assert before.keys() == layer.state_dict().keys()
            assert all(torch.equal(before[name], now) for name, now in layer.state_dict().items())

    def test_weights_come_back_from_a_saved_state(self, make_layer, make_inputs):
        for score in SCORES:
            one, other = make_layer(score, "local-p"), make_layer(score, "local-p")
            other.load_state_dict(one.state_dict())
            query, keys, values, _ = make_inputs(one)
            torch.testing.assert_close(
                one(query, one.prepare(keys, values)), other(query, other.prepare(keys, values))
            )


class TestDropout:
    @pytest.mark.parametrize("window", WINDOWS)
    def test_only_in_training_after_normalisation_and_not_in_the_weights(
        self, make_layer, make_inputs, window
    ):
        layer = make_layer("dot", window, dropout=0.5, half_width=2)
        query, keys, _, lengths = make_inputs(layer)
        ones = torch.ones(2, 5, 1, dtype=torch.float64)
        memory = layer.prepare(keys, ones, lengths=lengths)
        trained, again = layer(query, memory), layer(query, memory)
        layer.eval()
        evaluated = layer(query, memory)
        torch.testing.assert_close(trained.weights, evaluated.weights)
        torch.testing.assert_close(evaluated, layer(query, memory))
        assert not torch.equal(trained.context, again.context)
        # With values of 1 the context is the sum of what is left of the weights, each doubled.
        for context, weights in zip(
            trained.context.flatten(), trained.weights.flatten(0, 1), strict=True
        ):
            subsets = torch.cartesian_prod(*[torch.tensor([0.0, 2.0]).double()] * len(weights))
            assert (subsets @ weights - context).abs().min() < 1e-12

    def test_need_weights_changes_the_weights_alone(self, make_layer, make_inputs):
        for window in WINDOWS:
            layer = make_layer("additive", window)
            query, keys, values, lengths = make_inputs(layer)
            memory = layer.prepare(keys, values, lengths=lengths)
            without = layer(query, memory, need_weights=False)
            assert without.weights is None
            assert torch.equal(without.context, layer(query, memory).context)


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    @pytest.mark.parametrize("window", WINDOWS)
    @pytest.mark.parametrize("score", SCORES)
    def test_16_bit_layers_keep_their_type_and_have_float32_weights(
        self, make_layer, make_inputs, score, window, dtype
    ):
        layer = make_layer(score, window).to(dtype)
        inputs = make_inputs(layer)
        query, keys, values = (tensor.detach().to(dtype) for tensor in inputs[:3])
        result = layer(query, layer.prepare(keys, values, lengths=inputs.lengths))
        assert result.context.dtype == dtype
        assert result.weights.dtype == torch.float32
        exact_layer = layer.double()
        memory = exact_layer.prepare(keys.double(), values.double(), lengths=inputs.lengths)
        exact = exact_layer(query.double(), memory)
        torch.testing.assert_close(result.context.double(), exact.context, atol=0.05, rtol=0.05)

    @pytest.mark.parametrize("window", ["global", "local-m"])
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_sums_are_as_accurate_as_float32_of_the_rounded_inputs(
        self, make_layer, make_inputs, dtype, window
    ):
        layer = make_layer("scaled-dot", window, query_size=256, half_width=3)
        inputs = make_inputs(layer)
        query, keys, values = (tensor.detach().to(dtype) for tensor in inputs[:3])
        weights = layer.to(dtype)(query, layer.prepare(keys, values)).weights
        exact = layer.double()
        expected = exact(query.double(), exact.prepare(keys.double(), values.double())).weights
        torch.testing.assert_close(weights.double(), expected, atol=1e-6, rtol=1e-5)

    @pytest.mark.parametrize("window", WINDOWS)
    @pytest.mark.parametrize("score", SCORES)
    def test_autocast(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window).float()
        inputs = make_inputs(layer)
        query, keys, values = (tensor.detach().float() for tensor in inputs[:3])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = layer(query, layer.prepare(keys, values, lengths=inputs.lengths))
        assert result.weights.dtype == torch.float32
        assert result.context.dtype == torch.float32
        if result.context.numel():
            result.context.sum().backward() if layer.training and list(layer.parameters()) else None
        assert all(p.grad is None or p.grad.isfinite().all() for p in layer.parameters())

    def test_autocast_rounds_the_projections_and_nothing_after_them(self, make_layer, make_inputs):
        layer = make_layer("additive", attention_size=128).float()
        inputs = make_inputs(layer)
        query, keys, values = (tensor.detach().float() for tensor in inputs[:3])
        score = layer.score
        with torch.autocast("cpu", dtype=torch.bfloat16):
            weights = layer(query, layer.prepare(keys, values)).weights
            rounded_query = nn.functional.linear(query, score.query_weight, score.bias)
            rounded_keys = nn.functional.linear(keys, score.key_weight)
        assert rounded_keys.dtype == torch.bfloat16
        scores = kernels.additive_scores(
            rounded_query.double(), rounded_keys.double(), score.weight_vector.double()
        )
        torch.testing.assert_close(weights.double(), scores.softmax(-1), atol=1e-6, rtol=1e-5)

    def test_large_fp16_scores_stay_finite(self):
        # Dot products of +-100 * 100 = +-1e4, and of 300 * 300 = 9e4, which fp16 does not hold.
        for size in (100.0, 300.0):
            query = torch.tensor([[[size], [-size]]], dtype=torch.float16)
            keys = torch.tensor([[[size], [-size], [0.0]]], dtype=torch.float16)
            context, weights, _ = attend(query, keys, score="dot")
            assert weights[0].tolist() == [[1, 0, 0], [0, 1, 0]]
            assert context[0, :, 0].tolist() == [size, -size]


class Distance(Score):
    """-|h_t - h_s|^2 without the |h_t|^2 that softmax does not see."""

    def prepare(self, keys: Tensor) -> Tensor:
        return torch.cat([2 * keys, -keys.square().sum(-1, keepdim=True)], -1)

    def scores(self, query: Tensor, prepared: Tensor) -> Tensor:
        return kernels.dot_scores(self._with_one(query), prepared)

    def banded(self, query: Tensor, prepared: Tensor, centres: Tensor, half_width: int) -> Tensor:
        return kernels.local_scores(self._with_one(query), prepared, centres, half_width)

    def _with_one(self, query: Tensor) -> Tensor:
        return torch.cat([query, torch.ones_like(query[..., :1])], -1)

    def operations(self, keys: int, queries: int, pairs: int) -> int:
        return 3 * keys * self.key_size + 2 * pairs * (self.key_size + 1)


class Middle(Window):
    """The three positions in the middle of each source."""

    def locate(self, query: Tensor, positions: Tensor, lengths: Tensor) -> Located:
        return Located(1, (lengths // 2).unsqueeze(-1).expand_as(positions))


class TestPlugIns:
    @pytest.mark.parametrize("window", [*WINDOWS, Middle()])
    def test_a_score_of_ones_own_goes_everywhere(self, make_inputs, window):
        layer = Attention(4, 4, score=Distance(4, 4), window=window, half_width=9).double()
        inputs = make_inputs(layer)
        query, keys, values, lengths = inputs
        memory = layer.prepare(keys, values, lengths=lengths)
        result = layer(query, memory, mask=torch.ones(3, 5, dtype=torch.bool))
        if window == "global":
            mask = torch.arange(5) < lengths.view(2, 1, 1)
            nearness = -torch.cdist(query, keys).square()
            expected = nearness.masked_fill(~mask, -torch.inf).softmax(-1)
            torch.testing.assert_close(result.weights, expected)
        function, arguments = as_function(layer, inputs)
        assert gradcheck(function, arguments, fast_mode=True)
        rows = torch.tensor([1])
        chosen = layer(query[rows], memory.select(rows))
        torch.testing.assert_close(chosen.context, result.context[rows])
        once = attend(query, keys, values, score=layer.score, window=layer.window, lengths=lengths)
        torch.testing.assert_close(once, result)
        assert layer.score.cost(6, 2) == (0, 3 * 6 * 4 + 2 * 12 * 5)

    @pytest.mark.parametrize("score", SCORES)
    def test_a_window_of_ones_own_goes_with_every_score(self, make_layer, make_inputs, score):
        layer = make_layer(score, Middle())
        query, keys, values, lengths = make_inputs(layer)
        result = layer(query, layer.prepare(keys, values, lengths=lengths))
        assert result.weights.shape == (2, 3, 3)
        assert result.band_start.tolist() == [[1, 1, 1], [1, 1, 1]]
        seen = 0.0 if score == "none" else 1.0
        expected = torch.full((2, 3), seen, dtype=torch.float64)
        torch.testing.assert_close(result.dense(5)[..., 1:4].sum(-1), expected)


class TestErrors:
    def test_wrong_sizes_are_named_beside_the_right_ones(self):
        layer = Attention(4, 6)
        memory = layer.prepare(torch.zeros(2, 5, 6))
        with pytest.raises(ValueError, match=r"keys have shape \(2, 5, 7\).*k = 6"):
            layer.prepare(torch.zeros(2, 5, 7))
        with pytest.raises(ValueError, match=r"values have shape \(2, 4, 3\).*\(2, 5\)"):
            layer.prepare(torch.zeros(2, 5, 6), torch.zeros(2, 4, 3))
        with pytest.raises(ValueError, match=r"query has shape \(2, 1, 5\).*q = 4"):
            layer(torch.zeros(2, 1, 5), memory)
        with pytest.raises(ValueError, match=r"query has shape \(3, 1, 4\).*B = 2"):
            layer(torch.zeros(3, 1, 4), memory)
        with pytest.raises(ValueError, match=r"query has shape \(2, 4\).*\(B, 1, q\)"):
            layer(torch.zeros(2, 4), memory)

    def test_positions_are_integers_of_the_queries_shape(self):
        layer = Attention(4, 4, window="local-m")
        query, memory = torch.zeros(2, 3, 4), layer.prepare(torch.zeros(2, 5, 4))
        with pytest.raises(ValueError, match=r"positions have shape \(2, 1\).*\(2, 3\)"):
            layer(query, memory, positions=torch.zeros(2, 1, dtype=torch.long))
        with pytest.raises(TypeError, match=r"positions have dtype torch.float32"):
            layer(query, memory, positions=torch.zeros(2, 3))


def test_the_examples_of_the_page_print_what_it_says():
    text = PAGE.read_text(encoding="utf-8")
    names: dict[str, object] = {}
    blocks = re.findall(r"```python\n(.*?)```(?:\s*```text\n(.*?)```)?", text, re.DOTALL)
    assert len(blocks) >= 3
    for code, printed in blocks:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            exec(code, names)
        assert output.getvalue() == printed
