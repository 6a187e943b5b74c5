"""JoeyNMT, https://github.com/joeynmt/joeynmt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchmarks.peers.toolkit import LOG_EVERY, LONGEST, Command, Search, Toolkit


class JoeyNMT(Toolkit):
    """Batches of 64 at random, so that it pads twice as much; raw text in and out."""

    name = "joeynmt"
    writes_pieces = False
    rate_pattern = r"Tokens per Sec:\s*([\d.]+)"
    seconds_pattern = r"Generation took ([\d.]+)"

    def config(self, updates: int, search: Search) -> dict[str, Any]:
        side = {
            "max_length": LONGEST,
            "lowercase": False,
            "normalize": False,
            "level": "bpe",
            "voc_file": str(self.data / "vocabulary.joeynmt"),
            "tokenizer_type": "sentencepiece",
            "tokenizer_cfg": {"model_file": str(self.data / "spm.model")},
        }
        special = {"unk": "<unk>", "pad": "<pad>", "bos": "<s>", "eos": "</s>"}
        symbols = {f"{key}_token": piece for key, piece in special.items()}
        numbers = {f"{key}_id": number for number, key in enumerate(special)}
        recurrent = {
            "type": "recurrent",
            "rnn_type": "lstm",
            "embeddings": {"embedding_dim": 256, "scale": False},
            "dropout": 0.3,
            "num_layers": 1,
            "freeze": False,
        }
        return {
            "name": "luong",
            "joeynmt_version": "2.3.0",
            "model_dir": str(self.model),
            "use_cuda": False,
            "fp16": False,
            "random_seed": 1,
            "data": {
                "train": str(self.data / "train"),
                "dev": str(self.data / "first200"),
                "test": str(self.data / "test_2016_flickr"),
                "dataset_type": "plain",
                "src": {"lang": "en", **side},
                "trg": {"lang": "de", **side},
                "special_symbols": {**symbols, **numbers},
            },
            "testing": {
                "n_best": 1,
                "beam_size": search.beam,
                "beam_alpha": 1.0,
                "batch_size": search.batch,
                "batch_type": "sentence",
                "max_output_length": LONGEST,
                "eval_metrics": ["bleu"],
                "sacrebleu_cfg": {"tokenize": "13a", "lowercase": False},
            },
            "training": {
                "optimizer": "adam",
                "learning_rate": 0.001,
                "clip_grad_norm": 1.0,
                "normalization": "tokens",
                "scheduling": "plateau",
                "patience": 5,
                "decrease_factor": 0.5,
                "loss": "crossentropy",
                "label_smoothing": 0.0,
                "batch_size": 64,
                "batch_type": "sentence",
                "early_stopping_metric": "loss",
                "epochs": 100,
                "updates": updates,
                "validation_freq": updates,
                "logging_freq": LOG_EVERY,
                "overwrite": True,
                "shuffle": True,
                "num_workers": 0,
                "print_valid_sents": [0],
                "keep_best_ckpts": 1,
            },
            "model": {
                "initializer": "xavier_uniform",
                "embed_initializer": "normal",
                "embed_init_weight": 0.1,
                "bias_initializer": "zeros",
                "init_rnn_orthogonal": False,
                "lstm_forget_gate": 0.0,
                "tied_embeddings": False,
                "tied_softmax": False,
                "encoder": {**recurrent, "hidden_size": 256, "bidirectional": True},
                "decoder": {
                    **recurrent,
                    "hidden_size": 512,
                    "hidden_dropout": 0.3,
                    "input_feeding": True,
                    "init_hidden": "bridge",
                    "attention": "luong",
                },
            },
        }

    def train(self, updates: int) -> Command:
        config = self.settings("train.yaml", self.config(updates, Search(1, 32, "first200")))
        words = [self.program("python"), "-m", "joeynmt", "train", "--skip-test", config]
        return Command(words)

    def translate(self, search: Search, output: Path) -> Command:
        config = self.settings("translate.yaml", self.config(LOG_EVERY, search))
        # Its own -o fails in 2.3.0 after the translation.
        script = f'"$@" < "{self.data}/{search.split}.en" > "$0"'
        words = [self.program("python"), "-m", "joeynmt", "translate", config]
        return Command(["bash", "-c", script, str(output), *words])
