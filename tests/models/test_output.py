"""The output layer, and what tied embeddings share."""

import pytest
import torch

from luong.models import Seq2Seq

V, E, H = 11, 5, 6
RECURRENT = 4 * (E + 3 + 2) * 3 * 2  # two LSTM directions of 3 units, with both biases of torch
BRIDGE = H * 2 * H + 2 * H
DECODER = 4 * H * (E + H + H) + 4 * H + H * 2 * H  # one cell with feeding, and W_c
GENERAL = H * H


def test_untied_logits(make_model):
    output = make_model(tie_embeddings="none").output
    attentional = torch.randn(2, 3, H, dtype=torch.float64)
    expected = attentional @ output.logits.weight.t() + output.logits.bias
    torch.testing.assert_close(output(attentional), expected)


@pytest.mark.parametrize("tie", ["target", "all"])
def test_tied_logits(make_model, tie):
    """E (P h~) + b, with P from hidden to embedding size."""
    model = make_model(tie_embeddings=tie)
    attentional = torch.randn(2, 3, H, dtype=torch.float64)
    embedding, projection = model.target_embedding.weight, model.output.projection.weight
    assert projection.shape == (E, H)
    expected = torch.einsum("ve,eh,bth->btv", embedding, projection, attentional)
    torch.testing.assert_close(model.output(attentional), expected + model.output.logits.bias)


def test_tied_weights_are_one_tensor(make_model):
    def weights(tie):
        model = make_model(tie_embeddings=tie)
        return (
            model.source_embedding.weight,
            model.target_embedding.weight,
            model.output.logits.weight,
        )

    source, target, output = weights("all")
    assert source is target is output
    source, target, output = weights("target")
    assert source is not target is output
    assert len({id(weight) for weight in weights("none")}) == 3


def test_tied_weights_stay_one_through_conversion_and_loading(make_model):
    model, other = make_model(tie_embeddings="all"), make_model(tie_embeddings="all")
    other.load_state_dict(model.state_dict())
    other = other.float().double()
    assert other.source_embedding.weight is other.output.logits.weight
    with torch.no_grad():
        other.target_embedding.weight.zero_()
    assert not other.output.logits.weight.any()


@pytest.mark.parametrize("tie", ["target", "all"])
def test_the_gradient_of_a_tied_embedding_is_the_sum_of_its_uses(make_model, pairs, tie):
    tied, untied = make_model(tie_embeddings=tie), make_model(tie_embeddings=tie)
    untied.load_state_dict(tied.state_dict())
    untied.output.logits.weight = torch.nn.Parameter(tied.output.logits.weight.detach().clone())
    untied.source_embedding = torch.nn.Embedding.from_pretrained(
        tied.source_embedding.weight.detach().clone(), freeze=False
    )
    for model in (tied, untied):
        states, _ = model(*pairs)
        model.output(states).square().sum().backward()
    expected = untied.target_embedding.weight.grad + untied.output.logits.weight.grad
    if tie == "all":
        expected = expected + untied.source_embedding.weight.grad
    torch.testing.assert_close(tied.target_embedding.weight.grad, expected)


def test_one_vocabulary_is_needed_to_share_all(make_config):
    with pytest.raises(ValueError, match=r"'all'.* source has 12 tokens .* target 9"):
        Seq2Seq(make_config(tie_embeddings="all"), 12, 9)


def test_vocabularies_may_differ_otherwise(make_config):
    model = Seq2Seq(make_config(tie_embeddings="target"), 12, 9)
    assert model.source_embedding.weight.shape == (12, E)
    assert model.output(torch.zeros(1, H)).shape == (1, 9)


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"tie_embeddings": "none"}, 2 * V * E + V * H + V),
        ({"tie_embeddings": "target"}, 2 * V * E + E * H + V),
        ({"tie_embeddings": "all"}, V * E + E * H + V),
    ],
)
def test_parameters_counted_by_hand(make_model, options, expected):
    model = make_model(**options)
    counted = sum(parameter.numel() for parameter in model.parameters())
    assert counted == expected + RECURRENT + BRIDGE + DECODER + GENERAL


@pytest.mark.parametrize(
    ("options", "decoder"),
    [
        ({"input_feeding": False}, 4 * H * (E + H) + 4 * H + 2 * H * H + GENERAL),
        ({"placement": "bahdanau"}, 4 * H * (E + 3 * H) + 4 * H + 2 * H * H + GENERAL),
        ({"score": "none"}, 4 * H * (E + 2 * H) + 4 * H + H * H),
        ({"score": "none", "placement": "bahdanau"}, 4 * H * (E + 2 * H) + 4 * H + H * H),
        ({"score": "dot", "decoder_layers": 2}, DECODER + 4 * H * 2 * H + 4 * H + BRIDGE),
        (
            {"score": "additive", "attention_size": 4},
            DECODER + 2 * 4 * H + 4 + 4,
        ),
        ({"score": "concat", "window": "local-p"}, DECODER + 3 * H * H + 2 * H),
        ({"score": "location", "max_length": 9}, DECODER + 9 * H),
    ],
)
def test_decoder_parameters_counted_by_hand(make_model, options, decoder):
    model = make_model(**options)
    assert sum(parameter.numel() for parameter in model.decoder.parameters()) == decoder + BRIDGE
