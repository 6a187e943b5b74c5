import torch

from luong.config import RunConfig
from luong.folder import ModelFolder
from luong.models import Seq2Seq
from luong.search import Translator
from luong.text.characters import CharacterTokenizer
from luong.text.featured import FeaturedTokenizer
from luong.text.vocabulary import UNKNOWN


def test_an_unknown_letter_is_never_replaced_by_a_feature():
    source = FeaturedTokenizer(CharacterTokenizer.train(["ab"], 10), ["V", "PST"], ";")
    target = CharacterTokenizer.train(["ab"], 10)
    files = {"file": "x.tsv", "features_column": 3}
    config = RunConfig.model_validate(
        {
            "output": "x",
            "data": {"train": files, "valid": files},
            "tokens": {"kind": "character", "shared": False},
            "model": {"embedding_size": 4, "hidden_size": 4, "features": "attention"},
        }
    )
    model = Seq2Seq(config.model, source.size, target.size, source.first_feature).eval()
    with torch.no_grad():
        model.output.logits.bias[UNKNOWN] += 50
    found = Translator(ModelFolder(config, model, source, target)).translate("a☃\tV;PST")
    assert found.text
    assert set(found.text) <= {"a", "☃"}
    assert found.attention.shape[1] == 5
