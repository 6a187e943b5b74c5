"""How the way of multiplying is chosen: by what was measured, never beyond the error allowed."""

import json
import math

import pytest
import torch

from luong.errors import UserError
from luong.folder import load_folder
from luong.kernels import products
from luong.training import precision, train
from luong.training.precision import Measured, Precision, autocast, choose_precision, measure

CPU = torch.device("cpu")
PLAIN, ONEDNN, NARROW = (
    Precision(torch.float32),
    Precision(torch.float32, "onednn"),
    Precision(torch.bfloat16),
)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    """A cache of this test's own."""
    path = tmp_path / "folder" / "luong" / "precision.json"
    monkeypatch.setattr(precision, "cache_file", lambda: path)
    return path


@pytest.fixture
def narrow_cpu(monkeypatch):
    """A CPU that multiplies in bfloat16."""
    monkeypatch.setattr(torch.cpu, "_is_avx512_bf16_supported", lambda: True)


@pytest.fixture
def wide_cpu(monkeypatch):
    """A CPU that does not."""
    for name in ("_is_avx512_bf16_supported", "_is_amx_tile_supported"):
        monkeypatch.setattr(torch.cpu, name, lambda: False)


@pytest.fixture
def measured(monkeypatch, cache):
    """Lets ways measure as told, as (seconds, error); gives the calls."""
    calls = []

    def tell(**found):
        def scripted(ways):
            calls.append([way.name for way in ways])
            return {way.name: Measured(*found[way.name.replace(" by ", "_")]) for way in ways}

        monkeypatch.setattr(precision, "measure", scripted)
        return calls

    return tell


@pytest.mark.parametrize(
    ("onednn", "narrow", "expected"),
    [
        ((0.5, 1e-6), (0.2, 4e-3), NARROW),
        ((0.5, 1e-6), (0.6, 4e-3), ONEDNN),
        ((0.5, 1e-6), (2.0, 4e-3), ONEDNN),  # bfloat16 in software
        ((0.95, 1e-6), (0.8, 4e-3), PLAIN),  # a gain too small to leave the default for
        ((0.1, 4e-3), (0.9, 4e-3), PLAIN),  # oneDNN that really computes in bfloat16
        ((0.1, math.inf), (0.1, 0.3), PLAIN),
        ((0.1, math.nan), (math.inf, math.inf), PLAIN),
    ],
)
def test_auto_is_what_pays_and_errs_little(measured, narrow_cpu, onednn, narrow, expected):
    measured(float32=(1.0, 1e-6), float32_oneDNN=onednn, bfloat16=narrow)
    found = choose_precision("auto", CPU)
    assert found[:2] == expected[:2]
    assert found.reason.startswith("measured: float32 1000 ms, float32 by oneDNN ")


def test_float32_is_float32_whatever_bfloat16_would_give(measured, narrow_cpu):
    measured(float32=(1.0, 1e-6), float32_oneDNN=(0.5, 1e-6))
    assert choose_precision("float32", CPU)[:2] == ONEDNN[:2]


def test_bfloat16_by_name(measured, narrow_cpu):
    calls = measured()
    assert choose_precision("bfloat16", CPU) == NARROW
    assert not calls


def test_bfloat16_is_refused_where_the_cpu_has_none(measured, wide_cpu):
    # torch's LSTM would fail in the first update, so "auto" does not try it, either.
    with pytest.raises(UserError, match="needs a CPU with AVX512-BF16 or AMX"):
        choose_precision("bfloat16", CPU)
    calls = measured(float32=(1.0, 1e-6), float32_oneDNN=(2.0, 1e-6))
    choose_precision("auto", CPU)
    assert calls == [["float32", "float32 by oneDNN"]]


def test_a_machine_is_measured_once(measured, monkeypatch, wide_cpu, cache):
    calls = measured(float32=(1.0, 1e-6), float32_oneDNN=(0.5, 1e-6))
    first = choose_precision("auto", CPU)
    assert choose_precision("auto", CPU) == first
    assert len(calls) == 1
    (key,) = json.loads(cache.read_bytes())
    assert torch.__version__ in key
    assert f"{torch.get_num_threads()} threads" in key
    monkeypatch.setattr(torch, "get_num_threads", lambda: 77)
    choose_precision("auto", CPU)
    monkeypatch.setattr(torch, "__version__", "99.0")
    choose_precision("auto", CPU)
    assert len(calls) == 3
    assert len(json.loads(cache.read_bytes())) == 3


def test_a_way_that_the_cache_lacks_is_measured_with_the_others(measured, narrow_cpu):
    calls = measured(float32=(1.0, 1e-6), float32_oneDNN=(0.9, 1e-6), bfloat16=(0.1, 4e-3))
    choose_precision("float32", CPU)
    assert choose_precision("auto", CPU).dtype == torch.bfloat16
    assert choose_precision("auto", CPU).dtype == torch.bfloat16
    assert len(calls) == 2


@pytest.mark.parametrize("text", ["", "[]", '{"x": 1}', '{"x": {"float32": [1]}}', "\x00"])
def test_a_damaged_cache_is_made_anew(measured, wide_cpu, cache, text):
    cache.parent.mkdir(parents=True)
    cache.write_text(text)
    measured(float32=(1.0, 1e-6), float32_oneDNN=(0.5, 1e-6))
    assert choose_precision("auto", CPU).library == "onednn"
    assert len(json.loads(cache.read_bytes())) == 1


def test_a_cache_that_cannot_be_written_is_done_without(measured, wide_cpu, tmp_path):
    (tmp_path / "folder").write_text("a file where a folder should be")
    calls = measured(float32=(1.0, 1e-6), float32_oneDNN=(0.5, 1e-6))
    for _ in range(2):
        assert choose_precision("auto", CPU).library == "onednn"
    assert len(calls) == 2


def test_real_products_are_measured_and_leave_no_trace():
    random, switch = torch.get_rng_state(), torch.get_float32_matmul_precision()
    found = measure([PLAIN, ONEDNN])
    for measured in found.values():
        assert measured.error < 1e-5
        assert 0 < measured.seconds < math.inf
    assert torch.equal(torch.get_rng_state(), random)
    assert torch.get_float32_matmul_precision() == switch


def test_a_library_that_narrows_products_is_found_out(monkeypatch, wide_cpu, cache):
    def narrowed(left, right):
        product = left @ right.t()
        if products.library() == "onednn":
            return (left.bfloat16().float() @ right.bfloat16().float().t()).bfloat16().float()
        return product

    monkeypatch.setattr(precision, "multiply", narrowed)
    found = choose_precision("auto", CPU)
    assert found.library == "default"
    assert "float32 by oneDNN errs by " in found.reason
    # Neither does a run go on so that began where the library was exact.
    again = choose_precision("auto", CPU, saved=ONEDNN.saved)
    assert again.library == "default"


def test_the_cache_lies_where_users_keep_theirs(monkeypatch, tmp_path):
    monkeypatch.undo()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert precision.cache_file() == tmp_path / "luong" / "precision.json"
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    assert precision.cache_file() == tmp_path / "home" / ".cache" / "luong" / "precision.json"


def test_a_run_keeps_tells_and_goes_on_with_its_choice(measured, wide_cpu, toy_config, console):
    measured(float32=(1.0, 1e-6), float32_oneDNN=(0.5, 1e-6))
    config = toy_config("training.max_epochs=1", "training.precision=auto")
    train(config, console=console)
    reason = "measured: float32 1000 ms, float32 by oneDNN 500 ms"
    assert f"products in float32 by oneDNN ({reason}), " in console.file.getvalue()
    kept = {"dtype": "float32", "library": "onednn", "reason": reason}
    assert load_folder(config.output).precision == kept
    # Another measurement does not change a run under way.
    measured(float32=(1.0, 1e-6), float32_oneDNN=(2.0, 1e-6))
    config = toy_config("training.max_epochs=2", "training.precision=auto")
    train(config, resume=True, console=console)
    assert f"float32 by oneDNN (as this run began: {reason})" in console.file.getvalue()


def test_autocast_narrows_products_only():
    weight, inputs = torch.randn(3, 4), torch.randn(2, 4)
    with autocast(CPU, torch.bfloat16):
        assert (inputs @ weight.t()).dtype == torch.bfloat16
        assert (inputs + inputs).dtype == torch.float32
    with autocast(CPU, torch.float32):
        assert (inputs @ weight.t()).dtype == torch.float32
