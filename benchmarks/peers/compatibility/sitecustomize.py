"""Lets toolkits written for torch 2.2 run on a newer one; Python imports this from PYTHONPATH.

Their checkpoints hold objects, which torch.load refuses by default since 2.6; JoeyNMT gives a
scheduler `verbose`, which is gone; OpenNMT-py imports spacy and fasttext without using them here.
"""

import functools
import importlib.util
import sys
import types

for name in ("spacy", "fasttext"):
    if importlib.util.find_spec(name) is None:
        sys.modules[name] = types.ModuleType(name)
if importlib.util.find_spec("torch") is not None:
    import torch

    torch.load = functools.partial(torch.load, weights_only=False)

    class _Plateau(torch.optim.lr_scheduler.ReduceLROnPlateau):
        def __init__(self, *arguments, verbose=None, **options):
            super().__init__(*arguments, **options)

    torch.optim.lr_scheduler.ReduceLROnPlateau = _Plateau
