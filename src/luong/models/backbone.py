"""A picture encoder's backbone from torchvision, where the user has it."""

from __future__ import annotations

import importlib
import pickle
from pathlib import Path
from typing import Any, Self, cast

import safetensors
import safetensors.torch
import torch
from torch import Tensor, nn
from typing_extensions import override

from luong.errors import UserError

_CHANNELS = {"resnet18": 256, "resnet34": 256, "resnet50": 1024}
"""Of the third stage, whose cells are 16 pixels wide."""


class Backbone(nn.Module):
    """A residual network of torchvision up to its third stage (He 2016).

    Its batch normalisation always uses the averages that it was trained with, so that a picture
    comes out the same whatever its batch mates. Xu 2015 took such a grid of 14 by 14.

    Args:
        name: "resnet18", "resnet34" or "resnet50".
        trained: Training changes it, too.

    Raises:
        UserError: torchvision is not installed.
    """

    def __init__(self, name: str, *, trained: bool) -> None:
        super().__init__()
        self.name = name
        self.channels = _CHANNELS[name]
        network = _torchvision().get_model(name, weights=None)
        names = ("conv1", "bn1", "relu", "maxpool", "layer1", "layer2", "layer3")
        self.layers = nn.ModuleDict({part: getattr(network, part) for part in names})
        self.requires_grad_(trained)
        self.trained = trained
        self.train()

    @override
    def train(self, mode: bool = True) -> Self:
        """Never leaves evaluation mode: what is normalised must not depend on batch mates."""
        return super().train(False)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, C, H / 16, W / 16)."""
        with torch.set_grad_enabled(self.trained and torch.is_grad_enabled()):
            for layer in self.layers.values():
                pictures = layer(pictures)
        return pictures

    def read_weights(self, path: Path) -> None:
        """Take the weights of torchvision's file.

        Raises:
            UserError: It cannot be read or is not of this network.
        """
        tensors = {
            name: tensor
            for name, tensor in _read_tensors(path).items()
            if name.partition(".")[0] in self.layers
        }
        try:
            self.layers.load_state_dict(tensors)
        except RuntimeError as error:
            reason = str(error).strip().splitlines()[-1].strip()
            raise UserError(
                f"{path} does not hold weights of {self.name}: {reason} Name the file that "
                f"torchvision has for it, or another model.backbone."
            ) from None


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        if path.suffix == ".safetensors":
            return safetensors.torch.load(path.read_bytes())
        # Tensors only: nothing in the file is run.
        return cast(dict[str, Tensor], torch.load(path, map_location="cpu", weights_only=True))
    except FileNotFoundError:
        raise UserError(
            f"model.backbone_weights = '{path}' does not exist. Download the weights first; "
            "luong fetches nothing."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror or error}.") from None
    except (
        RuntimeError,
        EOFError,
        pickle.UnpicklingError,
        safetensors.SafetensorError,
    ) as error:
        reason = str(error).strip().splitlines()[0] if str(error).strip() else "it is cut short"
        raise UserError(f"{path} is not a file of weights: {reason}") from None


def _torchvision() -> Any:
    try:
        return importlib.import_module("torchvision.models")
    except (ImportError, RuntimeError) as error:  # The latter of a build for another torch.
        raise UserError(
            f"model.backbone needs torchvision, which cannot be imported ({error}). Install the "
            'version that fits your torch, or set model.backbone = "none".'
        ) from None
