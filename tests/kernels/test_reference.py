"""The specification against the papers' sums written out, and every kind of derivative of it."""

import math

import pytest
import torch
from torch.autograd import gradcheck, gradgradcheck

from luong import kernels

DOUBLE = {"dtype": torch.float64, "requires_grad": True}


def additive_loop(query, key, weight):
    """sum_c v_c tanh(q_tc + k_sc) for one source, in Python floats."""
    return [
        [
            sum(w * math.tanh(a + b) for a, b, w in zip(q, k, weight, strict=True))
            for k in key.tolist()
        ]
        for q in query.tolist()
    ]


def inputs(batch=2, steps=3, source_length=4, size=5):
    query = torch.randn(batch, steps, size, **DOUBLE)
    key = torch.randn(batch, source_length, size, **DOUBLE)
    return query, key, torch.randn(size, **DOUBLE)


CENTRES = torch.tensor([[-1, 0, 2], [3, 5, 1]])


class TestGlobal:
    def test_additive_scores_by_loop(self):
        query, key, weight = inputs()
        scores = kernels.additive_scores(query, key, weight)
        for b in range(2):
            expected = additive_loop(query[b], key[b], weight.tolist())
            torch.testing.assert_close(scores[b], torch.tensor(expected, dtype=torch.float64))

    def test_by_hand(self):
        # q = [1, 0], k = [0, 1], v = [2, -1]: 2 tanh 1 - tanh 1 = tanh 1 = .7615942
        query, key = torch.tensor([[[1.0, 0.0]]]), torch.tensor([[[0.0, 1.0]]])
        scores = kernels.additive_scores(query, key, torch.tensor([2.0, -1.0]))
        assert scores.item() == pytest.approx(0.7615942, abs=1e-6)
        assert kernels.dot_scores(query + 1, key + 2).item() == 2 * 2 + 1 * 3

    def test_prepared_keys_give_the_same(self):
        query, key, weight = inputs()
        prepared = kernels.prepare_keys(key)
        one = kernels.additive_scores(query, prepared, weight)
        torch.testing.assert_close(one, kernels.additive_scores(query, key, weight))
        rows = torch.tensor([1, 1, 0])
        assert torch.equal(prepared.select(rows).key, key[rows])

    def test_leading_dimensions_broadcast(self):
        query, key, weight = inputs()
        heads = kernels.additive_scores(query.unsqueeze(1), key.unsqueeze(1), weight)
        torch.testing.assert_close(heads[:, 0], kernels.additive_scores(query, key, weight))
        shared = kernels.additive_scores(query, key[0], weight)
        torch.testing.assert_close(shared[1], kernels.additive_scores(query[1], key[0], weight))


class TestLocal:
    @pytest.mark.parametrize("additive", [True, False])
    def test_bands_are_what_global_scores_hold_there(self, additive):
        query, key, weight = inputs()
        if additive:
            full = kernels.additive_scores(query, key, weight)
            band = kernels.local_scores(query, key, CENTRES, 2, weight)
        else:
            full = kernels.dot_scores(query, key)
            band = kernels.local_scores(query, key, CENTRES, 2)
        assert band.shape == (2, 3, 5)
        for b in range(2):
            for t in range(3):
                for j in range(5):
                    s = int(CENTRES[b, t]) - 2 + j
                    expected = full[b, t, s].item() if 0 <= s < 4 else 0.0
                    assert band[b, t, j].item() == pytest.approx(expected, abs=1e-12)

    def test_context_is_the_sum_of_the_values_under_the_band(self):
        weights, value = torch.rand(2, 3, 5), torch.randn(2, 4, 6)
        context = kernels.local_context(weights, value, CENTRES)
        for b in range(2):
            for t in range(3):
                expected = torch.zeros(6)
                for j in range(5):
                    s = int(CENTRES[b, t]) - 2 + j
                    if 0 <= s < 4:
                        expected += weights[b, t, j] * value[b, s]
                torch.testing.assert_close(context[b, t], expected)

    def test_slots_outside_hold_exactly_zero_and_add_nothing(self):
        key = torch.full((1, 3, 2), torch.inf)
        far = torch.tensor([[50, -50]])
        scores = kernels.local_scores(torch.ones(1, 2, 2), key, far, 1)
        assert torch.equal(scores, torch.zeros(1, 2, 3))
        nan = torch.full((1, 2, 3), torch.nan)
        assert torch.equal(kernels.local_context(nan, key, far), torch.zeros(1, 2, 2))


class TestDerivatives:
    def test_first_and_second(self):
        query, key, weight = inputs(batch=1, steps=2, source_length=3, size=4)
        centres = torch.tensor([[0, 3]])
        values = torch.randn(1, 3, 2, **DOUBLE)
        weights = torch.rand(1, 2, 3, **DOUBLE)
        calls = [
            (kernels.additive_scores, (query, key, weight)),
            (kernels.dot_scores, (query, key)),
            (lambda q, k, v: kernels.local_scores(q, k, centres, 1, v), (query, key, weight)),
            (lambda q, k: kernels.local_scores(q, k, centres, 1), (query, key)),
            (lambda w, v: kernels.local_context(w, v, centres), (weights, values)),
            (kernels.global_context, (weights, values)),
            (kernels.dot_attention, (query, key, values, torch.tensor([True, True, False]))),
            (
                kernels.additive_attention,
                (query, key, weight, values, torch.tensor([True, False, True])),
            ),
        ]
        for function, arguments in calls:
            assert gradcheck(function, arguments)
            assert gradgradcheck(function, arguments)

    @pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own
    def test_jvp_is_the_finite_difference(self):
        primals = tuple(tensor.detach() for tensor in inputs())
        tangents = tuple(torch.randn_like(tensor) for tensor in primals)
        for function in (
            kernels.additive_scores,
            lambda q, k, v: kernels.local_scores(q, k, CENTRES, 1, v),
        ):
            _, slope = torch.func.jvp(function, primals, tangents)
            step = 1e-6
            up = function(*(p + step * t for p, t in zip(primals, tangents, strict=True)))
            down = function(*(p - step * t for p, t in zip(primals, tangents, strict=True)))
            torch.testing.assert_close(slope, (up - down) / (2 * step), atol=1e-7, rtol=1e-6)

    def test_vmap_is_the_loop(self):
        query, key, weight = inputs()
        mapped = torch.func.vmap(kernels.additive_scores, (0, 0, None))(query, key, weight)
        torch.testing.assert_close(mapped, kernels.additive_scores(query, key, weight))
        local = torch.func.vmap(lambda q, k, c: kernels.local_scores(q, k, c, 2))
        expected = kernels.local_scores(query, key, CENTRES, 2)
        torch.testing.assert_close(local(query, key, CENTRES), expected)


class TestPrecision:
    @pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
    def test_sums_of_16_bit_inputs_are_float32(self, dtype):
        size = 512
        query, key = torch.randn(1, 3, size).to(dtype), torch.randn(1, 4, size).to(dtype)
        weight = torch.randn(size).to(dtype)
        centres = torch.tensor([[0, 1, 3]])
        for function, arguments in [
            (kernels.dot_scores, (query, key)),
            (kernels.additive_scores, (query, key, weight)),
            (lambda q, k, v: kernels.local_scores(q, k, centres, 1, v), (query, key, weight)),
            (lambda q, k: kernels.local_scores(q, k, centres, 1), (query, key)),
            (lambda w, v: kernels.global_context(w, v), (query[..., :4], key)),
        ]:
            result = function(*arguments)
            assert result.dtype == torch.float32
            exact = function(*(argument.double() for argument in arguments))
            assert exact.dtype == torch.float64
            torch.testing.assert_close(result.double(), exact, atol=1e-4, rtol=1e-5)

    def test_autocast_does_not_narrow_the_sums(self):
        query, key = torch.randn(1, 3, 64), torch.randn(1, 4, 64)
        expected = kernels.dot_scores(query, key)
        with torch.autocast("cpu", dtype=torch.bfloat16):
            result = kernels.dot_scores(query, key)
        assert torch.equal(result, expected)


@pytest.mark.parametrize("sizes", [(0, 3, 4), (2, 0, 4), (2, 3, 0), (0, 0, 0)])
def test_sizes_of_zero(sizes):
    batch, steps, source_length = sizes
    query, key, weight = inputs(batch, steps, source_length)
    centres = torch.zeros(batch, steps, dtype=torch.long)
    band = kernels.local_scores(query, key, centres, 2, weight)
    assert kernels.additive_scores(query, key, weight).shape == (batch, steps, source_length)
    assert kernels.dot_scores(query, key).shape == (batch, steps, source_length)
    assert band.shape == (batch, steps, 5)
    assert kernels.local_context(band, key, centres).shape == (batch, steps, 5)
