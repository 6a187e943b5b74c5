"""Times a translator that has no such measure of its own, once it is loaded and warm.

    python translator.py KIND MODEL BEAM BATCH SOURCE OUTPUT

KIND is marian, or luong with -int8, -shortlist or both. MODEL is luong's folder, or Marian's
options; a batch of 1 means one sentence a call.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path


def luong_translator(
    kind: str, folder: str, beam: int, batch: int
) -> Callable[[list[str]], list[str]]:
    import luong

    translator = luong.load(folder, int8="int8" in kind)
    shortlist = "shortlist" in kind

    def translate(lines: list[str]) -> list[str]:
        found = translator.translate(lines, beam_size=beam, batch_size=batch, shortlist=shortlist)
        return [translation.text for translation in found]

    return translate


def marian_translator(
    kind: str, options: str, beam: int, batch: int
) -> Callable[[list[str]], list[str]]:
    import pymarian

    translator = pymarian.Translator(options)
    return lambda lines: list(translator.translate(lines))


def main() -> None:
    kind, model, beam, batch, source, output = sys.argv[1:]
    load = marian_translator if kind == "marian" else luong_translator
    translate = load(kind, model, int(beam), int(batch))
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
