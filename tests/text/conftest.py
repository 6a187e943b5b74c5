from importlib.resources import files
from pathlib import Path

import pytest

from luong.config import PairFiles, PairTokensConfig
from luong.text.corpus import ParallelCorpus
from luong.text.encoding import Tokenizer
from luong.text.tokenizers import train_tokenizers


@pytest.fixture(scope="session")
def corpus() -> ParallelCorpus:
    data = Path(str(files("luong"))) / "data"
    return ParallelCorpus.open(PairFiles(source=data / "train.de", target=data / "train.en"))


@pytest.fixture(scope="session")
def tokenizers(corpus) -> dict[str, Tokenizer]:
    """A tokenizer of each kind and algorithm, shared by both sides of the demo corpus."""
    settings = {
        "word": PairTokensConfig(kind="word"),
        "character": PairTokensConfig(kind="character"),
        "unigram": PairTokensConfig(vocabulary_size=1000),
        "bpe": PairTokensConfig(vocabulary_size=1000, algorithm="bpe"),
    }
    return {
        name: train_tokenizers(tokens, corpus.source_lines, corpus.target_lines)[0]
        for name, tokens in settings.items()
    }
