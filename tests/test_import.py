"""`import luong` and `luong --help` are instant: nothing heavy is imported."""

import os
import subprocess
import sys

import pytest

import luong

HEAVY = [
    "torch",
    "numpy",
    "numba",
    "triton",
    "pydantic",
    "matplotlib",
    "sentencepiece",
    "sacrebleu",
    "safetensors",
    "starlette",
]


def modules(code):
    """The heavy modules that a piece of code imports in a fresh interpreter."""
    end = f"\nimport sys; print('loaded', *[m for m in {HEAVY} if m in sys.modules])"
    process = subprocess.run(
        [sys.executable, "-c", code + end],
        capture_output=True,
        check=True,
        text=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return process.stdout.splitlines()[-1].split()[1:]


def test_importing_luong_imports_nothing_heavy():
    assert modules("import luong, luong.errors; luong.__version__; dir(luong)") == []


@pytest.mark.parametrize("arguments", [["--help"], ["train", "--help"], ["init"]])
def test_the_command_line_imports_nothing_heavy(arguments):
    call = f"sys.argv = ['luong', *{arguments}]\ntry: main()\nexcept SystemExit: pass"
    loaded = modules(f"import sys\nfrom luong.cli import main\n{call}")
    assert set(loaded) <= {"pydantic"}  # typer itself may use it


@pytest.mark.slow
def test_layers_alone_need_no_text_and_no_pictures():
    loaded = modules("from luong import Attention, attend")
    assert "torch" in loaded
    assert {"matplotlib", "sentencepiece", "sacrebleu", "triton", "numba"}.isdisjoint(loaded)


def test_every_public_name_is_there():
    for name in luong.__all__:
        assert getattr(luong, name) is not None
    assert luong.__version__ == "0.1.0"
    with pytest.raises(AttributeError, match="no attribute 'attention_layer'"):
        _ = luong.attention_layer
