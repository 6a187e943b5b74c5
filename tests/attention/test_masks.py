"""What may be attended: bool masks, lengths, rows with nothing, and junk that is masked."""

import pytest
import torch

from luong.attention import SCORES, WINDOWS, Attention, masks
from luong.attention.windows import Located, Window

JUNK = (torch.nan, torch.inf, -torch.inf, 1e30)


def gradients(layer, result, query, keys, values, seed=5):
    """Gradients of a fixed random weighing of the context, of inputs and parameters alike."""
    generator = torch.Generator().manual_seed(seed)
    upstream = torch.randn(result.context.shape, generator=generator, dtype=torch.float64)
    wanted = [query, keys, values, *layer.parameters()]
    if not result.context.requires_grad:
        return [torch.zeros_like(tensor) for tensor in wanted]
    found = torch.autograd.grad((result.context * upstream).sum(), wanted, allow_unused=True)
    return [torch.zeros_like(x) if g is None else g for x, g in zip(wanted, found, strict=True)]


class TestMasks:
    def test_from_lengths(self):
        expected = [[True, True, False], [False, False, False], [True, True, True]]
        assert masks.from_lengths(torch.tensor([2, 0, 3]), 3).tolist() == expected
        assert masks.from_lengths(torch.tensor([0]), 0).shape == (1, 0)

    def test_from_padding_mask_turns_the_meaning_round(self):
        padding = torch.tensor([[False, True]])
        assert masks.from_padding_mask(padding).tolist() == [[True, False]]
        with pytest.raises(TypeError):
            masks.from_padding_mask(padding.int())

    def test_last_allowed(self):
        mask = torch.tensor([[True, False, True, False], [False] * 4, [False, True, False, False]])
        assert masks.last_allowed(mask).tolist() == [3, 0, 2]
        assert masks.last_allowed(torch.ones(2, 0, dtype=torch.bool)).tolist() == [0, 0]
        assert masks.last_allowed(torch.ones(0, 3, dtype=torch.bool)).shape == (0,)

    @pytest.mark.parametrize("dtype", [torch.float32, torch.uint8, torch.int64])
    def test_bool_only(self, dtype):
        layer = Attention(4, 4)
        query, keys = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
        with pytest.raises(TypeError, match=r"bool, True = may attend"):
            layer.prepare(keys, mask=torch.ones(2, 5, dtype=dtype))
        with pytest.raises(TypeError, match=r"bool, True = may attend"):
            layer(query, layer.prepare(keys), mask=torch.ones(2, 3, 5, dtype=dtype))

    def test_shapes_are_named(self):
        layer = Attention(4, 4)
        query, keys = torch.zeros(2, 3, 4), torch.zeros(2, 5, 4)
        with pytest.raises(ValueError, match=r"\(2, 4\).*\(2, 5\)"):
            layer.prepare(keys, mask=torch.ones(2, 4, dtype=torch.bool))
        for shape in [(2, 5), (2, 3, 4), (4, 3, 5), (1, 2, 3, 5)]:
            with pytest.raises(ValueError, match=r"mask has shape.*\(2, 3, 5\)"):
                layer(query, layer.prepare(keys), mask=torch.ones(shape, dtype=torch.bool))

    def test_lengths_are_checked(self):
        layer, keys = Attention(4, 4), torch.zeros(2, 5, 4)
        for dtype in (torch.float32, torch.bool):
            with pytest.raises(TypeError, match="expected integers"):
                layer.prepare(keys, lengths=torch.ones(2, dtype=dtype))
        with pytest.raises(ValueError, match=r"shape \(3,\).*\(2,\)"):
            layer.prepare(keys, lengths=torch.tensor([1, 2, 3]))
        for wrong in ([-1, 2], [2, 6]):
            with pytest.raises(ValueError, match="expected 0 to 5"):
                layer.prepare(keys, lengths=torch.tensor(wrong))


@pytest.mark.parametrize("window", WINDOWS)
class TestCombined:
    def test_lengths_are_the_mask_of_a_prefix(self, make_layer, make_inputs, window):
        layer = make_layer("additive", window)
        query, keys, values, lengths = make_inputs(layer)
        for short in (lengths, lengths.int()):
            one = layer.prepare(keys, values, lengths=short)
            other = layer.prepare(keys, values, mask=masks.from_lengths(lengths, 5))
            torch.testing.assert_close(layer(query, one), layer(query, other))

    def test_both_must_allow_and_lengths_place_the_window(self, make_layer, make_inputs, window):
        layer = make_layer("general", window, half_width=4)
        query, keys, values, _ = make_inputs(layer)
        lengths = torch.tensor([4, 3])
        mask = torch.tensor([[True, False, True, False, True], [False, True, True, True, True]])
        memory = layer.prepare(keys, values, lengths=lengths, mask=mask)
        result = layer(query, memory)
        allowed = mask & masks.from_lengths(lengths, 5)
        assert torch.equal(result.dense(5) > 0, allowed.unsqueeze(1).expand(2, 3, 5))
        # the hole at the end of the first source does not move its centre, bell or band
        whole = layer(query, layer.prepare(keys, values, lengths=lengths))
        torch.testing.assert_close(result.band_start, whole.band_start)

    def test_without_lengths_a_source_ends_after_its_last_true(
        self, make_layer, make_inputs, window
    ):
        layer = make_layer("general", window)
        query, keys, values, _ = make_inputs(layer)
        mask = torch.tensor([[True, False, False, True, False], [False, False, True, True, True]])
        one = layer.prepare(keys, values, mask=mask)
        other = layer.prepare(keys, values, mask=mask, lengths=torch.tensor([4, 5]))
        torch.testing.assert_close(layer(query, one), layer(query, other))

    def test_a_mask_of_a_call_equals_that_of_the_source(self, make_layer, make_inputs, window):
        layer = make_layer("concat", window, half_width=2)
        query, keys, values, _ = make_inputs(layer)
        lengths = torch.tensor([5, 5])
        mask = torch.tensor([[True, False, True, True, True], [True, True, False, True, False]])
        prepared = layer.prepare(keys, values, lengths=lengths, mask=mask)
        for shape in (mask.unsqueeze(1), mask.unsqueeze(1).expand(2, 3, 5)):
            called = layer(query, layer.prepare(keys, values), mask=shape)
            torch.testing.assert_close(called, layer(query, prepared))

    def test_each_row_has_its_own_mask(self, make_layer, make_inputs, window):
        layer = make_layer("additive", window, half_width=2)
        query, keys, values, lengths = make_inputs(layer)
        memory = layer.prepare(keys, values, lengths=lengths)
        mask = torch.rand(2, 3, 5) < 0.6
        together = layer(query, memory, mask=mask)
        for t in range(3):
            alone = layer(
                query[:, t : t + 1],
                memory,
                mask=mask[:, t : t + 1],
                positions=torch.full((2, 1), t),
            )
            torch.testing.assert_close(alone.context, together.context[:, t : t + 1])
            torch.testing.assert_close(alone.weights, together.weights[:, t : t + 1])


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
class TestRowsWithNothing:
    def check(self, layer, result, inputs, rows):
        """Rows are zero, and so are the gradients of all that only they depend on."""
        assert not result.weights[rows].any()
        assert not result.context[rows].any()
        found = gradients(layer, result, *inputs[:3])
        assert all(gradient.isfinite().all() for gradient in found)
        assert not found[0][rows].any()
        return found

    def test_a_source_of_length_0(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        memory = layer.prepare(*inputs[1:3], lengths=torch.tensor([0, 5]))
        found = self.check(layer, layer(inputs.query, memory), inputs, 0)
        assert not found[1][0].any()
        assert not found[2][0].any()

    def test_a_row_of_a_call(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        mask = torch.ones(2, 3, 5, dtype=torch.bool)
        mask[1, 2] = False
        result = layer(inputs.query, layer.prepare(*inputs[1:3]), mask=mask)
        self.check(layer, result, inputs, (1, 2))
        if score != "none":
            assert result.weights[0].any()

    def test_everything(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        memory = layer.prepare(*inputs[1:3], mask=torch.zeros(2, 5, dtype=torch.bool))
        found = self.check(layer, layer(inputs.query, memory), inputs, slice(None))
        assert not any(gradient.any() for gradient in found)

    @pytest.mark.parametrize("sizes", [(0, 3, 5), (2, 0, 5), (2, 3, 0), (0, 0, 0)])
    def test_sizes_of_zero(self, make_layer, make_inputs, score, window, sizes):
        batch, steps, source_length = sizes
        layer = make_layer(score, window)
        inputs = make_inputs(layer, batch=batch, steps=steps, source_length=source_length)
        memory = layer.prepare(*inputs[1:3], lengths=inputs.lengths)
        mask = torch.ones(sizes, dtype=torch.bool)
        result = layer(inputs.query, memory, mask=mask, bias=torch.zeros(sizes))
        assert result.context.shape == (batch, steps, 0 if score == "none" else 3)
        assert result.weights.shape[:2] == (batch, steps)
        assert result.dense(source_length).shape == sizes
        assert not result.context.any()
        assert not any(gradient.any() for gradient in gradients(layer, result, *inputs[:3]))


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", SCORES)
class TestMaskedJunk:
    """A masked key takes no part at all."""

    POSITION = 2

    def compare(self, layer, inputs, attended):
        """attended(keys, values) is the same whatever stands at the masked position."""
        query, keys, values, _ = inputs
        expected = attended(keys, values)
        wanted = gradients(layer, expected, query, keys, values)
        assert all(gradient.isfinite().all() for gradient in wanted)
        for junk in JUNK:
            junk_keys, junk_values = keys.detach().clone(), values.detach().clone()
            junk_keys[:, self.POSITION] = junk
            junk_values[:, self.POSITION] = junk
            junk_keys.requires_grad_()
            junk_values.requires_grad_()
            result = attended(junk_keys, junk_values)
            torch.testing.assert_close(result, expected)
            found = gradients(layer, result, query, junk_keys, junk_values)
            torch.testing.assert_close(found, wanted)
            assert not found[1][:, self.POSITION].any()
            assert not found[2][:, self.POSITION].any()

    def test_masked_in_the_source(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        mask = (torch.arange(5) != self.POSITION).expand(2, 5)
        self.compare(
            layer, inputs, lambda k, v: layer(inputs.query, layer.prepare(k, v, mask=mask))
        )

    def test_masked_by_lengths(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        lengths = torch.tensor([2, 1])
        self.compare(
            layer, inputs, lambda k, v: layer(inputs.query, layer.prepare(k, v, lengths=lengths))
        )

    @pytest.mark.parametrize("shape", [(5,), (2, 1, 5), (2, 3, 5)])
    def test_masked_in_a_call(self, make_layer, make_inputs, score, window, shape):
        layer = make_layer(score, window)
        inputs = make_inputs(layer)
        mask = (torch.arange(5) != self.POSITION).expand(shape)
        self.compare(
            layer, inputs, lambda k, v: layer(inputs.query, layer.prepare(k, v), mask=mask)
        )

    def test_masked_for_some_rows_of_a_call(self, make_layer, make_inputs, score, window):
        """Row 1 may see the junk and is NaN; rows 0 and 2 may not, and are as they were."""
        layer = make_layer(score, window, half_width=4)
        query, keys, values, _ = make_inputs(layer)
        mask = torch.ones(2, 3, 5, dtype=torch.bool)
        mask[:, [0, 2], self.POSITION] = False
        expected = layer(query, layer.prepare(keys, values), mask=mask)
        junk_keys, junk_values = keys.detach().clone(), values.detach().clone()
        junk_keys[:, self.POSITION] = torch.nan
        junk_values[:, self.POSITION] = torch.nan
        result = layer(query, layer.prepare(junk_keys, junk_values), mask=mask)
        for b_t in [(slice(None), 0), (slice(None), 2)]:
            torch.testing.assert_close(result.context[b_t], expected.context[b_t])
            torch.testing.assert_close(result.weights[b_t], expected.weights[b_t])
        if score != "none":
            assert result.context[:, 1].isnan().all()
            upstream = torch.ones_like(result.context[:, 0])
            (found,) = torch.autograd.grad(result.context[:, 0], query, upstream)
            assert found[:, [0, 2]].isfinite().all()


@pytest.mark.parametrize("window", WINDOWS)
@pytest.mark.parametrize("score", [name for name in SCORES if name != "none"])
class TestLiveNaN:
    def test_in_a_query_makes_its_own_row_nan(self, make_layer, make_inputs, score, window):
        layer = make_layer(score, window)
        query, keys, values, lengths = make_inputs(layer)
        memory = layer.prepare(keys, values, lengths=lengths)
        broken = query.detach().clone()
        broken[0, 1] = torch.nan
        result, expected = layer(broken, memory), layer(query, memory)
        assert result.context[0, 1].isnan().all()
        assert result.weights[0, 1].isnan().any()
        for row in [(0, 0), (0, 2), 1]:
            assert torch.equal(result.context[row], expected.context[row])

    @pytest.mark.parametrize("where", ["keys", "values"])
    def test_in_a_source_makes_every_row_nan_that_sees_it(
        self, make_layer, make_inputs, score, window, where
    ):
        layer = make_layer(score, window)
        query, keys, values, lengths = make_inputs(layer)
        data = {"keys": keys.detach().clone(), "values": values.detach().clone()}
        data[where][0, 2, 0] = torch.nan
        result = layer(query, layer.prepare(**data, lengths=lengths))
        expected = layer(query, layer.prepare(keys, values, lengths=lengths))
        sees = expected.dense(5)[0, :, 2] > 0
        assert sees.any()
        assert result.context[0, sees].isnan().all()
        assert torch.equal(result.context[0, ~sees], expected.context[0, ~sees])
        assert torch.equal(result.context[1], expected.context[1])


class EachRowElsewhere(Window):
    """A window that puts every row elsewhere, to see masks through bands."""

    def locate(self, query, positions, lengths):
        return Located(1, positions)


def test_a_band_reads_its_own_part_of_the_mask():
    layer = Attention(2, 2, score="dot", window=EachRowElsewhere())
    mask = torch.tensor([True, False, True, True, False])
    memory = layer.prepare(torch.zeros(1, 5, 2), lengths=torch.tensor([5]))
    positions = torch.tensor([[-3, 0, 1, 3, 4, 7]])
    weights = layer(torch.zeros(1, 6, 2), memory, positions=positions, mask=mask).weights[0]
    half = 0.5
    assert weights.tolist() == [
        [0, 0, 0],
        [0, 1, 0],
        [half, 0, half],
        [half, half, 0],
        [1, 0, 0],
        [0, 0, 0],
    ]
