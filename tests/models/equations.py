"""One decoder step from the equations, in plain numpy, a row at a time."""

from typing import NamedTuple

import numpy as np


class Row(NamedTuple):
    """The state of one row: a list entry a layer."""

    hidden: list[np.ndarray]
    cell: list[np.ndarray]
    attentional: np.ndarray
    position: int


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def first_row(weights, config, final):
    """hidden = tanh(W_h f + b_h), cell = W_c f + b_c; f of the layer beside, tops level."""
    size = config.hidden_size
    hidden, cell = [], []
    for layer in range(config.decoder_layers):
        level = layer + max(0, config.encoder_layers - config.decoder_layers)
        f = final[min(level, config.encoder_layers - 1)]
        both = weights[f"bridge.layers.{layer}.weight"] @ f + weights[f"bridge.layers.{layer}.bias"]
        hidden.append(np.tanh(both[:size]))
        cell.append(both[size:])
    return Row(hidden, cell, np.zeros(size), 0)


def updated(weights, prefix, early, late, hidden, cell):
    """An LSTM or a GRU cell; only a GRU has weights of the hidden state alone."""
    gates = weights[f"{prefix}.early_weight"] @ early + weights[f"{prefix}.bias"]
    if f"{prefix}.hidden_weight" not in weights:
        gates = gates + weights[f"{prefix}.late_weight"] @ np.concatenate([late, hidden])
        entry, forget, candidate, out = np.split(gates, 4)
        cell = sigmoid(forget) * cell + sigmoid(entry) * np.tanh(candidate)
        return sigmoid(out) * np.tanh(cell), cell
    gates = gates + weights[f"{prefix}.late_weight"] @ late
    recurrent = weights[f"{prefix}.hidden_weight"] @ hidden + weights[f"{prefix}.hidden_bias"]
    reset, update, new = np.split(gates, 3)
    from_reset, from_update, from_new = np.split(recurrent, 3)
    update = sigmoid(update + from_update)
    new = np.tanh(new + sigmoid(reset + from_reset) * from_new)
    return (1 - update) * new + update * hidden, cell


def scored(weights, score, query, keys):
    """Scores of all keys (S,)."""
    name = "attention.score."
    if score == "dot":
        return keys @ query
    if score == "scaled-dot":
        return keys @ query / np.sqrt(len(query))
    if score == "general":
        return keys @ (query @ weights[name + "weight"])
    if score == "location":
        return weights[name + "weight"][: len(keys)] @ query
    v = weights[name + "weight_vector"]
    if score == "concat":
        return np.array(
            [v @ np.tanh(weights[name + "weight"] @ np.concatenate([query, k])) for k in keys]
        )
    query = weights[name + "query_weight"] @ query + weights[name + "bias"]
    return np.array([v @ np.tanh(query + weights[name + "key_weight"] @ k) for k in keys])


def attended(weights, options, query, keys, position):
    """Context, and weights over the source (S,)."""
    if options.score == "none":
        return np.zeros(0), np.zeros(len(keys))
    source, length, width = np.arange(len(keys)), len(keys), options.half_width
    seen, gaussian = np.ones(length, bool), 1.0
    if options.window == "local-m":
        seen = abs(source - min(position, length - 1)) <= width
    elif options.window == "local-p":
        hidden = np.tanh(weights["attention.window.weight"] @ query)
        point = length * sigmoid(weights["attention.window.weight_vector"] @ hidden)
        seen = abs(source - min(int(point), length - 1)) <= width
        gaussian = np.exp(-((source - point) ** 2) / (2 * (width / 2) ** 2))
    exponentials = np.where(seen, np.exp(scored(weights, options.score, query, keys)), 0.0)
    distribution = exponentials / exponentials.sum() * gaussian
    return distribution @ keys, distribution


def stepped(weights, config, embedded, row, keys):
    """One step of one row: the new row, and its weights over its own source."""
    options = config.attention
    fed = [row.attentional] if options.input_feeding else []
    if options.placement == "bahdanau":
        context, distribution = attended(weights, options, row.hidden[-1], keys, row.position)
        fed.append(context)
    hidden, cell = [], []
    for layer in range(config.decoder_layers):
        early = np.zeros(0) if layer else embedded
        late = hidden[-1] if layer else np.concatenate([np.zeros(0), *fed])
        state = updated(weights, f"cells.{layer}", early, late, row.hidden[layer], row.cell[layer])
        hidden.append(state[0])
        cell.append(state[1])
    if options.placement == "luong":
        context, distribution = attended(weights, options, hidden[-1], keys, row.position)
    attentional = np.tanh(weights["combine.weight"] @ np.concatenate([context, hidden[-1]]))
    return Row(hidden, cell, attentional, row.position + 1), distribution
