"""The recurrent decoder with attention: every score, window, placement and feeding combines.

Equations, with h_t the state of the top layer, c_t the context of attention:

    attentional state   h~_t = tanh(W_c [c_t; h_t])          (Luong 2015, equation 5)
    placement luong     attend with h_t after the update of the recurrent layers
    placement bahdanau  attend with h_{t-1} before it; c_t joins the input of the first layer
    input feeding       h~_{t-1} joins the input of the first layer (Luong 2015, section 3.3)

    coverage            the sum of the weights of all steps before, for a score that knows it
    copy gate           w_c c_t + w_s h_t + w_x x_t + b, whose sigmoid is the probability that the
                        next word is generated, not copied (See 2017, equation 8)

It knows no words: it takes embedded tokens and gives attentional states.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, cast

import torch
from torch import Tensor, nn

from luong.attention import Attention, AttentionOutput, Memory
from luong.config import ModelConfig
from luong.kernels.reference import at_least_float32
from luong.models.cells import CELLS, Cell, Step
from luong.models.dropout import dropout, keep_mask
from luong.models.encoders import Encoded
from luong.models.features import with_features
from luong.models.quantized_matrix import QuantizedMatrix, linear
from luong.models.shared_weight import SharedWeight, shared


class DecoderState(NamedTuple):
    """All that a step needs of the steps before it, batch first, an immutable value.

    Attributes:
        hidden: (rows, L, H).
        cell: (rows, L, H) for LSTM, (rows, L, 0) for GRU.
        attentional: h~ of the step before (rows, H).
        position: The time step t (rows,), integers.
        coverage: The sum of the weights of the steps before (rows, S); (rows, 0) without coverage.
    """

    hidden: Tensor
    cell: Tensor
    attentional: Tensor
    position: Tensor
    coverage: Tensor

    def select(self, rows: Tensor) -> DecoderState:
        """The state of the given rows, in their order.

        Args:
            rows: Integer indices (n,).
        """
        return DecoderState(*(part.index_select(0, rows) for part in self))


class Decoded(NamedTuple):
    """What the decoder gives of one step, or of all.

    Attributes:
        attentional: h~ (rows, H), or (B, T, H) of all steps.
        weights: Over the whole source, (rows, S) or (B, T, S); None if nobody asked.
        gates: Logits of generating, not copying, (rows,) or (B, T); None without copying.
    """

    attentional: Tensor
    weights: Tensor | None
    gates: Tensor | None = None


class _Loop(NamedTuple):
    """What the steps of one loop share: their weights, and the masks of dropout.

    Attributes:
        cells: The steps of the recurrent layers.
        combine: W_c.
        state_mask: For the hidden state, the same at every step (rows, L, H).
        masks: For the attentional states, one (rows, H) for each step.
    """

    cells: list[Step]
    combine: SharedWeight | QuantizedMatrix
    state_mask: Tensor | None = None
    masks: Sequence[Tensor] | None = None


class Bridge(nn.Module):
    """From the encoder's final states to the decoder's first.

    Layers are paired so that the top states always meet: a shallower decoder takes the upper
    layers of the encoder, and what a deeper one has beyond them starts from the encoder's top.
    With f the final hidden state of its partner, a layer starts from hidden = tanh(W_h f + b_h)
    and cell = W_c f + b_c.
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        top = config.encoder_layers - 1
        below = max(0, config.encoder_layers - config.decoder_layers)
        self.sources = [min(layer + below, top) for layer in range(config.decoder_layers)]
        outputs = config.hidden_size * (2 if CELLS[config.cell].keeps_cell else 1)
        self.layers = nn.ModuleList(nn.Linear(config.hidden_size, outputs) for _ in self.sources)
        self.hidden_size = config.hidden_size

    def forward(self, final: Tensor) -> DecoderState:
        """The state before the first step, from final states (B, L, H)."""
        layers = [cast(nn.Linear, layer) for layer in self.layers]
        pairs = zip(layers, self.sources, strict=True)
        started = torch.stack(
            [linear(final[:, source], layer.weight, layer.bias) for layer, source in pairs], 1
        )
        started = started.to(final.dtype)
        hidden = torch.tanh(started[..., : self.hidden_size])
        batch = len(final)
        return DecoderState(
            hidden,
            started[..., self.hidden_size :],
            final.new_zeros(batch, self.hidden_size),
            torch.zeros(batch, dtype=torch.long, device=final.device),
            at_least_float32(final).new_zeros(batch, 0),
        )


class Decoder(nn.Module):
    """A recurrent decoder that attends to its source at every step.

    Args:
        config: Cell, sizes, layers, dropout and attention.

    Example:
        >>> decoder = Decoder(ModelConfig(embedding_size=4, hidden_size=6))
        >>> memory, state = decoder.start(encoded, lengths)
        >>> attentional, weights, _ = decoder.unroll(embedded, state, memory, need_weights=True)
        >>> state, (attentional, weights, _) = decoder.step(embedded[:, 0], state, memory)
    """

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        size = config.hidden_size
        options = config.attention
        attention = Attention(
            size,
            size,
            score=options.score,
            attention_size=options.attention_size or size,
            max_length=options.max_length,
            window=options.window,
            half_width=options.half_width,
            dropout=options.dropout,
            coverage=options.coverage,
        )
        self.attention = with_features(attention, config)
        self.covers = options.coverage
        self.attends_first = options.placement == "bahdanau"
        self.feeds = options.input_feeding
        context_size = self.attention.value_size
        late = size * self.feeds + context_size * self.attends_first
        self.cells = nn.ModuleList(
            CELLS[config.cell](
                config.embedding_size if layer == 0 else 0, late if layer == 0 else size, size
            )
            for layer in range(config.decoder_layers)
        )
        self.bridge = Bridge(config)
        self.combine = nn.Linear(context_size + size, size, bias=False)
        self.copy_gate = (
            nn.Linear(context_size + size + config.embedding_size, 1) if config.copies else None
        )
        self.layer_dropout = config.dropout_of_layers
        self.state_dropout = config.state_dropout

    def start(
        self, encoded: Encoded, lengths: Tensor, **features: Any
    ) -> tuple[Memory, DecoderState]:
        """Prepare the source for attention, and the state before the first step.

        What `FeaturedAttention.prepare` takes beside the states comes as `features`.
        """
        memory = self.attention.prepare(encoded.states, lengths=lengths, **features)
        state = self.bridge(encoded.final)
        if self.covers:
            state = state._replace(coverage=state.coverage.new_zeros(memory.mask.shape))
        return memory, state

    def step(
        self, embedded: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Decoded]:
        """One step of some rows; pure.

        Args:
            embedded: The tokens before, embedded (rows, e). Rows are sentence-major: with K rows
                for each of the memory's sentences, row b*K + k is beam k of sentence b.
            state: Of the same rows.
            memory: Of the sentences.

        Returns:
            The new state, and the attentional state with the weights and the gate.
        """
        state, attended = self._advance(self.project(embedded), state, memory, self._loop())
        gates = self._gates(attended.context.flatten(0, 1), state.hidden[:, -1], embedded)
        return state, Decoded(state.attentional, _rows_of_weights(attended, memory), gates)

    def step_projected(
        self, projected: Tensor, state: DecoderState, memory: Memory
    ) -> tuple[DecoderState, Decoded]:
        """`step` of tokens that `project` was applied to; without gates of copying."""
        state, attended = self._advance(projected, state, memory, self._loop())
        return state, Decoded(state.attentional, _rows_of_weights(attended, memory))

    def project(self, embedded: Tensor) -> Tensor:
        """What embedded tokens (..., e) give the first recurrent layer, (..., `input_size`)."""
        return self._first.project(embedded)

    @property
    def input_size(self) -> int:
        """Numbers that a token gives the first recurrent layer: gates * H."""
        return len(self._first.bias)

    def unroll(
        self,
        embedded: Tensor,
        state: DecoderState,
        memory: Memory,
        *,
        need_weights: bool = False,
    ) -> Decoded:
        """All steps of a known target (teacher forcing).

        Args:
            embedded: The tokens before each step, embedded (B, T, e).
            state: Before the first of these steps, one row a sentence.
            memory: Of the sentences.
            need_weights: Also give the weights over the whole source.

        Returns:
            Attentional states, weights and gates of all steps.
        """
        source_length = memory.mask.shape[1]
        steps = embedded.transpose(0, 1)
        if not self.feeds and not self.attends_first and not self.covers:
            top = self._recurrence(steps, state).transpose(0, 1).to(state.hidden.dtype)
            offsets = torch.arange(len(steps), device=embedded.device)
            positions = state.position.unsqueeze(1) + offsets
            attended = self.attention(top, memory, positions=positions, need_weights=need_weights)
            weights = attended.dense(source_length) if need_weights else None
            combined = torch.tanh(
                linear(torch.cat((attended.context, top), -1), self.combine.weight)
            )
            attentional = dropout(combined.to(top.dtype), self.layer_dropout, self.training)
            return Decoded(attentional, weights, self._gates(attended.context, top, embedded))
        loop = self._loop(state.hidden, len(steps))
        states, rows, contexts, tops = [], [], [], []
        for time, inputs in enumerate(self._first.project(steps).unbind()):
            state, attended = self._advance(inputs, state, memory, loop, time, need_weights)
            states.append(state.attentional)
            if need_weights:
                rows.append(attended.dense(source_length).squeeze(1))
            if self.copy_gate is not None:
                contexts.append(attended.context.squeeze(1))
                tops.append(state.hidden[:, -1])
        gates = None
        if self.copy_gate is not None:
            gates = self._gates(torch.stack(contexts, 1), torch.stack(tops, 1), embedded)
        weights = torch.stack(rows, 1) if need_weights else None
        return Decoded(torch.stack(states, 1), weights, gates)

    def _gates(self, context: Tensor, top: Tensor, embedded: Tensor) -> Tensor | None:
        """Logits (...) of generating, from c_t, h_t and x_t, (..., size) each."""
        if self.copy_gate is None:
            return None
        inputs = torch.cat((context, top, embedded), -1)
        gates = linear(inputs, self.copy_gate.weight, self.copy_gate.bias)
        return gates.squeeze(-1).to(top.dtype)

    def _loop(self, hidden: Tensor | None = None, steps: int = 0) -> _Loop:
        """The weights, and masks for the steps of a training loop that starts from `hidden`."""
        cells = [cast(Cell, cell).loop() for cell in self.cells]
        loop = _Loop(cells, shared(self.combine.weight))
        if hidden is None or not self.training:
            return loop
        if self.layer_dropout:
            shape = (steps, len(hidden), hidden.shape[-1])
            masks = keep_mask(*shape, probability=self.layer_dropout, like=hidden)
            loop = loop._replace(masks=masks.unbind())
        if self.state_dropout:
            mask = keep_mask(*hidden.shape, probability=self.state_dropout, like=hidden)
            loop = loop._replace(state_mask=mask)
        return loop

    def _recurrence(self, steps: Tensor, state: DecoderState) -> Tensor:
        """The top layer's states (T, B, H), where no step needs what attention gave before it."""
        # What runs all steps at once knows neither masks for the states nor int8.
        quantized = isinstance(self._first.early_weight, QuantizedMatrix)
        if quantized or (self.training and self.state_dropout):
            loop = self._loop(state.hidden, len(steps))
            tops = []
            for inputs in self._first.project(steps).unbind():
                state = self._update(inputs, None, state, loop)
                tops.append(state.hidden[:, -1])
            return torch.stack(tops)
        for layer, cell in enumerate(self.cells):
            if layer:
                steps = dropout(steps, self.layer_dropout, self.training)
            start = state.hidden[:, layer], state.cell[:, layer]
            steps = cast(Cell, cell).sequence(steps, *start)
        return steps

    @property
    def _first(self) -> Cell:
        return cast(Cell, self.cells[0])

    def _advance(
        self,
        projected: Tensor,
        state: DecoderState,
        memory: Memory,
        loop: _Loop,
        time: int = 0,
        need_weights: bool = True,
    ) -> tuple[DecoderState, AttentionOutput]:
        """One step from the projected tokens on; `time` counts the steps of the loop."""
        sentences = memory.mask.shape[0]
        positions = state.position.view(sentences, -1)

        coverage = None
        if self.covers:
            coverage = state.coverage.view(sentences, -1, state.coverage.shape[-1])

        def attend(hidden: Tensor) -> AttentionOutput:
            query = hidden[:, -1].view(sentences, -1, hidden.shape[-1])
            return self.attention(  # type: ignore[no-any-return]
                query,
                memory,
                positions=positions,
                coverage=coverage,
                need_weights=need_weights or self.covers,
            )

        if self.attends_first:
            attended = attend(state.hidden)
            state = self._update(projected, attended.context.flatten(0, 1), state, loop)
        else:
            state = self._update(projected, None, state, loop)
            attended = attend(state.hidden)
        hidden = state.hidden[:, -1]
        # h~ = tanh(W_c [c; h]) (Luong 2015, equation 5).
        combined = loop.combine.product(attended.context.flatten(0, 1), hidden)
        attentional = torch.tanh(combined).to(hidden.dtype)
        if loop.masks is None:
            attentional = dropout(attentional, self.layer_dropout, self.training)
        else:
            attentional = attentional * loop.masks[time]
        state = state._replace(attentional=attentional, position=state.position + 1)
        if coverage is not None and attended.weights is not None:
            state = state._replace(coverage=(coverage + attended.weights).flatten(0, 1))
        return state, attended

    def _update(
        self, projected: Tensor, context: Tensor | None, state: DecoderState, loop: _Loop
    ) -> DecoderState:
        """The recurrent layers alone."""
        late = [state.attentional] if self.feeds else []
        if context is not None:
            late.append(context)
        hidden = state.hidden if loop.state_mask is None else state.hidden * loop.state_mask
        hiddens: list[Tensor] = []
        cells: list[Tensor] = []
        for layer, step in enumerate(loop.cells):
            if layer:
                late = [dropout(hiddens[-1], self.layer_dropout, self.training)]
                projected = cast(Cell, self.cells[layer]).project(late[0][:, :0])
            new_hidden, new_cell = step(projected, late, hidden[:, layer], state.cell[:, layer])
            hiddens.append(new_hidden)
            cells.append(new_cell)
        return state._replace(hidden=_stacked(hiddens), cell=_stacked(cells))


def _rows_of_weights(attended: AttentionOutput, memory: Memory) -> Tensor:
    """The weights of a step over the whole source (rows, S)."""
    return attended.dense(memory.mask.shape[1]).flatten(0, 1)


def _stacked(layers: list[Tensor]) -> Tensor:
    """(rows, L, H), a view where there is one layer."""
    return layers[0].unsqueeze(1) if len(layers) == 1 else torch.stack(layers, 1)
