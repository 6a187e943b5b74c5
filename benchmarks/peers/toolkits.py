"""All toolkits, by name."""

from __future__ import annotations

from benchmarks.peers.fairseq import Fairseq
from benchmarks.peers.joeynmt import JoeyNMT
from benchmarks.peers.loops import Plain, PlainBFloat16, PlainOneDNN
from benchmarks.peers.marian import Marian
from benchmarks.peers.opennmt import OpenNMT
from benchmarks.peers.toolkit import Toolkit
from benchmarks.peers.trainer import (
    Luong,
    LuongAuto,
    LuongInt8,
    LuongInt8Shortlist,
    LuongShortlist,
)

TOOLKITS: dict[str, type[Toolkit]] = {
    kind.name: kind
    for kind in (
        *(OpenNMT, Fairseq, JoeyNMT, Marian),
        *(Plain, PlainOneDNN, PlainBFloat16),
        *(Luong, LuongAuto, LuongInt8, LuongShortlist, LuongInt8Shortlist),
    )
}
