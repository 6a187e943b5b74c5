"""int8 weights: close to float64, the same whatever stands beside a row, shared where they were."""

import pytest
import torch
from torch.nn import functional

from luong.kernels import int8_layout
from luong.models import Seq2Seq
from luong.models.quantized import is_quantized, quantize
from luong.models.quantized_matrix import QuantizedMatrix, linear

OPTIONS = [
    {"tie_embeddings": "none"},
    {"tie_embeddings": "target", "cell": "gru"},
    {"tie_embeddings": "all", "decoder_layers": 2, "placement": "bahdanau"},
    {"cell": "gru", "input_feeding": False, "placement": "luong"},
]


@pytest.fixture
def make_small(make_config):
    """A float32 model in evaluation."""

    def make(**options):
        sizes = {"embedding_size": 24, "hidden_size": 32}
        model = Seq2Seq(make_config(**{**sizes, **options}), 30, 30).eval()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter.uniform_(-0.3, 0.3)
        return model

    return make


def error(found, expected):
    return ((found.double() - expected).norm() / expected.norm()).item()


def test_values_by_hand():
    matrix = QuantizedMatrix(
        torch.tensor([[1.27, -0.64, 0.0], [0.0, 0.0, 0.0], [-254.0, 2.0, 3.1]])
    )
    assert matrix.values.tolist() == [[127, -64, 0], [0, 0, 0], [-127, 1, 2]]
    assert matrix.values.dtype == torch.int8
    torch.testing.assert_close(matrix.scales, torch.tensor([0.01, 0.0, 2.0]))
    torch.testing.assert_close(
        matrix.widened(), torch.tensor([[1.27, -0.64, 0.0], [0.0, 0.0, 0.0], [-254.0, 2.0, 4.0]])
    )
    assert torch.equal(matrix.rows(torch.tensor([[2, 0]])), matrix.widened()[[2, 0]].unsqueeze(0))


def test_a_product_by_hand():
    # Whole numbers of at most 63 with a maximum of 63 are not rounded at all.
    inputs = torch.tensor([[63.0, -2.0, 1.0], [0.0, 0.0, 0.0], [-6.3, 0.1, 0.0]])
    matrix = QuantizedMatrix(torch.tensor([[127.0, 1.0, -3.0], [2.0, 127.0, 0.0]]))
    expected = torch.tensor([[7996.0, -128.0], [0.0, 0.0], [-800.0, 0.1]])
    torch.testing.assert_close(matrix.product(inputs), expected, rtol=1e-6, atol=1e-5)
    torch.testing.assert_close(
        matrix.product(inputs, start=torch.tensor([1.0, -1.0])),
        expected + torch.tensor([1.0, -1.0]),
        rtol=1e-6,
        atol=1e-5,
    )


@pytest.mark.parametrize("rows", [1, 5, 160])
@pytest.mark.parametrize(("outputs", "inputs"), [(40, 33), (500, 256), (64, 1024)])
def test_products_are_near_those_of_float64(rows, outputs, inputs):
    weight, bias = torch.randn(outputs, inputs), torch.randn(outputs)
    # Rows of very different sizes: a scale for the whole batch would lose the small ones.
    given = torch.randn(rows, inputs) * 10.0 ** torch.randint(-6, 7, (rows, 1))
    expected = functional.linear(given.double(), weight.double())
    matrix = QuantizedMatrix(weight)
    for found, row in zip(matrix.product(given), expected, strict=True):
        assert error(found, row) < 0.03
    shifted = linear(given, matrix, bias)
    torch.testing.assert_close(shifted, matrix.product(given) + bias)


def test_no_pair_of_products_overflows():
    # Pairs are added in 16 bits on CPUs without VNNI: the greatest there are.
    weight = torch.full((8, 64), 1.0)
    inputs = torch.full((2, 64), 1.0)
    torch.testing.assert_close(QuantizedMatrix(weight).product(inputs), torch.full((2, 8), 64.0))
    torch.testing.assert_close(QuantizedMatrix(-weight).product(inputs), torch.full((2, 8), -64.0))


def test_a_row_does_not_depend_on_its_batch():
    matrix, bias = QuantizedMatrix(torch.randn(100, 70)), torch.randn(100)
    inputs = torch.randn(40, 70)
    alone = torch.cat([matrix.product(row.unsqueeze(0), start=bias) for row in inputs])
    assert torch.equal(matrix.product(inputs, start=bias), alone)
    inputs[::2] *= 1e6
    assert torch.equal(matrix.product(inputs, start=bias)[1::2], alone[1::2])
    inputs[::2] = torch.nan
    mixed = matrix.product(inputs, start=bias)
    assert torch.equal(mixed[1::2], alone[1::2])
    assert mixed[::2].isnan().all()


def test_selected_rows():
    matrix, inputs = QuantizedMatrix(torch.randn(50, 20)), torch.randn(3, 20)
    rows = torch.tensor([4, 4, 17, 0])
    assert torch.equal(matrix.selected(rows).product(inputs), matrix.product(inputs)[:, rows])


def test_without_int8_products_the_weights_are_widened(monkeypatch):
    weight, inputs, bias = torch.randn(6, 5), torch.randn(2, 5), torch.randn(6)
    monkeypatch.setattr(int8_layout, "packed", lambda *_: None)
    matrix = QuantizedMatrix(weight)
    expected = functional.linear(inputs, matrix.widened(), bias)
    torch.testing.assert_close(matrix.product(inputs, start=bias), expected)


@pytest.mark.parametrize("options", OPTIONS)
def test_a_quantised_model_is_near_the_model(make_small, options):
    model = make_small(**options)
    source, lengths = torch.randint(4, 30, (3, 5)), torch.tensor([5, 3, 1])
    target = torch.randint(4, 30, (3, 4))

    def probabilities(model):
        with torch.inference_mode():
            states, _ = model(source, lengths, target)
            return torch.softmax(model.output(states), -1)

    expected = probabilities(model)
    quantize(model)
    assert is_quantized(model)
    found = probabilities(model)
    assert not torch.equal(found, expected)
    assert (found - expected).abs().max() < 0.03
    assert error(found, expected.double()) < 0.06


@pytest.mark.parametrize(("tie", "matrices"), [("none", 3), ("target", 2), ("all", 1)])
def test_what_is_shared_stays_shared(make_small, tie, matrices):
    model = make_small(tie_embeddings=tie)
    quantize(model)
    found = {
        id(module)
        for module in model.modules()
        if isinstance(module, QuantizedMatrix) and len(module.values) == 30
    }
    assert len(found) == matrices
    assert (model.source_embedding is model.target_embedding) == (tie == "all")
    names = [name for name, _ in model.named_parameters()]
    assert not any("embedding" in name or "late_weight" in name for name in names)
    before = dict(model.named_buffers())
    quantize(model)  # once more changes nothing
    assert before.keys() == dict(model.named_buffers()).keys()
