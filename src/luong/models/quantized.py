"""Putting a trained encoder-decoder in int8 for inference."""

from __future__ import annotations

from torch import Tensor, nn

from luong.models.cells import Cell
from luong.models.decoder import Decoder
from luong.models.output import OutputLayer
from luong.models.quantized_matrix import QuantizedEmbedding, QuantizedMatrix


def quantize(model: nn.Module) -> None:
    """Put the embeddings, the decoder's products and the output layer in int8, in place.

    The encoder, the bridge and the attention stay in float32: but for the queries they run once
    for each sentence, not at each step. What is shared stays shared. A model that is in int8
    already stays as it is.

    Args:
        model: A `Seq2Seq` in float32; afterwards it can only be used for inference.

    Example:
        >>> folder = load_folder("runs/de-en")
        >>> quantize(folder.model)
    """
    matrices: dict[int, QuantizedMatrix] = {}
    embeddings: dict[int, QuantizedEmbedding] = {}

    def matrix(weight: Tensor) -> QuantizedMatrix:
        if id(weight) not in matrices:
            matrices[id(weight)] = QuantizedMatrix(weight)
        return matrices[id(weight)]

    originals = list(model.modules())  # kept alive: what is shared is known by its id
    for owner in originals:
        for name, child in list(owner._modules.items()):  # what is shared comes each time
            if isinstance(child, nn.Embedding):
                if id(child) not in embeddings:
                    embeddings[id(child)] = QuantizedEmbedding(matrix(child.weight))
                setattr(owner, name, embeddings[id(child)])
        for part in _products(owner):
            for name, weight in list(part.named_parameters(recurse=False)):
                if weight.dim() == 2 and weight.numel():
                    delattr(part, name)
                    setattr(part, name, matrix(weight))


def is_quantized(model: nn.Module) -> bool:
    """Whether weights of a model are in int8."""
    return any(isinstance(module, QuantizedMatrix) for module in model.modules())


def repack(model: nn.Module) -> None:
    """Lay out anew the int8 weights of a model that were loaded or moved."""
    for module in model.modules():
        if isinstance(module, QuantizedMatrix):
            module.pack()


def _products(module: nn.Module) -> list[nn.Module]:
    """The layers of a module whose matrices are put in int8."""
    if isinstance(module, Cell):
        return [module]
    if isinstance(module, Decoder):
        return [module.combine]
    if isinstance(module, OutputLayer):
        return [layer for layer in (module.projection, module.logits) if layer is not None]
    return []
