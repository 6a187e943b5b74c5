"""The caption model: a picture encoder before the decoder of translators."""

import itertools
import sys
import types

import pytest
import torch
from safetensors.torch import save_file
from torch import nn
from torch.nn import functional

from luong.config import AttentionConfig, CaptionModelConfig
from luong.errors import UserError
from luong.models import CaptionModel
from luong.models.vision import PictureEncoder, ResidualBlock

SIZES = {"channels": (8, 12), "blocks": 2, "embedding_size": 6, "hidden_size": 10}


def model_of(**options):
    attention = AttentionConfig(**options.pop("attention", {}))
    return CaptionModel(CaptionModelConfig(**SIZES, attention=attention, **options), 20).eval()


def test_a_block_is_its_equation():
    block = ResidualBlock(3, 5, 2).double()
    before, _, first, between, _, second = block.inner
    for layer in (first, second, block.past):
        nn.init.normal_(layer.bias)
    pictures = torch.randn(2, 3, 6, 6, dtype=torch.float64)

    def convolved(layer, inputs, stride):
        """Sums over the pixels around each one, written out."""
        weight, width = layer.weight, layer.weight.shape[-1]
        wide = functional.pad(inputs, (width // 2,) * 4)
        rows = range(0, inputs.shape[2], stride)
        return (
            torch.stack(
                [
                    torch.stack(
                        [
                            torch.einsum(
                                "oihw,bihw->bo", weight, wide[..., y : y + width, x : x + width]
                            )
                            for x in rows
                        ],
                        -1,
                    )
                    for y in rows
                ],
                -2,
            )
            + layer.bias[:, None, None]
        )

    def normed(layer, inputs):
        """Each cell's channels, less their mean and over their spread."""
        centred = inputs - inputs.mean(1, keepdim=True)
        return centred / (centred.square().mean(1, keepdim=True) + layer.eps).sqrt()

    inner = convolved(first, normed(before, pictures).clamp(min=0), 2)
    inner = convolved(second, normed(between, inner).clamp(min=0), 1)
    expected = convolved(block.past, pictures, 2) + inner
    assert torch.allclose(block(pictures), expected)


@pytest.mark.parametrize(("size", "side"), [(32, 8), (33, 9), (8, 2)])
def test_a_grid_of_vectors_and_their_mean(size, side):
    encoded = PictureEncoder(CaptionModelConfig(**SIZES)).eval()(torch.randn(2, 3, size, size))
    assert encoded.states.shape == (2, side * side, 10)
    assert torch.allclose(encoded.final, encoded.states.mean(1, keepdim=True))


def test_cells_lie_where_they_look():
    encoder = PictureEncoder(CaptionModelConfig(**SIZES)).eval()
    pictures = torch.randn(1, 3, 32, 32, requires_grad=True)
    for row, column in ((2, 5), (4, 2), (5, 4)):
        # Normalised channels sum to 0, so one of them is looked at.
        state = encoder.network(pictures)[0, 0, row, column]
        (gradient,) = torch.autograd.grad(state, pictures)
        weights = gradient.square().sum((0, 1))
        places = torch.arange(32.0)
        middle = [float((weights.sum(axis) @ places) / weights.sum()) for axis in (1, 0)]
        assert middle == pytest.approx([4 * row + 1.5, 4 * column + 1.5], abs=2.5)


def test_batch_mates_change_nothing():
    model = model_of()
    pictures = torch.randn(5, 3, 16, 16)
    target = torch.randint(4, 20, (5, 3))
    cells = torch.full((5,), 16)
    together, weights = model(pictures, cells, target, need_weights=True)
    for row in range(5):
        one = slice(row, row + 1)
        alone, its_weights = model(pictures[one], cells[one], target[one], need_weights=True)
        assert torch.allclose(alone, together[one], atol=1e-6)
        assert torch.allclose(its_weights, weights[one], atol=1e-6)
    model.train()
    alone, together = (model.encoder(some).states[0] for some in (pictures[:1], pictures))
    assert torch.allclose(alone, together, atol=1e-6)


@pytest.mark.parametrize(
    ("score", "placement", "feeding", "layers"),
    [
        (score, placement, feeding, 1 + feeding)
        for score, (placement, feeding) in itertools.product(
            ("general", "additive", "none"), (("luong", True), ("luong", False), ("bahdanau", True))
        )
    ],
)
def test_unroll_and_step_agree(score, placement, feeding, layers):
    options = {"score": score, "placement": placement, "input_feeding": feeding}
    model = model_of(attention=options, decoder_layers=layers).double()
    pictures = torch.randn(2, 3, 16, 16, dtype=torch.float64)
    cells, target = torch.full((2,), 16), torch.randint(4, 20, (2, 4))
    states, weights = model(pictures, cells, target, need_weights=True)
    memory, state = model.encode(pictures, cells)
    for time in range(4):
        state, output = model.step(target[:, time], state, memory)
        expected = torch.log_softmax(model.output(states[:, time]), -1)
        assert torch.allclose(output.log_probabilities, expected)
        assert torch.allclose(output.weights, weights[:, time])


def test_gradients_reach_every_part():
    model = CaptionModel(CaptionModelConfig(**SIZES, picture_dropout=0.2), 20)
    target = torch.randint(4, 20, (2, 4))
    states, _ = model(torch.randn(2, 3, 16, 16), torch.full((2,), 16), target)
    functional.cross_entropy(model.output(states).flatten(0, 1), target.flatten()).backward()
    for name, parameter in model.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


class FakeResNet(nn.Module):
    """The names that torchvision's networks have, and strides that give 16 pixels a cell."""

    def __init__(self):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(3, 4, 7, 2, 3, bias=False), nn.BatchNorm2d(4)
        self.relu, self.maxpool = nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        self.layer1 = nn.Conv2d(4, 8, 3, padding=1)
        self.layer2 = nn.Conv2d(8, 8, 3, 2, 1)
        self.layer3 = nn.Conv2d(8, 256, 3, 2, 1)
        self.layer4 = nn.Conv2d(256, 512, 3, 2, 1)
        self.fc = nn.Linear(512, 1000)


@pytest.fixture
def torchvision(monkeypatch):
    models = types.ModuleType("torchvision.models")
    models.get_model = lambda name, weights: FakeResNet()
    package = types.ModuleType("torchvision")
    package.models = models
    monkeypatch.setitem(sys.modules, "torchvision", package)
    monkeypatch.setitem(sys.modules, "torchvision.models", models)


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("ending", [".pth", ".safetensors"])
def test_a_backbone_of_torchvision(torchvision, tmp_path, fine_tune, ending):
    file = tmp_path / f"weights{ending}"
    whole = FakeResNet()
    nn.init.uniform_(whole.bn1.running_mean)
    if ending == ".pth":
        torch.save(whole.state_dict(), file)
    else:
        save_file(whole.state_dict(), file)
    model = CaptionModel(
        CaptionModelConfig(backbone="resnet18", fine_tune=fine_tune, hidden_size=10), 20
    )
    network = model.encoder.network
    network.read_weights(file)
    assert torch.equal(network.layers["layer3"].weight, whole.layer3.weight)
    before = network.layers["bn1"].running_mean.clone()
    model.train()
    pictures = torch.randn(2, 3, 64, 64)
    encoded = model.encoder(pictures)
    assert encoded.states.shape == (2, 16, 10)
    # Statistics are those of the file, whatever the batch, in training too.
    assert torch.equal(network.layers["bn1"].running_mean, before)
    assert torch.allclose(model.encoder(pictures[:1]).states, encoded.states[:1], atol=1e-6)
    encoded.states.sum().backward()
    gradients = [parameter.grad is not None for parameter in network.parameters()]
    assert all(gradients) if fine_tune else not any(gradients)


def test_weights_that_do_not_fit(torchvision, tmp_path):
    network = PictureEncoder(CaptionModelConfig(backbone="resnet18")).network
    torch.save({"conv1.weight": torch.zeros(1)}, tmp_path / "other.pth")
    with pytest.raises(UserError, match="does not hold weights of resnet18"):
        network.read_weights(tmp_path / "other.pth")
    (tmp_path / "text.pth").write_text("no weights")
    with pytest.raises(UserError, match=r"text\.pth is not a file of weights"):
        network.read_weights(tmp_path / "text.pth")
    with pytest.raises(UserError, match=r"does not exist\. Download the weights"):
        network.read_weights(tmp_path / "gone.pth")


def test_without_torchvision(monkeypatch):
    monkeypatch.setitem(sys.modules, "torchvision.models", None)
    with pytest.raises(UserError, match=r"model\.backbone needs torchvision, which cannot be"):
        PictureEncoder(CaptionModelConfig(backbone="resnet50"))


def test_a_torchvision_of_another_torch(monkeypatch, tmp_path):
    package = tmp_path / "torchvision"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "models.py").write_text("raise RuntimeError('operator torchvision::nms is not')")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("torchvision", "torchvision.models"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    with pytest.raises(UserError, match=r"nms is not\)\. Install the version that fits"):
        PictureEncoder(CaptionModelConfig(backbone="resnet50"))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"attention": {"window": "local-m"}}, "a picture has no order"),
        ({"backbone_weights": "x.pth"}, "need a backbone"),
        ({"channels": ()}, "at least 1 item"),
    ],
)
def test_settings_that_do_not_fit(options, message):
    with pytest.raises(ValueError, match=message):
        CaptionModelConfig(**options)
