"""What is special about the CPU backend: compiling, dispatch, memory, second derivatives."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
import torch
from torch import Tensor

from luong import kernels
from luong.attention import Attention
from luong.errors import UserError
from luong.kernels import compiled, cpu_additive, reference
from luong.kernels.compiled import sources


def run(program: str) -> str:
    result = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(program)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    return result.stdout.strip()


def test_import_takes_no_compiler_along() -> None:
    found = run("""
        import sys, luong, luong.attention
        print(sorted({"numba", "triton", "llvmlite"} & set(sys.modules)))
    """)
    assert found == "[]"


def test_without_a_folder_for_the_cache_it_compiles_anyway() -> None:
    found = run("""
        from numba.core import caching
        caching.CacheImpl._locator_classes = []
        import torch
        from luong import kernels
        score = kernels.additive_scores(torch.zeros(1, 2, 3), torch.ones(1, 4, 3), torch.ones(3))
        print(tuple(score.shape), round(float(score[0, 0, 0]), 4))
    """)
    assert found == "(1, 2, 4) 2.2848"


def test_the_compiled_code_is_not_that_of_other_sources(tmp_path: Path) -> None:
    (tmp_path / "compiled.py").write_text("a")
    (tmp_path / "cpu_additive.py").write_text("b")
    before = sources(tmp_path)
    assert sources(tmp_path) == before
    (tmp_path / "compiled.py").write_text("c")
    assert sources(tmp_path) != before
    assert cpu_additive.score.__qualname__.endswith(sources(Path(compiled.__file__).parent))


def test_explain_tells_who_serves_and_why_others_do_not() -> None:
    text = kernels.explain("additive_scores", "cpu", torch.float32)
    assert "  cpu: serves" in text
    assert "reference: could, but one before it serves" in text
    text = kernels.explain("additive_scores", "cpu", torch.float64)
    assert "cpu: no, it computes in float32, which is not enough for torch.float64" in text
    assert "reference: serves" in text
    text = kernels.explain("local_scores", "cuda", torch.float32, backend="cpu")
    assert "cpu: no, it computes on cpu, not on cuda" in text
    assert "reference: not asked, as cpu was named" in text
    with pytest.raises(UserError, match="Did you mean 'additive_scores'"):
        kernels.explain("additve_scores", "cpu", torch.float32)


def test_explain_knows_what_is_going_on_around_it() -> None:
    seen = []

    def watched(x: Tensor) -> Tensor:
        seen.append(kernels.explain("additive_scores", "cpu", torch.float32))
        return x.sum()

    torch.func.grad(watched)(torch.zeros(2))
    assert "a transform of torch.func is active" in seen[0]


@pytest.mark.parametrize("operation", kernels.OPERATIONS)
def test_explain_names_every_backend_for_every_operation(operation: str) -> None:
    for device, dtype in [("cpu", torch.float32), ("cpu", torch.float64), ("cuda", torch.bfloat16)]:
        first, *others = kernels.explain(operation, device, dtype).splitlines()
        assert first == f"{operation} on {device} in {dtype} (backend: auto)"
        assert [line.split(":")[0].strip() for line in others] == ["cpu", "triton", "reference"]
        assert sum(line.endswith(": serves") for line in others) == 1


def test_a_named_backend_runs_or_raises() -> None:
    query = torch.zeros(1, 2, 3, dtype=torch.float64)
    with pytest.raises(UserError, match=r"not enough for torch\.float64"):
        kernels.additive_scores(query, query, query[0, 0], backend="cpu")


def test_float64_is_served_in_float64() -> None:
    query, key = torch.randn(2, 3, 8).double(), torch.randn(2, 4, 8).double()
    weight = torch.randn(8).double()
    scores = kernels.additive_scores(query, kernels.prepare_keys(key), weight)
    assert torch.equal(scores, reference.additive_scores(query, key, weight))
    mixed = kernels.additive_scores(query.float(), key, weight)
    assert mixed.dtype == torch.float64


@pytest.mark.parametrize("banded", [False, True])
def test_second_derivatives(banded: bool) -> None:
    query = torch.randn(1, 2, 3, requires_grad=True)
    key = torch.randn(1, 4, 3, requires_grad=True)
    weight = torch.randn(3, requires_grad=True)
    centres = torch.tensor([[0, 2]])

    def second(dtype: torch.dtype) -> list[Tensor]:
        inputs = [tensor.to(dtype) for tensor in (query, key, weight)]
        if banded:
            scores = kernels.local_scores(*inputs[:2], centres, 1, inputs[2])
            dots = kernels.local_scores(*inputs[:2], centres, 1)
            total = scores.exp().sum() + kernels.local_context(dots, inputs[1], centres).exp().sum()
        else:
            total = kernels.additive_scores(*inputs).exp().sum()
            allowed = torch.tensor([True, True, False, True])
            context = kernels.additive_attention(*inputs, inputs[1], allowed)
            total = total + context.exp().sum()
        first = torch.autograd.grad(total, (query, key, weight), create_graph=True)
        return list(torch.autograd.grad(sum(g.square().sum() for g in first), (query, key, weight)))

    for found, truth in zip(second(torch.float32), second(torch.float64), strict=True):
        torch.testing.assert_close(found, truth, rtol=1e-4, atol=1e-4)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script.*:DeprecationWarning")
def test_vmap_and_forward_derivatives_go_through_the_reference() -> None:
    query, key, weight = torch.randn(5, 2, 8), torch.randn(5, 4, 8), torch.randn(8)
    expected = kernels.additive_scores(query, key, weight)
    found = torch.vmap(lambda q, k: kernels.additive_scores(q, k, weight))(query, key)
    torch.testing.assert_close(found, expected)
    allowed = torch.rand(5, 4) < 0.7
    expected = kernels.additive_attention(query, key, weight, key, allowed.unsqueeze(1))
    found = torch.vmap(lambda q, k, m: kernels.additive_attention(q, k, weight, k, m))(
        query, key, allowed
    )
    torch.testing.assert_close(found, expected)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(query, torch.ones_like(query))
        out = kernels.additive_scores(dual, key, weight)
        tangent = torch.autograd.forward_ad.unpack_dual(out).tangent
    moved = kernels.additive_scores(query.double() + 1e-6, key.double(), weight.double())
    slope = (moved - kernels.additive_scores(query.double(), key.double(), weight.double())) / 1e-6
    torch.testing.assert_close(tangent.double(), slope, rtol=1e-3, atol=1e-3)


def test_autocast_does_not_narrow_the_sums() -> None:
    attention = Attention(8, 8, score="additive", attention_size=8)
    keys, query = torch.randn(2, 5, 8), torch.randn(2, 3, 8)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        memory = attention.prepare(keys)
        output = attention(query, memory)
        without = attention(query, memory, need_weights=False).context
        output.context.sum().backward()
    assert torch.equal(without, output.context)
    assert output.weights is not None
    assert output.weights.dtype == torch.float32
    assert attention.score.weight_vector.grad is not None


def test_keys_prepared_by_another_backend_are_prepared_anew() -> None:
    query, key, weight = torch.randn(2, 3, 8), torch.randn(2, 4, 8), torch.randn(8)
    foreign = kernels.prepare_keys(key, backend="reference")
    expected = kernels.additive_scores(query, kernels.prepare_keys(key), weight)
    assert torch.equal(kernels.additive_scores(query, foreign, weight), expected)


def test_selected_keys_stay_prepared() -> None:
    query, key, weight = torch.randn(2, 3, 8), torch.randn(4, 6, 8), torch.randn(8)
    rows = torch.tensor([3, 1])
    found = kernels.additive_scores(query, kernels.prepare_keys(key).select(rows), weight)
    assert torch.equal(found, kernels.additive_scores(query, key[rows], weight))


def test_no_tensor_of_all_terms_is_built() -> None:
    program = """
        import resource, torch
        from luong import kernels
        torch.set_num_threads(2)
        def step(steps):
            query = torch.randn(1, steps, 256, requires_grad=True)
            key = torch.randn(1, steps, 256, requires_grad=True)
            weight = torch.randn(256, requires_grad=True)
            kernels.additive_scores(query, key, weight).sum().backward()
        step(16)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        step(1024)
        print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) // 1024)
    """
    # Eager code keeps one tensor of 1024 x 1024 x 256 floats, 1024 MiB, and makes two more.
    assert int(run(program)) < 60


def test_a_band_of_a_long_source_builds_nothing_of_its_length_squared() -> None:
    length = 20_000
    query, key, weight = torch.randn(1, length, 16), torch.randn(1, length, 16), torch.randn(16)
    centres = torch.arange(length)[None]
    scores = kernels.local_scores(query, kernels.prepare_keys(key), centres, 3, weight)
    part = slice(5000, 5100)
    expected = reference.local_scores(query[:, part], key, centres[:, part], 3, weight)
    torch.testing.assert_close(scores[:, part], expected, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("window", ["global", "local-m", "local-p"])
@pytest.mark.parametrize("score", ["additive", "dot"])
def test_the_layer_agrees_with_itself_on_the_reference(score: str, window: str) -> None:
    attention = Attention(6, 6, score=score, window=window, half_width=2, attention_size=10)
    keys = torch.randn(3, 9, 6, requires_grad=True)
    query = torch.randn(3, 5, 6, requires_grad=True)
    keys.data[1, 6:] = torch.nan

    def all_of_it() -> list[Tensor]:
        memory = attention.prepare(keys, lengths=torch.tensor([9, 6, 0]))
        context = attention(query, memory).context
        plain = attention(query, memory, need_weights=False).context
        torch.testing.assert_close(plain, context)
        wanted = [query, keys, *attention.parameters()]
        return [plain, *torch.autograd.grad(plain.square().sum(), wanted)]

    found = all_of_it()
    with kernels.use_backend("reference"):
        expected = all_of_it()
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)
    assert not found[0][2].any()
