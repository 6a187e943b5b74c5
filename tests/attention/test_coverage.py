"""Coverage inside the additive scores: equation 11 of See 2017, its gradient, its errors."""

import pytest
import torch

from luong.attention import Attention

B, T, S, K = 2, 3, 4, 5


def layer_of(score, **options):
    layer = Attention(3, K, score=score, attention_size=6, coverage=True, **options).double()
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.uniform_(-1, 1)
    return layer


def inputs():
    return (
        torch.randn(B, T, 3).double(),
        torch.randn(B, S, K).double(),
        torch.rand(B, T, S).double(),
    )


@pytest.mark.parametrize("score", ["additive", "concat"])
def test_scores_are_the_equation(score):
    layer, (query, keys, coverage) = layer_of(score), inputs()
    lengths = torch.tensor([4, 2])
    found = layer(query, layer.prepare(keys, lengths=lengths), coverage=coverage)
    own = layer.score
    if score == "additive":
        query_weight, key_weight, bias = own.query_weight, own.key_weight, own.bias
    else:
        query_weight, key_weight = own.weight.split([3, K], 1)
        bias = 0.0
    for b in range(B):
        for t in range(T):
            scores = [
                own.weight_vector
                @ torch.tanh(
                    query_weight @ query[b, t]
                    + key_weight @ keys[b, s]
                    + own.coverage_weight * coverage[b, t, s]
                    + bias
                )
                for s in range(lengths[b])
            ]
            weights = torch.softmax(torch.stack(scores), 0)
            torch.testing.assert_close(found.weights[b, t, : lengths[b]], weights)
            torch.testing.assert_close(found.context[b, t], weights @ keys[b, : lengths[b]])
    assert not found.weights[1, :, 2:].any()


def test_gradients():
    layer, tensors = layer_of("additive"), inputs()
    parameters = list(layer.parameters())
    lengths = torch.tensor([4, 0])

    # The parameters are changed in place, so that `prepare` sees them, too.
    def attended(query, keys, coverage, *_):
        return layer(query, layer.prepare(keys, lengths=lengths), coverage=coverage)[:2]

    values = [tensor.requires_grad_() for tensor in tensors]
    assert torch.autograd.gradcheck(attended, [*values, *parameters])


def test_half_precision_scores_in_float32():
    layer, (query, keys, coverage) = layer_of("additive").float(), inputs()
    memory = layer.prepare(keys.float())
    with torch.autocast("cpu", torch.bfloat16):
        found = layer(query.float(), memory, coverage=coverage.float())
    assert found.weights.dtype == torch.float32


def test_what_does_not_fit_is_refused():
    layer, (query, keys, coverage) = layer_of("additive"), inputs()
    with pytest.raises(ValueError, match=r"needs coverage="):
        layer(query, layer.prepare(keys))
    plain = Attention(3, K, score="additive").double()
    with pytest.raises(ValueError, match=r"needs coverage="):
        plain(query, plain.prepare(keys), coverage=coverage)
    with pytest.raises(ValueError, match=r"\(2, 3, 1\); expected .* \(2, 3, 4\)"):
        layer(query, layer.prepare(keys), coverage=coverage[..., :1])
    local = layer_of("concat", window="local-m", half_width=1)
    with pytest.raises(ValueError, match="window='global'"):
        local(query, local.prepare(keys), coverage=coverage)
    for score in ("dot", "general", "location", "none"):
        with pytest.raises(ValueError, match=rf"'{score}' knows no coverage"):
            Attention(K, K, score=score, max_length=9, coverage=True)
    with pytest.raises(ValueError, match="General knows no coverage"):
        Attention(3, K).score.covered(query, keys, coverage)
