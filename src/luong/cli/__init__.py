"""The command line: one file for each verb; a verb parses, and calls a plain function.

Nothing heavy is imported here, so that `luong --help` answers at once. Exit codes: 0 done, 1 a
mistake in what was given, 2 wrong options, 130 interrupted.
"""

from __future__ import annotations

import ctypes
import logging
import os
import sys
from io import TextIOWrapper

import typer

from luong.cli.bench import bench
from luong.cli.caption import caption
from luong.cli.classify import classify
from luong.cli.demo import demo
from luong.cli.evaluate import evaluate
from luong.cli.init import init
from luong.cli.quantize import quantize
from luong.cli.reproduce import reproduce
from luong.cli.shortlist import shortlist
from luong.cli.train import train
from luong.cli.translate import translate
from luong.errors import UserError

app = typer.Typer(
    help="Train, use and look into sequence models with attention.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
for verb in (
    init,
    train,
    translate,
    classify,
    caption,
    evaluate,
    quantize,
    shortlist,
    demo,
    bench,
    reproduce,
):
    app.command()(verb)


_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # Numbers of glibc's mallopt.


def _keep_freed_memory() -> None:
    """Have glibc keep for the next step what one frees; up to a tenth of a step goes into asking.

    By default large blocks are handed back, and the system gives them again page by page.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    if mallopt is not None and not any(name.startswith("MALLOC_") for name in os.environ):
        mallopt(_TRIM_THRESHOLD, 2**31 - 1)
        mallopt(_MMAP_THRESHOLD, 2**30)


def main() -> None:
    """Run a verb; mistakes of users end in one sentence and exit code 1."""
    if "OMP_WAIT_POLICY" not in os.environ:
        # By default threads of torch that wait keep their cores busy for milliseconds, which other
        # threads then lack, and other programs most of all. Read when torch is first imported.
        os.environ.setdefault("GOMP_SPINCOUNT", "10000")
    _keep_freed_memory()
    logging.basicConfig(format="%(message)s", level=logging.WARNING, stream=sys.stderr)
    if isinstance(sys.stdout, TextIOWrapper):
        # Letters that the terminal or the log cannot hold must not end a run.
        sys.stdout.reconfigure(errors="replace")
    try:
        app()
    except UserError as error:
        sys.exit(f"luong: {error}")
    except BrokenPipeError:
        # The reader of our output has gone; Python would complain once more while it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(1)
