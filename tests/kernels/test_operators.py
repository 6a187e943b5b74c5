"""The registered operators, and compiled models that use them."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from luong import kernels
from luong.attention import Attention
from luong.config import AttentionConfig, ModelConfig
from luong.kernels import cpu_calls, operators
from luong.models import Seq2Seq


@pytest.fixture(autouse=True)
def scratch_filled_with_nan() -> None:
    """Not here: opcheck and the compiler do not go with deterministic scratch."""


def inputs(layout: str, steps: int, source: int) -> dict[str, Tensor]:
    def rows(count: int, *, grad: bool = True) -> Tensor:
        tensor = torch.randn(2, count, 5)
        if layout == "transposed":
            tensor = tensor.mT.contiguous().mT
        elif layout == "expanded":
            tensor = tensor[:1].expand(2, count, 5)
        return tensor.detach().requires_grad_(grad)

    key = rows(source)
    powers, maxima = cpu_calls.exponentiate(key.detach())
    return {
        "query": rows(steps),
        "key": key,
        "weight": torch.randn(5, requires_grad=True),
        "powers": powers,
        "maxima": maxima,
        "centres": torch.randint(0, max(source, 1), (2, steps)),
        "band": torch.randn(2, steps, 3, requires_grad=True),
        "incoming": torch.randn(2, steps, source),
    }


CALLS: dict[str, tuple[Any, ...]] = {
    "exponentiate": ("query",),
    "additive_scores": ("query", "key", "weight", "powers", "maxima"),
    "additive_gradients": ("incoming", "query", "key", "weight", "powers", "maxima"),
    "band_scores": ("query", "key", "weight", "powers", "maxima", "centres", 3),
    "band_score_gradients": ("band", "query", "key", "weight", "powers", "maxima", "centres"),
    "band_dot": ("query", "key", "centres", 3),
    "band_sum": ("band", "key", "centres"),
    "band_spread": ("band", "query", "centres", 7),
}
WITHOUT_DERIVATIVE = ("exponentiate", "additive_gradients", "band_score_gradients")


@pytest.mark.parametrize(("steps", "source"), [(2, 3), (0, 3), (1, 0)])
@pytest.mark.parametrize("layout", ["contiguous", "transposed", "expanded"])
@pytest.mark.parametrize("name", list(CALLS))
def test_opcheck(name: str, layout: str, steps: int, source: int) -> None:
    tensors = inputs(layout, steps, source)
    if name in WITHOUT_DERIVATIVE:
        tensors = {key: tensor.detach() for key, tensor in tensors.items()}
    arguments = tuple(tensors[a] if isinstance(a, str) else a for a in CALLS[name])
    torch.library.opcheck(getattr(operators, name), arguments)


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
@pytest.mark.parametrize("score", ["additive", "concat", "general", "scaled-dot"])
def test_a_compiled_layer_is_right(score: str, window: str) -> None:
    torch._dynamo.reset()
    attention = Attention(6, 6, score=score, window=window, half_width=2, attention_size=10)
    query = torch.randn(2, 5, 6, requires_grad=True)
    keys = torch.randn(2, 7, 6, requires_grad=True)
    lengths = torch.tensor([7, 4])

    def context(query: Tensor, keys: Tensor, lengths: Tensor) -> Tensor:
        memory = attention.prepare(keys, lengths=lengths)
        with_weights = attention(query, memory).context
        return with_weights + attention(query, memory, need_weights=False).context

    def everything(function: Any) -> list[Tensor]:
        out = function(query, keys, lengths)
        wanted = [query, keys, *attention.parameters()]
        return [out, *torch.autograd.grad(out.square().sum(), wanted)]

    compiled = torch.compile(context, fullgraph=True, backend="aot_eager")
    for found, expected in zip(everything(compiled), everything(context), strict=True):
        # Sums are joined in another order: their rounding is that of the largest terms.
        error = 4e-6 * expected.abs().max().item()
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=max(error, 1e-6))


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # the compiler warns of its own code
@pytest.mark.skipif(shutil.which("g++") is None, reason="Inductor needs a C++ compiler")
@pytest.mark.parametrize(
    ("score", "window", "input_feeding"),
    [
        ("additive", "global", False),
        ("additive", "local-p", True),
        ("concat", "local-m", False),
        ("general", "global", True),
    ],
)
def test_a_model_compiled_by_inductor_is_right(
    score: str, window: str, input_feeding: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.reset()
    attention = AttentionConfig(
        score=score, window=window, half_width=2, input_feeding=input_feeding
    )
    sizes = {"embedding_size": 8, "hidden_size": 12, "dropout": 0.0}
    model = Seq2Seq(ModelConfig(**sizes, attention=attention), 20, 20)
    source, target = torch.randint(4, 20, (3, 6)), torch.randint(4, 20, (3, 4))
    lengths = torch.tensor([6, 4, 1])

    def loss(source: Tensor, lengths: Tensor, target: Tensor) -> Tensor:
        states, _ = model(source, lengths, target)
        return model.output(states).square().sum()

    def everything(function: Any) -> list[Tensor]:
        total = function(source, lengths, target)
        return [total, *torch.autograd.grad(total, list(model.parameters()))]

    compiled = everything(torch.compile(loss))
    for found, expected in zip(compiled, everything(loss), strict=True):
        torch.testing.assert_close(found, expected, rtol=1e-4, atol=1e-5)


def test_what_is_compiled_calls_the_operators() -> None:
    torch._dynamo.reset()
    seen: list[str] = []

    def backend(graph: torch.fx.GraphModule, example: list[Tensor]) -> Any:
        seen.extend(str(node.target) for node in graph.graph.nodes)
        return graph

    compiled = torch.compile(kernels.additive_scores, fullgraph=True, backend=backend)
    arguments = torch.randn(1, 2, 3), torch.randn(1, 4, 3), torch.randn(3)
    found = compiled(*arguments)
    torch.testing.assert_close(found, kernels.additive_scores(*arguments))
    assert any("luong" in name and "additive_scores" in name for name in seen), seen
    with kernels.use_backend("reference"):
        seen.clear()
        compiled(*arguments)
    assert not any("luong" in name for name in seen), seen


@pytest.mark.parametrize("window", ["global", "local-p"])
@pytest.mark.parametrize("score", ["additive", "general"])
def test_export_takes_the_operations_apart(score: str, window: str) -> None:
    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.attention = Attention(4, 4, score=score, window=window, attention_size=4)

        def forward(self, query: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
            memory = self.attention.prepare(keys)
            plain = self.attention(query, memory, need_weights=False).context
            return self.attention(query, memory).context, plain

    model = Model().eval()
    arguments = torch.randn(2, 3, 4), torch.randn(2, 5, 4)
    program = torch.export.export(model, arguments)
    assert "luong" not in str(program.graph)
    torch.testing.assert_close(program.module()(*arguments), model(*arguments))
