"""Runs in bfloat16 on a CPU that has it: every kind of model takes it, and learns as in float32."""

import json

import pytest
import torch

from luong.config import load_config
from luong.training import train

pytestmark = pytest.mark.skipif(
    not torch.cpu._is_avx512_bf16_supported() and not torch.cpu._is_amx_tile_supported(),
    reason="this CPU does not multiply in bfloat16",
)

MODELS = [
    ["model.encoder=recurrent"],
    ["model.cell=gru", "model.encoder_layers=2", "model.decoder_layers=2"],
    ["model.encoder=convolutional", "model.attention.input_feeding=false"],
    ["model.encoder=self-attention", "model.heads=4", "model.attention.score=scaled-dot"],
    ["model.encoder=mean", "model.attention.score=location"],
    ["model.attention.score=additive", "model.attention.placement=bahdanau"],
    ["model.attention.score=concat", "model.attention.coverage=true", "model.copy=true"],
    ["model.attention.window=local-p", "model.attention.score=dot", "model.state_dropout=0.2"],
    ["model.attention.window=local-m", "model.tie_embeddings=none"],
]


def losses(folder) -> list[float]:
    rows = map(json.loads, (folder / "metrics.jsonl").read_text().splitlines())
    return [row["loss"] for row in rows if row["kind"] == "train"]


def both(make, folder, settings, console) -> None:
    found = []
    for precision in ("float32", "bfloat16"):
        output = folder / precision
        config = make(*settings, f"training.precision={precision}", output=output)
        train(config, console=console)
        found.append(losses(output))
    wide, narrow = (torch.tensor(one) for one in found)
    assert len(wide) == len(narrow) > 5
    # Seven bits of a factor: what it makes of the loss, and how far the paths drift apart.
    torch.testing.assert_close(narrow, wide, rtol=0.03, atol=0.02)
    assert not torch.equal(narrow, wide)


@pytest.mark.parametrize("settings", MODELS, ids=" ".join)
def test_translation(toy_config, tmp_path, console, settings):
    both(toy_config, tmp_path, settings, console)


def test_classification(reviews, tmp_path, console):
    def make(*overrides, output):
        return load_config(reviews / "run.toml", [f"output={output}", *overrides])

    both(make, tmp_path, ["training.max_epochs=3"], console)


def test_captions(shapes, tmp_path, console):
    def make(*overrides, output):
        return load_config(shapes / "run.toml", [f"output={output}", *overrides])

    both(make, tmp_path, ["training.max_epochs=2", "training.log_every=1"], console)
