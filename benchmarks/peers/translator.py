"""Times a translator that has no such measure of its own, once it is loaded and warm.

    python translator.py luong|marian MODEL BEAM BATCH SOURCE OUTPUT

MODEL is luong's folder, or Marian's options; a batch of 1 means one sentence a call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path


def luong_translator(folder: str, beam: int, batch: int) -> Callable[[list[str]], list[str]]:
    import luong

    translator = luong.load(folder)

    def translate(lines: list[str]) -> list[str]:
        found = translator.translate(lines, beam_size=beam, batch_size=batch)
        return [translation.text for translation in found]

    return translate


def marian_translator(options: str, beam: int, batch: int) -> Callable[[list[str]], list[str]]:
    import pymarian

    translator = pymarian.Translator(options)
    return lambda lines: list(translator.translate(lines))


def main() -> None:
    kind, model, beam, batch, source, output = sys.argv[1:]
    load = luong_translator if kind == "luong" else marian_translator
    translate = load(model, int(beam), int(batch))
    lines = Path(source).read_text().splitlines()
    one_by_one = int(batch) == 1
    warm_up = lines[:8]
    for line in warm_up if one_by_one else ():
        translate([line])
    translate(warm_up)
    start = time.perf_counter()
    found = [translate([line])[0] for line in lines] if one_by_one else translate(lines)
    print(f"seconds {time.perf_counter() - start:.4f}")
    Path(output).write_text("".join(f"{line}\n" for line in found))


if __name__ == "__main__":
    main()
