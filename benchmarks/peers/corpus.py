"""Multi30k in the form that each toolkit reads: one SentencePiece model, four spellings of it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import sentencepiece

SPLITS = ("train", "val", "test_2016_flickr")
SPECIAL_PIECES = ("<pad>", "<unk>", "<s>", "</s>")


def prepare(multi30k: Path, data: Path) -> None:
    """Unpack the texts, learn 8,000 pieces from the training set, and cut every text into them.

    Args:
        multi30k: A folder with {train,val,test_2016_flickr}.{en,de}, or the same as .gz: the files
            of github.com/multi30k/dataset, data/task1/raw.
        data: Where to write.
    """
    data.mkdir(parents=True, exist_ok=True)
    for name in (f"{split}.{language}" for split in SPLITS for language in ("en", "de")):
        packed = multi30k / f"{name}.gz"
        text = gzip.decompress(packed.read_bytes()) if packed.exists() else None
        (data / name).write_bytes(text or (multi30k / name).read_bytes())
    sentencepiece.SentencePieceTrainer.train(
        input=f"{data}/train.en,{data}/train.de",
        model_prefix=f"{data}/spm",
        vocab_size=8000,
        model_type="unigram",
        character_coverage=1.0,
        pad_id=0,
        unk_id=1,
        bos_id=2,
        eos_id=3,
        num_threads=2,
        minloglevel=2,
    )
    processor = sentencepiece.SentencePieceProcessor(model_file=f"{data}/spm.model")
    for language in ("en", "de"):
        for split in SPLITS:
            lines = (data / f"{split}.{language}").read_text().splitlines()
            cut = [" ".join(processor.encode(line.strip(), out_type=str)) for line in lines]
            _write(data / f"{split}.sp.{language}", cut)
            print(f"{split}.{language}: {len(lines):,} lines, {sum(map(_pieces, cut)):,} pieces")
        for kind in ("", ".sp"):
            lines = (data / f"test_2016_flickr{kind}.{language}").read_text().splitlines()
            for count in (200, 8):
                _write(data / f"first{count}{kind}.{language}", lines[:count])
    pieces = [processor.id_to_piece(place) for place in range(processor.get_piece_size())]
    pieces = [piece for piece in pieces if piece not in SPECIAL_PIECES]
    _write(data / "vocabulary.joeynmt", pieces)
    _write(data / "vocabulary.opennmt", [f"{piece}\t1" for piece in pieces])
    _write(data / "vocabulary.fairseq", [f"{piece} 1" for piece in pieces])
    ranked = ["</s>", "<unk>", *pieces]
    keys = (json.dumps(piece, ensure_ascii=False) for piece in ranked)
    _write(data / "vocabulary.marian.yml", [f"{key}: {rank}" for rank, key in enumerate(keys)])


def joined(pieces: str) -> str:
    """Pieces, separated by spaces, as the text they stand for."""
    return pieces.replace(" ", "").replace("▁", " ").strip()


def _pieces(line: str) -> int:
    return line.count(" ") + 1


def _write(path: Path, lines: list[str]) -> None:
    path.write_text("".join(f"{line}\n" for line in lines))
