"""The card of a model folder, README.md: what the model is, how good, and how to use it."""

from __future__ import annotations

from importlib.metadata import version
from typing import Any, Protocol

from torch import Tensor

from luong.config import AnyConfig, CaptionConfig, ClassifierConfig, RunConfig
from luong.models.quantized import is_quantized
from luong.text.tokenizers import Tokenizer


class Described(Protocol):
    """What the card needs of a model folder."""

    @property
    def config(self) -> AnyConfig:
        """The settings of the run that trained it."""

    @property
    def model(self) -> Any:
        """The network."""

    @property
    def source_tokenizer(self) -> Tokenizer:
        """Reads what goes in."""

    @property
    def target_tokenizer(self) -> Tokenizer:
        """Writes what comes out."""

    @property
    def scores(self) -> dict[str, Any]:
        """What it reached on the validation data."""


def model_card(folder: Described, tensors: dict[str, Tensor]) -> str:
    """Describe a model folder in Markdown.

    Args:
        folder: What is to be described.
        tensors: Its weights by name.
    """
    scores = folder.scores
    numbers = "".join(
        f"| {name} | {value:.4g} |\n" for name, value in scores.items() if isinstance(value, float)
    )
    signatures = "".join(f"- `{line}`\n" for line in scores.get("signatures", {}).values())
    parameters = sum(tensor.numel() for name, tensor in tensors.items() if ".scales" not in name)
    kind = ", most of them in int8" if is_quantized(folder.model) else ""
    head = _head(folder)
    verb = folder.config.task
    files, call = _USES[verb]
    return f"""{head}
- {parameters:,} parameters{kind}

## Scores on the validation data

| score | value |
|---|---|
{numbers}
{signatures}
## Use

```sh
luong {verb} THIS_FOLDER {files}
```

```python
import luong
print(luong.load("THIS_FOLDER").{call})
```
"""


_USES = {
    "translate": ("< in.txt > out.txt", 'translate("...").text'),
    "classify": ("< in.txt > labels.tsv", 'classify("...").label'),
    "caption": ("pictures/*.png > captions.tsv", 'caption("picture.png").text'),
}
"""Of each task what follows its verb, and the call in Python."""


def _head(folder: Described) -> str:
    config, tokenizers = folder.config, (folder.source_tokenizer, folder.target_tokenizer)
    if isinstance(config, ClassifierConfig):
        return _classifier_head(config, *tokenizers)
    if isinstance(config, CaptionConfig):
        return _caption_head(config, tokenizers[1])
    return _translator_head(config, *tokenizers)


def _translator_head(config: RunConfig, source: Tokenizer, target: Tokenizer) -> str:
    attention = config.model.attention
    languages = [config.data.source_language or "source", config.data.target_language or "target"]
    return f"""# {languages[0]} to {languages[1]}

An encoder-decoder with attention, trained by [luong](https://pypi.org/project/luong)
{version("luong")}.

- {config.model.encoder} encoder, {config.model.cell.upper()} decoder, \
{config.model.encoder_layers} + {config.model.decoder_layers} layers of {config.model.hidden_size}
- attention: `{attention.score}` score, `{attention.window}` window, `{attention.placement}` \
placement, input feeding {"on" if attention.input_feeding else "off"}\
{", coverage" if attention.coverage else ""}{", words are copied" if config.model.copies else ""}
- tokens: {source.size:,} of the source ({source.kind}) and \
{target.size:,} of the target ({target.kind})"""


def _classifier_head(config: ClassifierConfig, words: Tokenizer, labels: Tokenizer) -> str:
    names = labels.tokens(range(labels.size))
    return f"""# Classifier: {", ".join(names)}

A hierarchical attention network, trained by [luong](https://pypi.org/project/luong)
{version("luong")}.

- {config.model.encoder} encoder of words, {config.model.sentence_encoder} encoder of sentences, \
vectors of {config.model.hidden_size}
- tokens: {config.tokens.kind}, {words.size:,} of them; {labels.size} labels\
{", any number a document" if config.data.multi_label else ""}"""


def _caption_head(config: CaptionConfig, tokenizer: Tokenizer) -> str:
    model, size = config.model, config.data.picture_size
    rows, columns = config.grid
    network = f"stages of {', '.join(map(str, model.channels))} channels"
    network = network if model.backbone == "none" else f"{model.backbone} of torchvision"
    return f"""# Captions of pictures

A convolutional picture encoder and a decoder with attention, trained by
[luong](https://pypi.org/project/luong) {version("luong")}.

- pictures of {size} by {size} pixels, {network}, a grid of {rows} by {columns}
- {model.cell.upper()} decoder, {model.decoder_layers} layers of {model.hidden_size}, \
`{model.attention.score}` score
- tokens: {config.tokens.kind}, {tokenizer.size:,} of them"""
