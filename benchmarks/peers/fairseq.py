"""fairseq, https://github.com/facebookresearch/fairseq: its `lstm`, a dot of a projected query."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.toolkit import LOG_EVERY, LONGEST, Command, Search, Toolkit

SPLITS = ("test_2016_flickr", "first200", "first8")
"""What it calls test, test1 and test2."""


class Fairseq(Toolkit):
    """Batches of 64 near in length; it translates what it has binarised."""

    name = "fairseq"
    rate_pattern = r"\bwps=([\d.]+)"
    seconds_pattern = r"Translated .* in ([\d.]+)s"

    def preparation(self) -> Command | None:
        if (self.run / "binary").exists():
            return None
        vocabulary = str(self.data / "vocabulary.fairseq")
        return Command([
            self.program("fairseq-preprocess"), "-s", "en", "-t", "de",
            "--trainpref", str(self.data / "train.sp"), "--validpref", str(self.data / "val.sp"),
            "--testpref", ",".join(f"{self.data}/{split}.sp" for split in SPLITS),
            "--srcdict", vocabulary, "--tgtdict", vocabulary,
            "--destdir", str(self.run / "binary"), "--workers", "1",
        ])  # fmt: skip

    def train(self, updates: int) -> Command:
        options = (
            "--cpu --arch lstm --encoder-bidirectional --encoder-layers 1 --decoder-layers 1 "
            "--encoder-embed-dim 256 --encoder-hidden-size 256 --decoder-embed-dim 256 "
            "--decoder-hidden-size 512 --decoder-out-embed-dim 512 --decoder-attention 1 "
            "--dropout 0.3 --criterion cross_entropy --optimizer adam --lr 0.001 --clip-norm 1 "
            "--batch-size 64 --num-workers 0 --seed 1 --log-format simple --disable-validation "
            f"--no-epoch-checkpoints --log-interval {LOG_EVERY} --max-update {updates}"
        ).split()
        folders = [str(self.run / "binary"), "--save-dir", str(self.run)]
        return Command([self.program("fairseq-train"), *folders, *options])

    def translate(self, search: Search, output: Path) -> Command:
        place = SPLITS.index(search.split)
        subset = f"test{place or ''}"
        model = str(self.run / "checkpoint_last.pt")
        options = (
            f"--cpu -s en -t de --gen-subset {subset} --beam {search.beam} "
            f"--batch-size {search.batch} --max-len-a 0 --max-len-b {LONGEST} --num-workers 0"
        ).split()
        binary = str(self.run / "binary")
        generate = [self.program("fairseq-generate"), binary, "--path", model, *options]
        lines = len((self.data / f"{search.split}.en").read_text().splitlines())
        # It leaves a sentence out now and then: an empty line in its place.
        fill = f"{{text[$1] = $3}} END {{for (i = 0; i < {lines}; i++) print text[i]}}"
        found = f"grep '^H-' \"$0.all\" | cut -c3- | awk -F '\\t' '{fill}' > \"$0\""
        script = f'"$@" > "$0.all" && {found}'
        return Command(["bash", "-c", f'{script}; cat "$0.all"', str(output), *generate])
