"""Steps of searches by tables of the decoder's inputs, which are kept from search to search."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

from torch import Tensor

from luong.models import EncoderDecoder
from luong.search.trained import SearchModel


class _Made(NamedTuple):
    """A table, and which weights at which time it was made of."""

    weights: list[tuple[int, int]]
    table: Tensor | None


class InputTables:
    """The input tables of some models, see `EncoderDecoder.input_table`.

    A table is made at the first search, and anew where the model's weights have changed since.

    Example:
        >>> tables = InputTables()
        >>> found = beam_search(tables.step(model), state, memory, beam_size=5, max_lengths=limits)
    """

    def __init__(self) -> None:
        self._made: dict[int, _Made] = {}

    def table(self, model: SearchModel) -> Tensor | None:
        """The table of a model in evaluation; None where it has none."""
        if not isinstance(model, EncoderDecoder):
            return None
        weights = [_identity(weight) for weight in model.input_weights()]
        made = self._made.get(id(model))
        if made is None or made.weights != weights:
            made = self._made[id(model)] = _Made(weights, model.input_table())
        return made.table

    def step(self, model: SearchModel) -> Any:
        """The step of a model, by its table if it has one."""
        table = self.table(model)
        return model.step if table is None else partial(model.step, inputs=table)


def _identity(weight: Tensor) -> tuple[int, int]:
    """Where a weight lies, and how often it was changed there."""
    # Tensors of inference mode are not counted; what trains has none.
    return weight.data_ptr(), 0 if weight.is_inference() else weight._version
