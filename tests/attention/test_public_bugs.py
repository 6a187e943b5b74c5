"""Bugs that people reported of other attention layers, each with an input that shows it.

The docstrings name the public reports. Those about interfaces that do not exist here are left out.
"""

import pytest
import torch
from torch.autograd import gradgradcheck

from luong import kernels
from luong.attention import SCORES, WINDOWS, Attention, attend, masked_softmax, masks

ATTENDING = [name for name in SCORES if name != "none"]
SMALLEST_HALF = torch.finfo(torch.float16).min


def tensors(*shapes, dtype=torch.float32):
    return [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


class TestMasks:
    def test_a_mask_that_hides_every_key_gives_zeros(self):
        """pytorch#41508, #24816, #40932, #26098."""
        query, keys = tensors((2, 3, 4), (2, 3, 4))
        mask = torch.tensor([[True, True, False], [False, False, False]])
        result = attend(query, keys, mask=mask.unsqueeze(1))
        result.context.sum().backward()
        assert not result.context[1].any()
        for gradient in (query.grad, keys.grad):
            assert gradient.isfinite().all()
            assert not gradient[1].any()

    def test_the_same_with_and_without_weights(self):
        """pytorch#160064, #152028."""
        query, keys = tensors((2, 3, 4), (2, 3, 4))
        mask = torch.tensor([[True, True, False], [False, False, False]]).unsqueeze(1)
        one, other = (attend(query, keys, mask=mask, need_weights=need) for need in (True, False))
        torch.testing.assert_close(one.context, other.context)
        assert not other.context[1].any()

    def test_a_bool_row_of_false_is_zero_and_not_even_attention(self):
        """pytorch#103963, #103749."""
        query, keys = tensors((1, 2, 4), (1, 3, 4))
        mask = torch.tensor([[True, False, True], [False, False, False]])
        context = attend(query, keys, mask=mask).context
        scores = (query[0, 0] @ keys[0, [0, 2]].T) / 2
        torch.testing.assert_close(context[0, 0], scores.softmax(-1) @ keys[0, [0, 2]])
        assert not context[0, 1].any()

    def test_a_bias_of_the_smallest_float_is_finite(self):
        """pytorch#109517."""
        query, keys = tensors((1, 2, 4), (1, 3, 4))
        bias = torch.zeros(2, 3)
        bias[1] = torch.finfo(torch.float32).min
        context = attend(query, keys, bias=bias).context
        context.sum().backward()
        assert context.isfinite().all()
        assert query.grad.isfinite().all()

    def test_nan_in_a_masked_key_or_value_poisons_nothing(self):
        """pytorch#101967, keras#16108."""
        mask = torch.tensor([True, False, True])
        results = []
        for junk in (0.0, torch.nan):
            torch.manual_seed(0)
            query, keys, values = tensors((1, 2, 4), (1, 3, 4), (1, 3, 5))
            keys.data[0, 1] = values.data[0, 1] = junk
            context = attend(query, keys, values, mask=mask).context
            context.square().sum().backward()
            results.append((context, query.grad, keys.grad, values.grad))
        torch.testing.assert_close(*results)

    def test_lengths_hide_the_padding_and_not_the_words(self):
        """pytorch#170400, #170415, #120668, rasbt/LLMs-from-scratch#1061."""
        query, keys = tensors((2, 1, 4), (2, 4, 4))
        weights = attend(query, keys, lengths=torch.tensor([2, 3])).weights[:, 0]
        assert (weights > 0).tolist() == [[True, True, False, False], [True, True, True, False]]

    def test_a_causal_mask_and_a_padded_key_are_both_kept(self):
        """pytorch#27968, #63271."""
        query, keys = tensors((1, 5, 4), (1, 5, 4))
        causal = torch.ones(5, 5, dtype=torch.bool).tril()
        weights = attend(query, keys, lengths=torch.tensor([4]), mask=causal).weights[0]
        expected = causal.clone()
        expected[:, 4] = False
        assert torch.equal(weights > 0, expected)

    def test_a_large_masked_score_does_not_swallow_the_others(self):
        """abisee/pointer-generator#88, allennlp#437: masked after the softmax."""
        scores = torch.tensor([1.0, 1.0, 100.0])
        weights = masked_softmax(scores, torch.tensor([True, True, False]))
        assert weights.tolist() == [0.5, 0.5, 0]

    def test_strongly_negative_scores_do_not_lose_to_padding(self):
        """The default masked softmax of AllenNLP: 1 / (1 + e^-1) = .7310586."""
        scores = torch.tensor([-200.0, -201.0, 0.0])
        weights = masked_softmax(scores, torch.tensor([True, True, False]))
        assert weights.tolist() == pytest.approx([0.7310586, 0.2689414, 0])

    def test_a_score_of_minus_infinity_and_huge_scores(self):
        """deep-spin/entmax#9, #16, #17, tensorflow#15564."""
        allowed = torch.ones(3, dtype=torch.bool)
        scores = torch.tensor([-torch.inf, -torch.inf, 0.0], requires_grad=True)
        weights = masked_softmax(scores, allowed)
        weights.square().sum().backward()
        assert weights.tolist() == [0, 0, 1]
        assert scores.grad.tolist() == [0, 0, 0]
        huge = masked_softmax(torch.tensor([1e8, 1e8 - 8]), allowed[:2])
        assert huge.tolist() == pytest.approx([1, 0], abs=1e-3)

    def test_padded_states_that_are_not_zero_get_no_weight(self):
        """espnet#397: an encoder's biased projection makes padding nonzero."""
        layer = Attention(4, 4, score="additive")
        layer.score.bias.data.fill_(9.0)
        keys = torch.full((1, 4, 4), 5.0)
        memory = layer.prepare(keys, lengths=torch.tensor([2]))
        assert layer(torch.randn(1, 3, 4), memory).weights[0, :, 2:].eq(0).all()

    def test_a_mask_that_only_fits_where_sizes_happen_to_agree(self):
        """keras#21483, #21595: a 2-D mask is (T, S) here, never (B, S)."""
        query, keys = tensors((2, 3, 5), (2, 4, 5))
        with pytest.raises(ValueError, match=r"\(2, 4\)"):
            attend(query, keys, mask=torch.ones(2, 4, dtype=torch.bool))
        assert attend(query, keys, mask=torch.ones(3, 4, dtype=torch.bool)).weights.all()

    def test_a_log_of_the_weights_of_an_empty_row_is_not_nan(self):
        """allennlp#890, #893."""
        weights = masked_softmax(torch.zeros(3), torch.zeros(3, dtype=torch.bool))
        assert weights.log().tolist() == [-torch.inf] * 3

    def test_padding_masks_of_other_libraries_go_through_one_converter(self):
        """TransformerEngine#614, torchTextClassifiers#92: two senses of True."""
        theirs = torch.tensor([[False, False, True]])
        query, keys = tensors((1, 2, 4), (1, 3, 4))
        mask = masks.from_padding_mask(theirs).unsqueeze(1)
        assert attend(query, keys, mask=mask).weights[0, :, 2].eq(0).all()


class TestPrecision:
    def test_fp16_with_a_masked_entry(self):
        """fairseq#3575, transformers#382, flax#982: -1e8 does not fit into fp16."""
        query, keys = (t.detach().half() for t in tensors((1, 2, 4), (1, 3, 4)))
        context = attend(query, keys, mask=torch.tensor([True, False, True])).context
        assert context.dtype == torch.float16
        assert context.isfinite().all()

    def test_fp16_with_negative_scores_and_one_key_left(self):
        """keras#17571, tensorflow#59657: the fill added to a score overflows."""
        query = torch.full((1, 1, 1), -20.0, dtype=torch.float16, requires_grad=True)
        keys = torch.ones(1, 3, 1, dtype=torch.float16)
        result = attend(query, keys, mask=torch.tensor([False, True, False]), score="dot")
        result.context.sum().backward()
        assert result.weights.tolist() == [[[0, 1, 0]]]
        assert query.grad.isfinite().all()

    @pytest.mark.parametrize("score", SCORES)
    def test_half_inputs_and_a_bool_mask_under_autocast(self, score):
        """tensorflow#46064, #43261, addons#1968: casting errors of mixed precision."""
        layer = Attention(4, 4, score=score, max_length=3)
        mask = torch.tensor([[True, True, False]])
        with torch.autocast("cpu", dtype=torch.bfloat16):
            for dtype in (torch.bfloat16, torch.float32):
                query, keys = torch.randn(1, 2, 4).to(dtype), torch.randn(1, 3, 4).to(dtype)
                context = layer(query, layer.prepare(keys, mask=mask)).context
                assert context.dtype == dtype
                assert context.isfinite().all()

    @pytest.mark.parametrize("bias_type", [torch.float64, torch.float32, torch.bfloat16])
    def test_a_bias_of_another_type(self, bias_type):
        """pytorch#99012, open_clip#484, ComfyUI#8118."""
        query, keys = (t.detach().bfloat16() for t in tensors((1, 2, 4), (1, 3, 4)))
        for window in ("global", "local-m"):
            bias = torch.zeros(2, 3, dtype=bias_type)
            result = attend(query, keys, window=window, bias=bias)
            expected = attend(query, keys, window=window)
            assert result.weights.dtype == torch.float32
            torch.testing.assert_close(result, expected)

    def test_infinities_of_a_smallest_half_bias(self):
        """keras#17571 again, by way of the bias."""
        query, keys = (t.detach().half() for t in tensors((1, 2, 4), (1, 3, 4)))
        bias = torch.tensor([0.0, SMALLEST_HALF, 0.0], dtype=torch.float16)
        weights = attend(query, keys, bias=bias).weights
        assert weights[..., 1].eq(0).all()
        assert weights.isfinite().all()


class TestBatches:
    @pytest.mark.parametrize("window", WINDOWS)
    @pytest.mark.parametrize("score", SCORES)
    def test_a_batch_of_one_equals_a_batch_of_many(self, make_layer, make_inputs, score, window):
        """tensorflow#512, #43941, OpenNMT-py#272, pytorch/tutorials#593, Seq2Seq-PyTorch#6."""
        layer = make_layer(score, window)
        query, keys, values, _ = make_inputs(layer, batch=3)
        lengths = torch.tensor([2, 5, 1])
        many = layer(query, layer.prepare(keys, values, lengths=lengths))
        one = layer(query[:1], layer.prepare(keys[:1, :2], values[:1, :2]))
        torch.testing.assert_close(one.context, many.context[:1], atol=1e-12, rtol=0)
        torch.testing.assert_close(one.dense(2), many.dense(5)[:1, :, :2], atol=1e-12, rtol=0)

    def test_a_length_of_zero(self):
        """tensorflow/nmt#210."""
        query, keys = tensors((2, 1, 4), (2, 3, 4))
        context = attend(query, keys, lengths=torch.tensor([3, 0])).context
        assert context[0].any()
        assert not context[1].any()

    def test_single_queries_some_without_a_source(self):
        """flash-attention#1537."""
        query, keys = tensors((4, 1, 4), (4, 1, 4))
        context = attend(query, keys, lengths=torch.tensor([0, 1, 0, 1])).context
        torch.testing.assert_close(context, keys * torch.tensor([0, 1, 0, 1]).view(4, 1, 1))

    @pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 0, 3, 4), (2, 2, 0, 4), (2, 2, 3, 0)])
    def test_sizes_of_zero(self, shape):
        """pytorch#165944, #166318, #174939, #195812, flash-attention#1159, cudnn-frontend#101."""
        batch, steps, source_length, value_size = shape
        for window in ("global", "local-m"):
            query, keys, values = tensors(
                (batch, steps, 5), (batch, source_length, 5), (batch, source_length, value_size)
            )
            result = attend(query, keys, values, window=window)
            assert result.context.shape == (batch, steps, value_size)
            if result.context.requires_grad:
                result.context.sum().backward()
                assert query.grad.isfinite().all()

    def test_a_module_holds_nothing_of_its_last_call(self):
        """espnet#461, #665, #681: masks and keys cached from another batch."""
        layer = Attention(4, 4, score="additive", window="local-p")
        keys, query = torch.randn(1, 5, 4), torch.randn(1, 2, 4)
        first = layer(query, layer.prepare(keys[:, :4]))
        layer(query, layer.prepare(keys))
        torch.testing.assert_close(layer(query, layer.prepare(keys[:, :4])), first)

    def test_one_layout_of_weights_for_every_score(self, make_layer, make_inputs):
        """espnet#1238, #1747, #2028: per-class weight structures."""
        for score in SCORES:
            layer = make_layer(score)
            query, keys, values, _ = make_inputs(layer)
            memory = layer.prepare(keys, values)
            steps = [layer(query[:, t : t + 1], memory).weights for t in range(3)]
            stacked = torch.cat(steps, 1)
            assert stacked.shape == (2, 3, 5)
            torch.testing.assert_close(stacked, layer(query, memory).weights)

    def test_beams_share_one_memory(self):
        """tensorflow#11904, #10433, tensorflow/nmt#93, addons#2459: tiling by hand goes wrong."""
        layer = Attention(4, 4, score="additive")
        keys, beams = torch.randn(2, 5, 4), torch.randn(2, 3, 4)
        lengths = torch.tensor([5, 2])
        shared = layer(beams, layer.prepare(keys, lengths=lengths)).context
        tiled = layer.prepare(keys.repeat_interleave(3, 0), lengths=lengths.repeat_interleave(3))
        separate = layer(beams.reshape(6, 1, 4), tiled).context
        torch.testing.assert_close(shared.reshape(6, 1, 4), separate)

    def test_the_output_has_the_size_of_the_values(self):
        """keras#19257."""
        layer = Attention(5, 6, value_size=7)
        memory = layer.prepare(torch.randn(2, 4, 6), torch.randn(2, 4, 7))
        assert layer(torch.randn(2, 3, 5), memory).context.shape == (2, 3, 7)
        assert layer.value_size == 7


class TestTraining:
    def test_no_dropout_in_evaluation(self):
        """pytorch#124464, #99293, timm#1978, wenet#2699."""
        layer = Attention(4, 4, dropout=0.5).eval()
        query, memory = torch.randn(2, 3, 4), layer.prepare(torch.randn(2, 9, 4))
        assert torch.equal(layer(query, memory).context, layer(query, memory).context)

    def test_training_and_evaluation_agree_on_a_mask_for_each_row(self):
        """pytorch#97409."""
        layer = Attention(4, 4)
        query, memory = torch.randn(2, 3, 4), layer.prepare(torch.randn(2, 5, 4))
        mask = torch.rand(2, 3, 5) < 0.5
        with torch.no_grad():
            trained = layer.train()(query, memory, mask=mask)
            torch.testing.assert_close(layer.eval()(query, memory, mask=mask), trained)

    def test_nearly_all_dropped(self):
        """nki-samples#80: a normaliser summed after dropout is NaN where a row is dropped whole."""
        query, keys = tensors((4, 8, 4), (4, 3, 4))
        context = attend(query, keys, dropout=0.999).context
        context.sum().backward()
        assert context.isfinite().all()
        assert query.grad.isfinite().all()

    def test_double_backward(self):
        """pytorch#116350, learn2learn#429, diffusers#5678, NATTEN#191."""
        inputs = tensors((1, 2, 4), (1, 3, 4), dtype=torch.float64)
        assert gradgradcheck(lambda q, k: attend(q, k).context, inputs)

    @pytest.mark.filterwarnings("ignore:`torch.jit.script`:DeprecationWarning")  # torch's own
    def test_forward_derivatives(self):
        """pytorch#117629, #154226, #98164, xformers#552."""
        layer = Attention(4, 4, score="additive", window="local-p").double()
        query, keys, along = (t.detach() for t in tensors(*[(1, 3, 4)] * 3, dtype=torch.float64))

        def context(query):
            return layer(query, layer.prepare(keys)).context

        _, slope = torch.func.jvp(context, (query,), (along,))
        step = 1e-6
        expected = (context(query + step * along) - context(query - step * along)) / (2 * step)
        torch.testing.assert_close(slope, expected, atol=1e-7, rtol=1e-5)

    @pytest.mark.parametrize("window", WINDOWS)
    def test_vmap_over_another_dimension(self, window):
        """pytorch#102457, #110525, #187266."""
        layer = Attention(4, 4, score="additive", window=window)
        query, keys = torch.randn(3, 2, 2, 4), torch.randn(3, 2, 5, 4)
        mask = torch.rand(3, 2, 5) < 0.6

        def context(query, keys, mask):
            return layer(query, layer.prepare(keys, mask=mask)).context

        mapped = torch.func.vmap(context)(query, keys, mask)
        looped = torch.stack([context(*one) for one in zip(query, keys, mask, strict=True)])
        torch.testing.assert_close(mapped, looped)

    @pytest.mark.parametrize("window", WINDOWS)
    def test_backward_is_the_same_every_time(self, window):
        """flash-attention#414, #429, #349, #2244."""
        layer = Attention(16, 16, score="additive", window=window)
        query, keys = tensors((4, 9, 16), (4, 21, 16))
        inputs = [query, keys, *layer.parameters()]

        def gradients():
            return torch.autograd.grad(layer(query, layer.prepare(keys)).context.sum(), inputs)

        first = gradients()
        for _ in range(10):
            assert all(map(torch.equal, gradients(), first))


class TestShapes:
    @pytest.mark.parametrize("score", ATTENDING)
    def test_one_query_and_one_key(self, score):
        """flash-attention#334, #443: NaN gradients at T = S = 1."""
        layer = Attention(4, 4, score=score, max_length=1)
        query, keys, values = tensors((1, 1, 4), (1, 1, 4), (1, 1, 3))
        context, weights, _ = layer(query, layer.prepare(keys, values))
        context.sum().backward()
        assert weights.tolist() == [[[1]]]
        torch.testing.assert_close(context, values)
        assert torch.equal(values.grad, torch.ones_like(values))
        gradients = [query.grad, keys.grad, *(p.grad for p in layer.parameters())]
        assert all(gradient is None or not gradient.any() for gradient in gradients)

    @pytest.mark.parametrize("source_length", [1, 2, 3, 43, 127, 128, 129, 1025])
    @pytest.mark.parametrize("window", ["global", "local-m"])
    def test_odd_source_lengths(self, source_length, window):
        """pytorch#153799, flash-attention#443: NaN only where S is no multiple of a block."""
        layer = Attention(8, 8, score="additive", window=window).double()
        query, keys = tensors((1, 2, 8), (1, source_length, 8), dtype=torch.float64)
        result = layer(query, layer.prepare(keys))
        result.context.sum().backward()
        ones = torch.ones(1, 2, dtype=torch.float64)
        torch.testing.assert_close(result.weights.sum(-1), ones)
        assert query.grad.isfinite().all()
        assert keys.grad.isfinite().all()

    @pytest.mark.parametrize("value_size", [1, 60, 100, 129])
    def test_values_of_another_size_than_the_queries(self, value_size):
        """fla-org/flash-linear-attention tests, native-sparse-attention-triton#27."""
        query, keys, values = tensors((2, 3, 5), (2, 4, 5), (2, 4, value_size))
        for window in ("global", "local-m"):
            result = attend(query, keys, values, window=window)
            (gradient,) = torch.autograd.grad(result.context.sum(), values)
            expected = result.dense(4).sum(1).unsqueeze(-1).expand(2, 4, value_size)
            torch.testing.assert_close(gradient, expected)

    @pytest.mark.parametrize("window", ["global", "local-m"])
    def test_a_bias_of_any_strides(self, window):
        """xformers#813, #808, #683, diffusers#9637: odd S, expanded and sliced."""
        query, keys = tensors((2, 3, 4), (2, 43, 4))
        for bias in (
            torch.randn(1, 1, 43).expand(2, 3, 43),
            torch.randn(2, 3, 50)[..., 5:48],
            torch.randn(2, 43, 3).transpose(1, 2),
        ):
            result = attend(query, keys, bias=bias, window=window)
            dense = bias.contiguous().clone()
            torch.testing.assert_close(result, attend(query, keys, bias=dense, window=window))

    @pytest.mark.parametrize("window", WINDOWS)
    def test_inputs_and_gradients_of_any_strides(self, make_layer, make_inputs, window):
        """pytorch#194719, #149468, #183002: gradients indexed with the strides of the input."""
        layer = make_layer("additive", window)
        query, keys, values, lengths = make_inputs(layer)

        def gradients(query, keys, values, upstream):
            memory = layer.prepare(keys, values, lengths=lengths)
            context = layer(query, memory).context
            return torch.autograd.grad(context, (query, keys, values), upstream)

        def restrided(tensor):
            return tensor.detach().transpose(0, 2).contiguous().transpose(0, 2).requires_grad_()

        sliced = torch.randn(2, 3, 7, dtype=torch.float64)[..., 2:5]
        expanded = torch.ones(1, 1, 1, dtype=torch.float64).expand(2, 3, 3)
        transposed = torch.randn(3, 3, 2, dtype=torch.float64).transpose(0, 2)
        for upstream in (sliced, expanded, transposed):
            found = gradients(restrided(query), restrided(keys), restrided(values), upstream)
            torch.testing.assert_close(
                found, gradients(query, keys, values, upstream.contiguous().clone())
            )

    def test_sizes_that_all_differ(self):
        """keras#21483: B, T, S, q, k, v, n = 2, 3, 4, 5, 6, 7, 8."""
        for score in ("general", "concat", "additive", "location"):
            for window in WINDOWS:
                sizes = {"value_size": 7, "attention_size": 8, "max_length": 9}
                layer = Attention(5, 6, score=score, window=window, **sizes)
                memory = layer.prepare(torch.randn(2, 4, 6), torch.randn(2, 4, 7))
                result = layer(torch.randn(2, 3, 5), memory)
                assert result.context.shape == (2, 3, 7)
                assert result.dense(4).shape == (2, 3, 4)


class TestLuong:
    def test_an_additive_layer_has_the_matrices_of_the_paper(self):
        """tensorflow#39332: "additive" without W_q and W_k."""
        parameters = dict(Attention(5, 6, score="additive", attention_size=8).named_parameters())
        assert {name: tuple(p.shape) for name, p in parameters.items()} == {
            "score.query_weight": (8, 5),
            "score.key_weight": (8, 6),
            "score.bias": (8,),
            "score.weight_vector": (8,),
        }

    def test_local_attention_exists_and_clips_at_both_ends(self):
        """tensorflow#10842: Luong's windows, asked for and never built."""
        layer = Attention(1, 1, score="dot", window="local-p", half_width=2)
        layer.window.weight.data.fill_(100.0)
        memory = layer.prepare(torch.ones(1, 6, 1))
        for predictor, seen in ((-8.0, [0, 1, 2]), (8.0, [3, 4, 5])):
            layer.window.weight_vector.data.fill_(predictor)
            weights = layer(torch.ones(1, 1, 1), memory).dense(6)[0, 0]
            assert weights.nonzero().flatten().tolist() == seen

    def test_a_window_includes_both_its_ends(self):
        """onnxruntime#25927: off by one."""
        query, keys = tensors((1, 1, 4), (1, 9, 4))
        result = attend(query, keys, window="local-m", half_width=1, positions=torch.tensor([[4]]))
        assert result.dense(9)[0, 0].nonzero().flatten().tolist() == [3, 4, 5]

    def test_every_backend_reads_the_mask_in_one_sense(self):
        """TransformerEngine#614."""
        query, keys = tensors((1, 2, 4), (1, 3, 4))
        mask = torch.tensor([True, False, False])
        for backend in kernels.BACKENDS:
            if backend.refusal("dot_scores", "cpu", torch.float32) is not None:
                continue
            with kernels.use_backend(backend.name):
                weights = attend(query, keys, mask=mask).weights
            assert weights.tolist() == [[[1, 0, 0], [1, 0, 0]]]

    def test_a_memory_does_not_grow_from_call_to_call(self, make_layer, make_inputs):
        """OpenNMT-py#867, #179, #2013, #2272, #2378: memories changed in place by a step."""
        layer = make_layer("additive")
        query, keys, values, lengths = make_inputs(layer)
        memory = layer.prepare(keys, values, lengths=lengths)
        kept = [memory.values.clone(), memory.mask.clone(), memory.keys.key.clone()]
        first = layer(query, memory)
        torch.testing.assert_close(layer(query, memory), first, rtol=0, atol=0)
        assert all(map(torch.equal, [memory.values, memory.mask, memory.keys.key], kept))
