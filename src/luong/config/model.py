"""Settings of the encoder-decoder."""

from __future__ import annotations

from typing import Literal

from pydantic import AliasChoices, Field, model_validator

from luong.config.section import Section

ScoreName = Literal["dot", "scaled-dot", "general", "concat", "additive", "location", "none"]
WindowName = Literal["global", "local-m", "local-p"]
EncoderName = Literal["recurrent", "convolutional", "mean", "self-attention"]
CellName = Literal["lstm", "gru"]


class AttentionConfig(Section):
    """The attention of the decoder."""

    score: ScoreName = "general"
    window: WindowName = "global"
    half_width: int = Field(10, ge=1)
    """D: a local window spans the 2D+1 positions around its centre."""
    placement: Literal["luong", "bahdanau"] = "luong"
    """Attend after the recurrent update (luong) or before it (bahdanau)."""
    input_feeding: bool = True
    """The attentional state of a step joins the input of the next."""
    attention_size: int | None = Field(None, ge=1)
    """n of `concat` and `additive`, and of the predictor of local-p; hidden_size by default."""
    max_length: int = Field(300, ge=1)
    """Rows of the `location` score: source positions beyond it are never attended."""
    dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Dropout on the attention weights."""
    coverage: bool = False
    """The score knows what was attended before (See 2017); for `additive` and `concat`."""

    @model_validator(mode="after")
    def _coverage_fits(self) -> AttentionConfig:
        if self.coverage and self.score not in ("additive", "concat"):
            raise ValueError(
                "coverage = true adds what was attended inside the tanh of a score, and score = "
                f'"{self.score}" has none: set score = "additive" or "concat"'
            )
        if self.coverage and self.window != "global":
            raise ValueError(
                "coverage = true counts what was attended in the whole source: set window = "
                '"global"'
            )
        return self


class ModelConfig(Section):
    """The encoder-decoder."""

    encoder: EncoderName = "recurrent"
    cell: CellName = "lstm"
    """Of the decoder, and of the recurrent encoder."""
    embedding_size: int = Field(256, ge=1)
    hidden_size: int = Field(512, ge=1)
    encoder_layers: int = Field(1, ge=1)
    decoder_layers: int = Field(1, ge=1)
    bidirectional: bool = True
    """Of the recurrent encoder."""
    reverse_source: bool = False
    """The recurrent encoder reads right to left; the memory stays in source order."""
    kernel_width: int = Field(3, ge=1)
    """Positions that the convolutional and the mean encoder see around each one; odd."""
    heads: int = Field(8, ge=1)
    """Of the self-attention encoder."""
    feed_forward_size: int | None = Field(None, ge=1)
    """Inner size of the self-attention encoder; 4 * hidden_size by default."""
    positions: Literal["sinusoidal", "relative", "none"] = "sinusoidal"
    """How an encoder that is not recurrent knows where words stand; `relative`: self-attention."""
    dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """On embeddings, between layers and on the attentional state, unless set apart below."""
    input_dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """On embeddings."""
    layer_dropout: float | None = Field(None, ge=0.0, lt=1.0)
    """Between recurrent layers and on the attentional state."""
    state_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """On recurrent states, the same units at every step of a sentence (Gal, Ghahramani 2016)."""
    tie_embeddings: Literal["none", "target", "all"] = "target"
    """The output layer shares the target embeddings; `all`: so does the source side."""
    copies: bool = Field(False, validation_alias=AliasChoices("copy", "copies"))
    """Source words may be copied (See 2017, pointer-generator); `copy` in the settings."""
    features: Literal["tokens", "attention"] = "tokens"
    """Features of a source line, where there are some: tokens after those of the text, or a source
    of their own that the decoder attends to beside the text."""
    attention: AttentionConfig = AttentionConfig()

    @property
    def dropout_of_inputs(self) -> float:
        """Dropout on embeddings: `input_dropout`, or `dropout` where that is not set."""
        return self.dropout if self.input_dropout is None else self.input_dropout

    @property
    def dropout_of_layers(self) -> float:
        """Dropout between layers: `layer_dropout`, or `dropout` where that is not set."""
        return self.dropout if self.layer_dropout is None else self.layer_dropout

    @model_validator(mode="after")
    def _coverage_has_one_source(self) -> ModelConfig:
        if self.features == "attention" and self.attention.coverage:
            raise ValueError(
                'features = "attention" makes two sources, and coverage is of one: set features = '
                '"tokens", or attention.coverage = false'
            )
        return self

    @model_validator(mode="after")
    def _copying_fits(self) -> ModelConfig:
        if self.copies and self.attention.score == "none":
            raise ValueError(
                'copy = true copies the words that are attended, but attention.score = "none" '
                "attends to none: choose a score, or set copy = false"
            )
        return self

    @model_validator(mode="after")
    def _encoder_fits(self) -> ModelConfig:
        size, encoder = self.hidden_size, self.encoder
        if encoder == "recurrent":
            if self.bidirectional and size % 2:
                raise ValueError(
                    f"hidden_size is split over two directions and must be even, not {size}"
                )
            return self
        if self.reverse_source:
            raise ValueError(
                f'encoder = "{encoder}" reads all words at once, so there is nothing to reverse: '
                'set reverse_source = false, or encoder = "recurrent"'
            )
        if self.positions == "relative" and encoder != "self-attention":
            raise ValueError(
                f'encoder = "{encoder}" has no scores for relative positions to add to: set '
                'positions = "sinusoidal"'
            )
        if encoder == "self-attention":
            if size % self.heads:
                raise ValueError(
                    f"hidden_size = {size} cannot be split over heads = {self.heads}: choose a "
                    "multiple"
                )
        elif self.kernel_width % 2 == 0:
            raise ValueError(
                f"kernel_width = {self.kernel_width} has no middle position: choose an odd number"
            )
        if encoder == "mean" and self.encoder_layers > 1:
            raise ValueError(
                'encoder = "mean" has no layers to stack: set encoder_layers = 1, or encoder = '
                '"convolutional"'
            )
        return self
