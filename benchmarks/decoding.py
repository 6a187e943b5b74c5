"""Decoding beside a plain PyTorch loop with the same weights and the same number of steps.

    python -m benchmarks.decoding [--threads 2] [--rounds 9] [--processor] [--output PAGE]

The plain loop is that of `benchmarks/peers/plain.py`, whose model gets luong's weights; a matrix
from the encoder's last state to the decoder's first is put into it, as luong has one. No output
ends before the last step. Calls take turns, each round in another order; encoding is in the times.
First the two are held together: greedy search must give the same tokens, and the plain model the
same log-probability for what luong's beams found.
"""

from __future__ import annotations

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from pathlib import Path
from typing import cast

import torch
from benchmarks.page import put_section, table
from benchmarks.peers import plain
from benchmarks.synthetic import TABLES, make_batch, make_model
from torch import Tensor, nn

from luong.benchmark.machine import description
from luong.benchmark.timing import PAUSE
from luong.models import Seq2Seq
from luong.models.quantized import quantize
from luong.search.beam import Hypothesis, beam_search

CHAPTER = "Decoding"
TITLE = "Beside a plain loop"
SOURCE, STEPS, VOCABULARY, HIDDEN = 16, 17, 8000, 512
SEARCHES = (("greedy", 1, 1), ("beam 5", 5, 1), ("beam 5", 5, 32))
KINDS = ("plain loop", "luong, float32", "luong, int8")


class Bridged(plain.Translator):
    """The plain model with luong's way from the encoder to the decoder."""

    def __init__(self) -> None:
        super().__init__(VOCABULARY, hidden=HIDDEN)
        self.bridge = nn.Linear(HIDDEN, 2 * HIDDEN)

    def encode(self, source: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, Tensor]]:
        memory, (hidden, _) = super().encode(source)
        hidden, cell = self.bridge(hidden).chunk(2, 1)
        return memory, (torch.tanh(hidden), cell)


@torch.no_grad()
def plain_with_weights_of(model: Seq2Seq) -> Bridged:
    """The plain model with the weights of one of `make_model`."""
    weights = model.state_dict()
    late = weights["decoder.cells.0.late_weight"]
    bias = weights["decoder.cells.0.bias"]
    found = {
        "source_embedding.weight": weights["source_embedding.weight"],
        "target_embedding.weight": weights["target_embedding.weight"],
        "cell.weight_ih": torch.cat((weights["decoder.cells.0.early_weight"], late[:, :HIDDEN]), 1),
        "cell.weight_hh": late[:, HIDDEN:],
        "cell.bias_ih": bias,
        "cell.bias_hh": torch.zeros_like(bias),
        "key.weight": weights["decoder.attention.score.weight"],
        "combine.weight": weights["decoder.combine.weight"],
        "bridge.weight": weights["decoder.bridge.layers.0.weight"],
        "bridge.bias": weights["decoder.bridge.layers.0.bias"],
        "output.weight": weights["output.logits.weight"],
        "output.bias": weights["output.logits.bias"],
    }
    for direction, suffix in enumerate(("", "_reverse")):
        for name in ("weight_ih_l0", "weight_hh_l0", "bias_ih_l0", "bias_hh_l0"):
            found[f"encoder.{name}{suffix}"] = weights[f"encoder.layers.0.{direction}.{name}"]
    made = Bridged()
    made.load_state_dict(found)
    return made.eval()


def plain_search(model: Bridged, source: Tensor, beam: int) -> list[list[int]]:
    if beam == 1:
        return plain.greedy(model, source)
    return plain.beam_search(model, source, beam)


def luong_search(model: Seq2Seq, source: Tensor, beam: int) -> list[Hypothesis]:
    memory, state = model.encode(source, torch.full((len(source),), SOURCE))
    limits = torch.full((len(source),), STEPS - 1)
    step = TABLES.step(model)
    found = beam_search(step, state, memory, beam_size=beam, max_lengths=limits)
    return [hypotheses[0] for hypotheses in found]


def check(model: Seq2Seq, source: Tensor) -> str:
    """Hold the two together, and say how near they are.

    Raises:
        RuntimeError: They differ by more than rounding.
    """
    model = copy.deepcopy(model)
    model.output.logits.bias[plain.END] = -20.0  # the size it has would hide what differs
    loop = plain_with_weights_of(model)
    # The last token of the plain loop stands where luong's outputs are made to end.
    chains = [row[: STEPS - 1] for row in plain_search(loop, source, 1)]
    greedy = [hypothesis.ids for hypothesis in luong_search(model, source, 1)]
    same = sum(a == b for a, b in zip(chains, greedy, strict=True))
    found = luong_search(model, source, 5)
    outputs = torch.tensor([[*hypothesis.ids, plain.END] for hypothesis in found])
    inputs = torch.cat((torch.full((len(outputs), 1), plain.BEGIN), outputs[:, :-1]), 1)
    logs = loop(source, inputs).log_softmax(-1).gather(2, outputs.unsqueeze(2)).sum((1, 2))
    scores = torch.tensor([hypothesis.log_probability for hypothesis in found])
    apart = float(((logs - scores) / logs).abs().max())
    if same < 0.95 * len(greedy) or apart > 1e-5:
        raise RuntimeError(
            f"{same} of {len(greedy)} greedy outputs are the same, and the log-probabilities of "
            f"beam search are {apart:.1e} of their size apart: the two are not the same model."
        )
    return (
        f"Checked on {len(greedy)} sentences: {same} greedy outputs are the plain loop's to the "
        "last token (others: a tie), and log-probabilities of beam search differ by at most "
        f"{apart:.0e} of their size."
    )


def searches(
    loop: Bridged, model: Seq2Seq, narrow: Seq2Seq, source: Tensor, beam: int
) -> dict[str, Callable[[], object]]:
    """What is timed."""
    return {
        KINDS[0]: lambda: plain_search(loop, source, beam),
        KINDS[1]: lambda: luong_search(model, source, beam),
        KINDS[2]: lambda: luong_search(narrow, source, beam),
    }


def measure(
    calls: dict[str, Callable[[], object]], rounds: int, clock: Callable[[], float]
) -> dict[str, list[float]]:
    """Milliseconds a call, by turns."""
    found: dict[str, list[float]] = {name: [] for name in calls}
    names = list(calls)
    for call in calls.values():
        call()
    for number in range(rounds):
        turn = number % len(names)
        for name in names[turn:] + names[:turn]:
            time.sleep(PAUSE)
            begin = clock()
            calls[name]()
            found[name].append(1e3 * (clock() - begin))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=9)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument(
        "--processor",
        action="store_true",
        help="processor time in place of the clock, for a machine that others use",
    )
    parser.add_argument("--output", type=Path, help="a page whose section is replaced")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    plain.LONGEST = STEPS
    torch.manual_seed(1)
    model = make_model().eval()
    rows = []
    with torch.inference_mode():
        checked = check(model, make_batch(64, SOURCE, STEPS, VOCABULARY).source)
        loop, narrow = plain_with_weights_of(model), cast(Seq2Seq, copy.deepcopy(model))
        quantize(narrow)
        for name, beam, sentences in SEARCHES:
            source = make_batch(sentences, SOURCE, STEPS, VOCABULARY).source
            calls = searches(loop, model, narrow, source, beam)
            clock = time.process_time if options.processor else time.perf_counter
            times = measure(calls, options.rounds, clock)
            rows.append(_row(f"{name}, {sentences} sentence{'s' * (sentences > 1)}", times))
    headings = ["search", KINDS[0], KINDS[1], "times as fast", KINDS[2], "times as fast"]
    machine = description(options.threads)
    about = "; ".join(machine[key] for key in ("processor", "instructions", "versions", "date"))
    text = (
        f"Milliseconds of {'processor time of ' * options.processor}a search of {STEPS} steps, "
        f"sources of {SOURCE} tokens, encoding included.\n\n"
        f"{table(headings, rows)}\n\n{checked}\n\n"
        f"Medians of {options.rounds} rounds (least-most); {options.threads} threads; {about}."
    )
    print(text)
    if options.output:
        put_section(options.output, CHAPTER, TITLE, text)


def _row(name: str, times: dict[str, list[float]]) -> list[str]:
    cells = [name]
    base = statistics.median(times[KINDS[0]])
    for kind in KINDS:
        median = statistics.median(times[kind])
        cells.append(f"{median:.1f} ({min(times[kind]):.1f}-{max(times[kind]):.1f})")
        if kind != KINDS[0]:
            cells.append(f"**{base / median:.2f}**")
    return cells


if __name__ == "__main__":
    main()
