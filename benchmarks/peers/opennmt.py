"""OpenNMT-py, https://github.com/OpenNMT/OpenNMT-py."""

from __future__ import annotations

from pathlib import Path

from benchmarks.peers.toolkit import LOG_EVERY, LONGEST, Command, Search, Toolkit


class OpenNMT(Toolkit):
    """Batches of 64 near in length; its beam search ranks by mean log-probability."""

    name = "opennmt"
    rate_pattern = r"/\s*([\d.]+) tok/s"
    seconds_pattern = r"Average translation time \(ms\): ([\d.]+)"

    def train(self, updates: int) -> Command:
        vocabulary = str(self.data / "vocabulary.opennmt")
        texts = {
            f"path_{side}": str(self.data / f"train.sp.{language}")
            for side, language in (("src", "en"), ("tgt", "de"))
        }
        table = {
            "save_data": str(self.run / "samples"),
            "src_vocab": vocabulary,
            "tgt_vocab": vocabulary,
            "src_vocab_size": 8000,
            "tgt_vocab_size": 8000,
            "share_vocab": False,
            "data": {"corpus_1": {**texts, "transforms": ["filtertoolong"], "weight": 1}},
            "src_seq_length": LONGEST,
            "tgt_seq_length": LONGEST,
            "save_model": str(self.model),
            "world_size": 1,
            "num_workers": 0,
            "seed": 1,
            "model_type": "text",
            "encoder_type": "brnn",
            "decoder_type": "rnn",
            "rnn_type": "LSTM",
            "word_vec_size": 256,
            "hidden_size": 512,
            "layers": 1,
            "input_feed": 1,
            "global_attention": "general",
            "global_attention_function": "softmax",
            "dropout": [0.3],
            "bridge": False,
            "batch_type": "sents",
            "batch_size": 64,
            "bucket_size": 29000,
            "normalization": "tokens",
            "accum_count": [1],
            "optim": "adam",
            "learning_rate": 0.001,
            "max_grad_norm": 1,
            "param_init": 0.1,
            "train_steps": updates,
            "valid_steps": 10_000_000,
            "save_checkpoint_steps": self.every or updates,
            "keep_checkpoint": -1 if self.every else 1,
            "report_every": LOG_EVERY,
        }
        config = self.settings("train.yaml", table)
        return Command([self.program("python"), "-m", "onmt.bin.train", "-config", config])

    def checkpoints(self) -> list[Path]:
        paths = self.run.glob("model_step_*.pt")
        return sorted(paths, key=lambda path: path.stat().st_mtime)

    def translate(self, search: Search, output: Path) -> Command:
        options = {
            "model": self.checkpoint or self.checkpoints()[-1],
            "src": self.data / f"{search.split}.sp.en",
            "output": output,
            "beam_size": search.beam,
            "batch_size": search.batch,
            "batch_type": "sents",
            "max_length": LONGEST,
            "length_penalty": "avg",
            "gpu": -1,
        }
        words = [word for key, value in options.items() for word in (f"-{key}", str(value))]
        module = ["-m", "onmt.bin.translate", "-report_time"]
        return Command([self.program("python"), *module, *words])

    def seconds(self, log: str, lines: int) -> float:
        return super().seconds(log, lines) * lines / 1000
