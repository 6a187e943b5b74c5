import pytest
import torch

from luong.config import ModelConfig
from luong.models import Seq2Seq
from luong.models.features import parted
from luong.text.vocabulary import END, PAD

FIRST = 10


def model(**options):
    attention = options.pop("attention", {})
    config = ModelConfig(
        embedding_size=6,
        hidden_size=8,
        features="attention",
        attention={"input_feeding": True, **attention},
        **options,
    )
    return Seq2Seq(config, 15, 9, first_feature=FIRST).double().eval()


SOURCE = torch.tensor(
    [
        [5, 6, 7, 11, 13, END, PAD],
        [4, END, PAD, PAD, PAD, PAD, PAD],
        [8, 12, 14, 10, 11, 13, END],
        [11, END, PAD, PAD, PAD, PAD, PAD],
    ]
)
LENGTHS = torch.tensor([6, 2, 7, 2])
TARGET = torch.tensor([[2, 5, 6, 7]] * 4)


def test_sources_are_parted_by_hand():
    parts = parted(SOURCE, LENGTHS, FIRST)
    assert parts.text.tolist() == [[5, 6, 7, 3], [4, 3, 0, 0], [8, 3, 0, 0], [3, 0, 0, 0]]
    assert parts.text_lengths.tolist() == [4, 2, 2, 1]
    assert parts.features.tolist() == [
        [11, 13, 0, 0, 0],
        [0] * 5,
        [12, 14, 10, 11, 13],
        [11, 0, 0, 0, 0],
    ]
    assert parts.feature_lengths.tolist() == [2, 0, 5, 1]
    # The text has columns 0 to 3, the features 4 to 8; the end symbol is that of the text.
    assert parts.columns.tolist() == [
        [0, 1, 2, 4, 5, 3, 0],
        [0, 1, 0, 0, 0, 0, 0],
        [0, 4, 5, 6, 7, 8, 1],
        [4, 0, 0, 0, 0, 0, 0],
    ]


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
@pytest.mark.parametrize("score", ["general", "additive", "location"])
@pytest.mark.parametrize("placement", ["luong", "bahdanau"])
@pytest.mark.parametrize("feeds", [True, False])
def test_steps_are_those_of_the_whole_and_of_each_alone(window, score, placement, feeds):
    torch.manual_seed(3)
    options = {"window": window, "score": score, "placement": placement, "input_feeding": feeds}
    seq2seq = model(attention=options | {"half_width": 2})
    whole, weights = seq2seq(SOURCE, LENGTHS, TARGET, need_weights=True)
    for row, length in enumerate(LENGTHS.tolist()):
        memory, state = seq2seq.encode(SOURCE[row : row + 1, :length], LENGTHS[row : row + 1])
        for time in range(TARGET.shape[1]):
            state, output = seq2seq.step(TARGET[row : row + 1, time], state, memory)
            torch.testing.assert_close(state.attentional[0], whole[row, time])
            torch.testing.assert_close(output.weights[0], weights[row, time, :length])
        assert not weights[row, :, length:].any()


def test_weights_are_half_the_text_s_and_half_the_features_():
    _, weights = model()(SOURCE, LENGTHS, TARGET, need_weights=True)
    expected = [(0.5, 0.5), (0.5, 0.0), (0.5, 0.5), (0.5, 0.5)]
    for row, halves in enumerate(expected):
        is_feature = SOURCE[row] >= FIRST
        for part, half in zip((~is_feature, is_feature), halves, strict=True):
            sums = weights[row][:, part].sum(1)
            torch.testing.assert_close(sums, torch.full_like(sums, half))


def test_the_order_of_features_means_nothing_and_they_mean_something():
    seq2seq = model()
    swapped, others = SOURCE.clone(), SOURCE.clone()
    swapped[0, 3:5] = SOURCE[0, 3:5].flip(0)
    others[0, 3] = 14
    states, _ = seq2seq(SOURCE, LENGTHS, TARGET)
    torch.testing.assert_close(seq2seq(swapped, LENGTHS, TARGET)[0], states)
    changed = seq2seq(others, LENGTHS, TARGET)[0]
    assert not torch.allclose(changed[0], states[0])
    torch.testing.assert_close(changed[1:], states[1:])


def test_gradients_reach_both_parts():
    seq2seq = model().train()
    seq2seq(SOURCE, LENGTHS, TARGET)[0].sum().backward()
    for name, parameter in seq2seq.named_parameters():
        if "output" not in name:
            assert parameter.grad is not None, name
            assert torch.isfinite(parameter.grad).all(), name
    rows = seq2seq.source_embedding.weight.grad.abs().sum(1)
    assert (rows[[4, 5, 6, 7, 8, 10, 11, 12, 13, 14]] > 0).all()


def test_features_that_are_not_there_are_refused():
    with pytest.raises(ValueError, match="needs a source with features"):
        Seq2Seq(ModelConfig(features="attention"), 15, 9)


@torch.no_grad()
def test_letters_are_copied_beside_features():
    network = model(copy=True)
    # Extended ids of letters; features and end symbols are not copied.
    copies = torch.where((SOURCE < FIRST) & (SOURCE > END), SOURCE, -1)
    memory, state = network.encode(SOURCE, LENGTHS, copies)
    for tokens in TARGET.T:
        state, output = network.step(tokens, state, memory)
        probabilities = output.log_probabilities.exp()
        torch.testing.assert_close(probabilities.sum(1), torch.ones(4, dtype=torch.float64))
        assert (output.copied[:, END] == 0).all()
        assert (output.copied[3] == 0).all()  # nothing but a feature to copy from
        assert output.copied[0, 5:8].min() > 0


def test_coverage_of_two_sources_is_refused():
    with pytest.raises(ValueError, match="coverage is of one"):
        model(attention={"coverage": True, "score": "additive"})
