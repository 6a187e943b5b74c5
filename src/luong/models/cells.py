"""Recurrent cells whose inputs come in two parts: those known for all steps, and those of a step.

What is known before the loop (embeddings) is projected for all steps in one product; what a step
brings (the attentional state, the context, the layer below) is joined to the hidden state, so that
a step of the LSTM is one product. The arithmetic is that of torch.nn.LSTMCell and GRUCell.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn
from torch.nn import functional
from typing_extensions import override


class Cell(nn.Module, ABC):
    """One layer of a recurrent decoder.

    Args:
        early_size: Size of the input that is known for all steps; may be 0.
        late_size: Size of the input that a step brings.
        hidden_size: H.
    """

    keeps_cell: bool
    """Whether a second state, the cell, is carried beside the hidden one."""

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__()
        self.early_size = early_size
        self.late_size = late_size
        self.hidden_size = hidden_size

    @abstractmethod
    def project(self, early: Tensor) -> Tensor:
        """The part of the gates that needs no loop: (..., early_size) to (..., gates)."""

    @abstractmethod
    def forward(
        self, projected: Tensor | None, late: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        """One step.

        Args:
            projected: What `project` gave for this step (B, gates); None if early_size is 0.
            late: (B, late_size).
            hidden: (B, H).
            cell: (B, H), float32 at least; (B, 0) where the cell keeps none.

        Returns:
            The new hidden state and cell.
        """


class LSTMCell(Cell):
    """Long short-term memory (Hochreiter and Schmidhuber 1997, with a forget gate)."""

    keeps_cell = True

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size)
        self.early_weight = nn.Parameter(torch.empty(4 * hidden_size, early_size))
        self.late_weight = nn.Parameter(torch.empty(4 * hidden_size, late_size + hidden_size))
        self.bias = nn.Parameter(torch.empty(4 * hidden_size))

    @override
    def project(self, early: Tensor) -> Tensor:
        return functional.linear(early, self.early_weight, self.bias)

    @override
    def forward(
        self, projected: Tensor | None, late: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        start = self.bias if projected is None else projected
        gates = torch.addmm(start, torch.cat([late, hidden], -1), self.late_weight.t())
        entry, forget, candidate, exit_ = gates.to(cell.dtype).chunk(4, -1)
        cell = torch.sigmoid(forget) * cell + torch.sigmoid(entry) * torch.tanh(candidate)
        return torch.sigmoid(exit_) * torch.tanh(cell), cell


class GRUCell(Cell):
    """Gated recurrent unit (Cho 2014), with the reset gate after the product, as in torch."""

    keeps_cell = False

    def __init__(self, early_size: int, late_size: int, hidden_size: int) -> None:
        super().__init__(early_size, late_size, hidden_size)
        self.early_weight = nn.Parameter(torch.empty(3 * hidden_size, early_size))
        self.late_weight = nn.Parameter(torch.empty(3 * hidden_size, late_size))
        self.hidden_weight = nn.Parameter(torch.empty(3 * hidden_size, hidden_size))
        self.bias = nn.Parameter(torch.empty(3 * hidden_size))
        self.hidden_bias = nn.Parameter(torch.empty(3 * hidden_size))

    @override
    def project(self, early: Tensor) -> Tensor:
        return functional.linear(early, self.early_weight, self.bias)

    @override
    def forward(
        self, projected: Tensor | None, late: Tensor, hidden: Tensor, cell: Tensor
    ) -> tuple[Tensor, Tensor]:
        start = self.bias if projected is None else projected
        from_input = torch.addmm(start, late, self.late_weight.t()).to(hidden.dtype)
        from_hidden = functional.linear(hidden, self.hidden_weight, self.hidden_bias)
        input_reset, input_update, input_new = from_input.chunk(3, -1)
        hidden_reset, hidden_update, hidden_new = from_hidden.to(hidden.dtype).chunk(3, -1)
        reset = torch.sigmoid(input_reset + hidden_reset)
        update = torch.sigmoid(input_update + hidden_update)
        new = torch.tanh(input_new + reset * hidden_new)
        return new + update * (hidden - new), cell


CELLS: dict[str, type[Cell]] = {"lstm": LSTMCell, "gru": GRUCell}
