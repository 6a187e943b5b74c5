"""Recurrent cells whose inputs come in two parts: those known for all steps, and those of a step.

What is known before the loop (embeddings) is projected for all steps in one product; what a step
brings (the attentional state, the context, the layer below) is joined to the hidden state, so that
a step of the LSTM is one product. The arithmetic is that of torch.nn.LSTMCell and GRUCell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
from torch import Tensor, nn
from typing_extensions import override

from luong import kernels
from luong.models.quantized_matrix import linear
from luong.models.shared_weight import shared

Step = Callable[[Tensor, Sequence[Tensor], Tensor, Tensor], tuple[Tensor, Tensor]]
"""A step of a cell, see `Cell.loop`."""


class Cell(nn.Module, ABC):
    """One layer of a recurrent decoder.

    Args:
        early_size: Size of the input that is known for all steps; may be 0.
        late_size: Size of the input that a step brings.
        hidden_size: H.
    """

    keeps_cell: bool
    """Whether a second state, the cell, is carried beside the hidden one."""

    gates: int
    """Blocks of H rows in the weights."""

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__()
        self.early_weight = nn.Parameter(torch.empty(self.gates * hidden_size, early_size))
        self.bias = nn.Parameter(torch.empty(self.gates * hidden_size))

    def project(self, early: Tensor) -> Tensor:
        """The part of the gates that needs no loop: (..., early_size) to (..., gates * H)."""
        return linear(early, self.early_weight, self.bias)

    @abstractmethod
    def loop(self) -> Step:
        """The step of one loop, whose weights get their gradient once after it.

        Returns:
            A function of what `project` gave for this step (B, gates * H), the late inputs,
            which side by side are (B, late_size), the hidden state (B, H), and the cell (B, H),
            float32 at least, or (B, 0) where none is kept; it gives the new hidden state and cell.
        """

    @abstractmethod
    def sequence(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        """All steps at once, where every input is known before the loop.

        Args:
            inputs: Early inputs, or late ones if the cell has only those, (T, B, size).
            hidden: The state before the first step (B, H).
            cell: The cell before it, (B, H) or (B, 0).

        Returns:
            The hidden states (T, B, H).
        """


class LSTMCell(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with a forget gate)."""

    keeps_cell = True
    gates = 4

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size)
        self.late_weight = nn.Parameter(torch.empty(4 * hidden_size, late_size + hidden_size))

    @override
    def loop(self) -> Step:
        weight = shared(self.late_weight)

        def step(
            projected: Tensor, late: Sequence[Tensor], hidden: Tensor, cell: Tensor
        ) -> tuple[Tensor, Tensor]:
            return kernels.lstm_update(weight.product(*late, hidden, start=projected), cell)

        return step

    @override
    def sequence(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        size = self.late_weight.shape[1] - hidden.shape[-1]
        late, recurrent = self.late_weight[:, :size], self.late_weight[:, size:]
        given = late if size else self.early_weight
        weights = [given, recurrent, self.bias, torch.zeros_like(self.bias)]
        state = hidden.unsqueeze(0), cell.unsqueeze(0)
        return torch.lstm(inputs, state, weights, True, 1, 0.0, self.training, False, False)[0]


class GRUCell(Cell):
    """Gated recurrent unit (Cho 2014), with the reset gate after the product, as in torch."""

    keeps_cell = False
    gates = 3

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size)
        self.late_weight = nn.Parameter(torch.empty(3 * hidden_size, late_size))
        self.hidden_weight = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.hidden_bias = nn.Parameter(torch.empty(3 * hidden_size))

    @override
    def loop(self) -> Step:
        late_weight, hidden_weight = shared(self.late_weight), shared(self.hidden_weight)

        def step(
            projected: Tensor, late: Sequence[Tensor], hidden: Tensor, cell: Tensor
        ) -> tuple[Tensor, Tensor]:
            # Without a late input there still is one, of no width.
            inputs = (*late, hidden[:, :0])
            from_input = late_weight.product(*inputs, start=projected).to(hidden.dtype)
            from_hidden = hidden_weight.product(hidden).to(hidden.dtype) + self.hidden_bias
            input_reset, input_update, input_new = from_input.chunk(3, -1)
            hidden_reset, hidden_update, hidden_new = from_hidden.chunk(3, -1)
            reset = torch.sigmoid(input_reset + hidden_reset)
            update = torch.sigmoid(input_update + hidden_update)
            new = torch.tanh(input_new + reset * hidden_new)
            return new + update * (hidden - new), cell

        return step

    @override
    def sequence(self, inputs: Tensor, hidden: Tensor, cell: Tensor) -> Tensor:
        late = self.late_weight if self.late_weight.shape[1] else self.early_weight
        weights: list[Tensor] = [late, self.hidden_weight, self.bias, self.hidden_bias]
        state = hidden.unsqueeze(0)
        return torch.gru(inputs, state, weights, True, 1, 0.0, self.training, False, False)[0]


CELLS: dict[str, type[Cell]] = {"lstm": LSTMCell, "gru": GRUCell}
