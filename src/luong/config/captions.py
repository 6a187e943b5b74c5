"""Settings of the task `caption`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from luong.config.model import AttentionConfig, CellName, ModelConfig
from luong.config.run import BaseRunConfig
from luong.config.section import Section
from luong.config.tokens import TokensConfig
from luong.config.training import TrainingSettings

BackboneName = Literal["none", "resnet18", "resnet34", "resnet50"]
Share = Annotated[float, Field(ge=0.0, le=1.0)]
Spread = Annotated[float, Field(gt=0.0)]


class CaptionFiles(Section):
    """Where pictures and their captions lie."""

    file: Path
    """Rows of picture, tab, caption; several rows of a picture are several captions of it. The
    picture is a path, from this file's folder on, or a number that counts from 0 in `images`."""
    images: Path | None = None
    """An `.npz` file with one array `images`, uint8 (N, H, W, 3)."""


class CaptionsConfig(Section):
    """What to train on, and how a picture is made fit."""

    train: CaptionFiles
    valid: CaptionFiles
    target_language: str | None = None
    """ISO 639 code of the captions; chooses the tokenizer of the metric."""
    picture_size: int = Field(64, ge=8)
    """Pictures are scaled to fit into a square of so many pixels a side, and padded with white."""
    mean: tuple[Share, Share, Share] = (1.0, 1.0, 1.0)
    """Of red, green and blue, from 0 to 1: pixels are (value - mean) / spread to the model. White,
    the ground of most drawings and of what is padded, is 0 by default."""
    spread: tuple[Spread, Spread, Spread] = (0.5, 0.5, 0.5)
    """Of red, green and blue."""
    max_length: int = Field(50, ge=1)
    """Captions with more tokens than this are left out, and counted; none written is longer."""
    skip_bad: bool = False
    """Pictures that cannot be read are left out, and counted; else they end the run at once."""


class CaptionTokensConfig(TokensConfig):
    """How captions become tokens."""

    kind: Literal["word", "character", "subword"] = "word"


class CaptionModelConfig(Section):
    """A convolutional picture encoder and the decoder of a translator."""

    channels: tuple[Annotated[int, Field(ge=1)], ...] = Field((32, 64, 128), min_length=1)
    """Of each stage of the picture encoder; a stage halves height and width."""
    blocks: int = Field(1, ge=1)
    """Residual blocks of a stage."""
    backbone: BackboneName = "none"
    """A network of torchvision in place of the stages, up to its third: a cell is 16 pixels."""
    backbone_weights: Path | None = None
    """Its weights, which training starts from: torchvision's `.pth`, or `.safetensors`."""
    fine_tune: bool = False
    """The backbone is trained, too."""
    cell: CellName = "lstm"
    embedding_size: int = Field(128, ge=1)
    hidden_size: int = Field(128, ge=1)
    decoder_layers: int = Field(1, ge=1)
    dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """On embeddings, between layers and on the attentional state, unless set apart below."""
    input_dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """On embeddings."""
    layer_dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """Between recurrent layers and on the attentional state."""
    state_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """On recurrent states, the same units at every step of a caption."""
    picture_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """On the vectors of the grid, the same units in every cell of a picture."""
    tie_embeddings: Literal["none", "target"] = "target"
    attention: AttentionConfig = AttentionConfig()

    @property
    def decoder(self) -> ModelConfig:
        """What the decoder is made from."""
        return ModelConfig(
            bidirectional=False,
            **{
                name: getattr(self, name)
                for name in CaptionModelConfig.model_fields
                if name in ModelConfig.model_fields
            },
        )

    @property
    def cell_pixels(self) -> int:
        """Pixels of a side of a cell of the grid."""
        return 16 if self.backbone != "none" else int(2 ** len(self.channels))

    @model_validator(mode="after")
    def _fits(self) -> CaptionModelConfig:
        if self.attention.window != "global":
            raise ValueError(
                f'attention.window = "{self.attention.window}" is for sequences, and a picture '
                'has no order: set window = "global"'
            )
        if self.attention.coverage:
            raise ValueError("attention.coverage is for texts: set coverage = false")
        if self.backbone == "none" and (self.backbone_weights or self.fine_tune):
            raise ValueError(
                'backbone_weights and fine_tune need a backbone, such as backbone = "resnet18"'
            )
        return self


class CaptionTrainingConfig(TrainingSettings):
    """Training of a captioner; a batch holds at most 4 * batch_tokens cells of pictures."""

    best_by: Literal["bleu", "chrf", "exact_match", "loss"] = "bleu"
    shift: int = Field(0, ge=0)
    """Training moves each picture by up to so many pixels to any side, each time anew."""


class CaptionConfig(BaseRunConfig):
    """A whole run of the task `caption`."""

    task: Literal["caption"]
    data: CaptionsConfig
    tokens: CaptionTokensConfig = CaptionTokensConfig()
    model: CaptionModelConfig = CaptionModelConfig()
    training: CaptionTrainingConfig = CaptionTrainingConfig()

    @property
    def grid(self) -> tuple[int, int]:
        """Rows and columns of the grid that a picture becomes."""
        side = -(-self.data.picture_size // self.model.cell_pixels)
        return side, side

    @model_validator(mode="after")
    def _something_to_choose(self) -> CaptionConfig:
        cell = self.model.cell_pixels
        if self.model.backbone != "none" and not {"mean", "spread"} <= self.data.model_fields_set:
            raise ValueError(
                f"{self.model.backbone} knows colours as it was trained with them: set data.mean = "
                "[0.485, 0.456, 0.406] and data.spread = [0.229, 0.224, 0.225] for the weights of "
                "torchvision"
            )
        if self.grid == (1, 1):
            raise ValueError(
                f"a cell of the grid is {cell} pixels wide, so pictures of "
                f"{self.data.picture_size} have nothing to choose from: raise data.picture_size, "
                "or take fewer model.channels"
            )
        return self
