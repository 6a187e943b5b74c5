"""Make a caption corpus of Google's Noto emoji and their Unicode names.

The source folder holds `images32.npz` (an array `images`, uint8, N x 32 x 32 x 3) and
`captions.tsv.gz` (a header; columns index, split, codepoints, subcategory, and a caption in each
of the languages en, de, fr, es, it). For each of the splits train, dev and test the output folder
gets a manifest for `luong train`, with PNG files in `pictures/` or, with --npz, one array a split:

    python examples/emoji_captions.py SOURCE corpus --without-flags
    luong init --preset captions > run.toml     # and put corpus/train.tsv, corpus/dev.tsv in
    luong train run.toml
"""

from __future__ import annotations

import argparse
import csv
import gzip
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image

LANGUAGES = ("en", "de", "fr", "es", "it")
SPLITS = ("train", "dev", "test")


def read_rows(source: Path, *, without_flags: bool) -> list[dict[str, str]]:
    """The rows of the source folder, those of countries' flags left out if asked for."""
    with gzip.open(source / "captions.tsv.gz", "rt", encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file, delimiter="\t", quoting=csv.QUOTE_NONE))
    return [row for row in rows if not (without_flags and row["subcategory"] == "country-flag")]


def write_split(
    output: Path,
    split: str,
    rows: Sequence[Mapping[str, str]],
    images: npt.NDArray[np.uint8],
    *,
    language: str,
    as_array: bool,
) -> None:
    """Write the manifest of a split and its pictures."""
    chosen = [row for row in rows if row["split"] == split and row[language].strip()]
    names = [f"pictures/{row['codepoints']}.png" for row in chosen]
    if as_array:
        names = [str(number) for number in range(len(chosen))]
        array = images[[int(row["index"]) for row in chosen]]
        np.savez_compressed(output / f"{split}.npz", images=array)
    else:
        for row, name in zip(chosen, names, strict=True):
            Image.fromarray(images[int(row["index"])]).save(output / name)
    lines = [f"{name}\t{row[language]}\n" for row, name in zip(chosen, names, strict=True)]
    (output / f"{split}.tsv").write_text("".join(lines), encoding="utf-8")
    print(f"{split}: {len(chosen):,} pictures")


def main() -> None:
    """Read the arguments and write all splits."""
    parser = argparse.ArgumentParser(description="Emoji and their names as a caption corpus.")
    parser.add_argument("source", type=Path, help="the folder with images32.npz")
    parser.add_argument("output", type=Path, help="the folder to write")
    parser.add_argument("--language", choices=LANGUAGES, default="en")
    parser.add_argument(
        "--without-flags",
        action="store_true",
        help="leave out flags of countries, whose names nobody can guess",
    )
    parser.add_argument("--npz", action="store_true", help="one array a split in place of PNGs")
    arguments = parser.parse_args()
    output: Path = arguments.output
    (output if arguments.npz else output / "pictures").mkdir(parents=True, exist_ok=True)
    rows = read_rows(arguments.source, without_flags=arguments.without_flags)
    with np.load(arguments.source / "images32.npz") as archive:
        images = archive["images"]
    for split in SPLITS:
        write_split(
            output, split, rows, images, language=arguments.language, as_array=arguments.npz
        )


if __name__ == "__main__":
    main()
