"""Every encoder goes through the whole of a run: it learns, is saved, and translates."""

import pytest

import luong
from luong.models.encoders import ENCODERS
from luong.training import train


@pytest.mark.parametrize("encoder", [name for name in ENCODERS if name != "recurrent"])
def test_a_toy_run(toy, toy_config, tmp_path, console, encoder):
    """After 90 updates most of the words are right; the untrained model knows one in twelve."""
    settings = [
        f"model.encoder={encoder}",
        "model.heads=4",
        "model.kernel_width=1",
        "model.embedding_size=16",
        "model.hidden_size=32",
        "model.dropout=0",
        "model.tie_embeddings=none",
        "model.attention.input_feeding=false",
        "model.attention.window=local-m",
        "model.attention.half_width=1",
        "training.max_epochs=30",
        "training.batch_tokens=150",
        "training.validate_every=90",
        "training.learning_rate=0.01",
        "training.label_smoothing=0",
        "training.average_decay=0",
    ]
    train(toy_config(*settings), console=console)
    translator = luong.load(tmp_path / "run")
    assert f"- {encoder} encoder, LSTM decoder" in (tmp_path / "run/README.md").read_text()
    right = total = 0
    sources = (toy / "test.de").read_text(encoding="utf-8").splitlines()
    targets = (toy / "test.en").read_text(encoding="utf-8").splitlines()
    for found, target in zip(translator.translate(sources), targets, strict=True):
        words = target.split()
        right += sum(map(str.__eq__, found.text.split(), words))
        total += len(words)
    assert right / total > 0.5
