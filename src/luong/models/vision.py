"""The caption model: pictures in, attentional states, log-probabilities and weights out."""

from __future__ import annotations

from itertools import pairwise
from typing import cast

from torch import Tensor, nn
from typing_extensions import override

from luong.attention import Memory
from luong.config import CaptionModelConfig
from luong.models.backbone import Backbone
from luong.models.decoder import Decoder, DecoderState
from luong.models.dropout import dropout
from luong.models.encoder_decoder import EncoderDecoder
from luong.models.encoders import Encoded
from luong.models.output import OutputLayer


class CellNorm(nn.LayerNorm):
    """Layer normalisation of the channels of each cell (Ba 2016), which sees no other cell."""

    @override
    def forward(self, pictures: Tensor) -> Tensor:
        """(B, C, H, W) to the same."""
        return super().forward(pictures.movedim(1, -1)).movedim(-1, 1)


class ResidualBlock(nn.Module):
    """Two convolutions and what goes past them, each after its normalisation (He 2016).

    y = W x + conv(relu(norm(conv(relu(norm(x)))))), with W a projection where the shape changes,
    else the identity. Normalisation over a batch would make a picture depend on its batch mates,
    and over a picture it takes away what the picture has much of: this one is of each cell.

    Args:
        inputs: Channels that go in.
        outputs: Channels that come out.
        stride: 2 halves height and width.
    """

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.inner = nn.Sequential(
            CellNorm(inputs),
            nn.ReLU(),
            _convolution(inputs, outputs, 3, stride),
            CellNorm(outputs),
            nn.ReLU(),
            _convolution(outputs, outputs, 3),
        )
        self.past: nn.Module = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.past = _convolution(inputs, outputs, 1, stride)

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, inputs, H, W) to (B, outputs, ceil(H / stride), ceil(W / stride))."""
        states: Tensor = self.past(pictures) + self.inner(pictures)
        return states


class Stages(nn.Module):
    """A small residual network, of which each stage halves height and width.

    The first stage does so before its blocks, in the convolution that reads the colours.

    Args:
        channels: Of the stages.
        blocks: Of each stage.
    """

    def __init__(self, channels: tuple[int, ...], blocks: int) -> None:
        super().__init__()
        self.channels = channels[-1]
        self.stem = _convolution(3, channels[0], 3, 2)
        layers: list[nn.Module] = []
        for stage, (inputs, outputs) in enumerate(pairwise((channels[0], *channels))):
            layers.append(ResidualBlock(inputs, outputs, 2 if stage else 1))
            layers += [ResidualBlock(outputs, outputs, 1) for _ in range(blocks - 1)]
        self.layers = nn.Sequential(*layers, CellNorm(channels[-1]))

    def forward(self, pictures: Tensor) -> Tensor:
        """(B, 3, H, W) to (B, C, h, w)."""
        states: Tensor = self.layers(self.stem(pictures))
        return states


class PictureEncoder(nn.Module):
    """From pictures to a grid of vectors, row by row, and their mean (Xu 2015, section 3.1).

    Args:
        config: Stages or a backbone, the size of a vector, and dropout.

    Example:
        >>> encoder = PictureEncoder(CaptionModelConfig(channels=(8, 16), hidden_size=12))
        >>> encoder(torch.randn(2, 3, 32, 32)).states.shape
        torch.Size([2, 64, 12])
    """

    def __init__(self, config: CaptionModelConfig) -> None:
        super().__init__()
        if config.backbone == "none":
            self.network: Stages | Backbone = Stages(config.channels, config.blocks)
        else:
            self.network = Backbone(config.backbone, trained=config.fine_tune)
        self.projection = nn.Linear(self.network.channels, config.hidden_size)
        self.dropout = config.picture_dropout

    def forward(self, pictures: Tensor) -> Encoded:
        """Encode.

        Args:
            pictures: Normalised colours (B, 3, H, W).
        """
        # Of each picture the same units everywhere: neighbours would give away what one lacks.
        vectors = self.network(pictures).flatten(2).transpose(1, 2)
        units = vectors.new_ones(len(vectors), 1, vectors.shape[-1])
        vectors = vectors * dropout(units, self.dropout, self.training)
        states = self.projection(vectors).to(pictures.dtype)
        return Encoded(states, states.mean(1, keepdim=True))


class CaptionModel(EncoderDecoder):
    """A picture encoder and the decoder of translators (Xu 2015, with soft attention).

    The decoder starts from the mean of the grid's vectors. Of the paper's decoder the gate on the
    context, the deep output and the doubly stochastic penalty are left out: it is Luong's.

    Args:
        config: The architecture.
        vocabulary_size: Tokens of captions, special ones included.

    Example:
        >>> model = CaptionModel(CaptionModelConfig(channels=(8, 16), hidden_size=12), 20)
        >>> memory, state = model.encode(torch.randn(1, 3, 32, 32), torch.tensor([64]))
        >>> state, output = model.step(torch.tensor([2]), state, memory)
        >>> output.log_probabilities.shape, output.weights.shape
        (torch.Size([1, 20]), torch.Size([1, 64]))
    """

    encoder: PictureEncoder

    def __init__(self, config: CaptionModelConfig, vocabulary_size: int) -> None:
        super().__init__()
        self.encoder = PictureEncoder(config)
        self.target_embedding = nn.Embedding(vocabulary_size, config.embedding_size)
        self.decoder = Decoder(config.decoder)
        tied = None if config.tie_embeddings == "none" else self.target_embedding
        self.output = OutputLayer(config.hidden_size, vocabulary_size, tied)
        self.input_dropout = config.decoder.dropout_of_inputs
        self.vocabulary_size = vocabulary_size
        # With U(-0.1, 0.1), as translators start, a small decoder long learns words alone.
        bound = config.hidden_size**-0.5
        for part in (self.decoder, self.output):
            for parameter in part.parameters():
                nn.init.uniform_(parameter, -bound, bound)
        nn.init.normal_(self.target_embedding.weight, std=config.embedding_size**-0.5)

    def encode(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        """Read pictures.

        Args:
            source: Normalised colours (B, 3, H, W), see `luong.pictures.normalized`.
            lengths: The cells of the grid, all of them, as an integer for each picture (B,).

        Returns:
            The memory that steps attend to, a position for each cell, row by row; and the
            decoder's state before the first step.
        """
        return self._start(source, lengths)

    @override
    def _start(self, source: Tensor, lengths: Tensor) -> tuple[Memory, DecoderState]:
        return self.decoder.start(self.encoder(source), lengths)


def _convolution(inputs: int, outputs: int, width: int, stride: int = 1) -> nn.Conv2d:
    """Odd width, and a start that keeps the size of what goes through (He 2015)."""
    convolution = nn.Conv2d(inputs, outputs, width, stride, padding=width // 2)
    nn.init.kaiming_normal_(convolution.weight, nonlinearity="relu")
    nn.init.zeros_(cast(Tensor, convolution.bias))
    return convolution
