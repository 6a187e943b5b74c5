"""The settings of a run: frozen models read from TOML, unknown keys refused, all errors at once."""

from __future__ import annotations

import tomllib
from pathlib import Path
from typing import Any, Literal, get_args

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from luong.errors import UserError, nearest

ScoreName = Literal["dot", "scaled-dot", "general", "concat", "additive", "location", "none"]
WindowName = Literal["global", "local-m", "local-p"]
EncoderName = Literal["recurrent", "convolutional", "mean", "self-attention"]
CellName = Literal["lstm", "gru"]
ScheduleName = Literal["constant", "inverse-square-root", "linear", "halving", "plateau"]


class Section(BaseModel):
    """A table of the TOML file: immutable, and every key must be known."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


class PairFiles(Section):
    """Where sentence pairs lie: two parallel files, or one file of tab-separated pairs."""

    source: Path | None = None
    target: Path | None = None
    file: Path | None = None

    @model_validator(mode="after")
    def _one_form(self) -> PairFiles:
        parallel = self.source is not None and self.target is not None
        neither = self.source is None and self.target is None
        if not (parallel and self.file is None) and not (self.file is not None and neither):
            raise ValueError(
                'expected { source = "...", target = "..." } or { file = "pairs.tsv" }'
            )
        return self


class DataConfig(Section):
    """What to train on."""

    train: PairFiles
    valid: PairFiles
    source_language: str | None = None
    """ISO 639 code; kept in the model folder."""
    target_language: str | None = None
    """ISO 639 code; chooses the tokenizer of the metric."""
    max_length: int = Field(250, ge=1)
    """Training pairs with more tokens than this on either side are left out, and counted."""


class DocumentFiles(Section):
    """Where labelled documents lie: a file of one a row, or a folder with one folder a label."""

    file: Path | None = None
    """`.jsonl`: objects with "text" or "sentences", and "label"; else label, tab, text."""
    folder: Path | None = None

    @model_validator(mode="after")
    def _one_form(self) -> DocumentFiles:
        if (self.file is None) == (self.folder is None):
            raise ValueError('expected { file = "documents.jsonl" } or { folder = "..." }')
        return self


class DocumentsConfig(Section):
    """What a classifier trains on, and how much of a document it reads."""

    train: DocumentFiles
    valid: DocumentFiles
    multi_label: bool = False
    """A document may have any number of labels, each decided apart."""
    lowercase: bool = True
    max_sentences: int = Field(100, ge=1)
    """What is beyond these limits is cut, and counted."""
    max_words: int = Field(50, ge=1)
    """Tokens of a sentence."""


class TokensConfig(Section):
    """How text becomes tokens."""

    kind: Literal["word", "character", "subword"] = "subword"
    vocabulary_size: int = Field(8000, ge=5)
    """An upper bound, special tokens included."""
    shared: bool = True
    """One vocabulary for both sides."""
    algorithm: Literal["unigram", "bpe"] = "unigram"
    """How sentencepiece learns its pieces; for `subword` only."""
    minimum_count: int = Field(1, ge=1)
    """Words or characters seen less often than this are unknown; not for `subword`."""


class WordsConfig(TokensConfig):
    """How the text of a classifier becomes tokens."""

    kind: Literal["word", "character", "subword"] = "word"
    vocabulary_size: int = Field(20000, ge=5)
    minimum_count: int = Field(2, ge=1)


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


class HierarchyConfig(Section):
    """Words to sentences to a document: a hierarchical attention network."""

    encoder: EncoderName = "recurrent"
    """Reads the words of a sentence."""
    sentence_encoder: EncoderName = "recurrent"
    """Reads the sentences of a document."""
    cell: CellName = "gru"
    embedding_size: int = Field(100, ge=1)
    hidden_size: int = Field(100, ge=1)
    """Of words, sentences and documents; a recurrent encoder splits it over two directions."""
    kernel_width: int = Field(3, ge=1)
    heads: int = Field(4, ge=1)
    dropout: float = Field(0.3, ge=0.0, lt=1.0)
    """On embeddings, sentence vectors and document vectors."""
    word_dropout: float = Field(0.0, ge=0.0, lt=1.0)
    """Share of words that training reads as unknown."""
    pretrained: Path | None = None
    """Embeddings in word2vec's or GloVe's text format that known words start from."""

    def encoder_config(self, encoder: EncoderName, input_size: int) -> ModelConfig:
        """What an encoder of inputs of a size is made from."""
        return ModelConfig(
            encoder=encoder,
            cell=self.cell,
            embedding_size=input_size,
            hidden_size=self.hidden_size,
            kernel_width=self.kernel_width,
            heads=self.heads,
            dropout=self.dropout,
        )

    @model_validator(mode="after")
    def _encoders_fit(self) -> HierarchyConfig:
        for encoder in (self.encoder, self.sentence_encoder):
            try:
                self.encoder_config(encoder, self.embedding_size)
            except ValidationError as error:
                raise ValueError(str(error.errors()[0]["ctx"]["error"])) from None
        return self


class TrainingSettings(Section):
    """The optimiser, its schedule, and when to stop, validate, save and report."""

    best_by: str
    """The validation score that decides which weights are kept, and when to stop early."""

    max_epochs: int = Field(20, ge=1)
    max_minutes: float = Field(0.0, ge=0.0)
    """Wall-clock limit over all resumed parts of the run; 0: none."""
    max_updates: int = Field(0, ge=0)
    """Updates of the whole run, at most; 0: as many as the epochs have."""
    batch_tokens: int = Field(2000, ge=1)
    """Padded target positions of a batch, at most."""
    accumulate: int = Field(1, ge=1)
    """Batches whose gradients are summed before an update."""
    optimizer: Literal["adam", "adamw", "sgd"] = "adam"
    learning_rate: float = Field(0.001, gt=0.0)
    weight_decay: float = Field(0.0, ge=0.0)
    momentum: float = Field(0.0, ge=0.0, lt=1.0)
    """For sgd."""
    schedule: ScheduleName = "linear"
    warmup_updates: int = Field(0, ge=0)
    """The rate rises linearly over this many updates, in every schedule."""
    decay_start: float = Field(0.5, ge=0.0, lt=1.0)
    """`linear`: the share of the planned updates after which the rate falls towards 0."""
    halve_after_epochs: int = Field(5, ge=0)
    """`halving`: full rate for this many epochs, then half as much with each (Luong 2015)."""
    plateau_patience: int = Field(2, ge=0)
    """`plateau`: so many validations without a better score are borne before the rate is cut."""
    plateau_factor: float = Field(0.5, gt=0.0, lt=1.0)
    clip_norm: float = Field(1.0, ge=0.0)
    """Gradients are scaled down to this norm; 0: never."""
    label_smoothing: float = Field(0.1, ge=0.0, lt=1.0)
    average_decay: float = Field(0.998, ge=0.0, lt=1.0)
    """Decay of the running average of the weights that is validated and kept; 0: no average."""
    precision: Literal["auto", "float32", "bfloat16"] = "auto"
    """How products are computed. `float32`: to float32 accuracy, by the faster of torch's default
    library and oneDNN. `auto`: that, or bfloat16 where this CPU measures faster with it. What was
    measured is kept in ~/.cache/luong/precision.json (XDG_CACHE_HOME is heeded) for each machine
    and version of torch; weights, softmax, loss and cell state are float32 always."""
    device: str = "auto"
    validate_every: int = Field(0, ge=0)
    """Updates between validations; 0: at the end of each epoch."""
    patience: int = Field(0, ge=0)
    """Validations without a better score before training stops; 0: never."""
    save_every: int = Field(0, ge=0)
    """Updates between saves for resuming; 0: at each validation and every five minutes."""
    log_every: int = Field(50, ge=1)
    """Updates between two rows of metrics.jsonl."""


class TrainingConfig(TrainingSettings):
    """Training of a translator."""

    best_by: Literal["bleu", "chrf", "loss"] = "bleu"


class ClassifierTrainingConfig(TrainingSettings):
    """Training of a classifier; `batch_tokens` are the padded words of a batch."""

    best_by: Literal["accuracy", "macro_f1", "loss"] = "accuracy"
    batch_tokens: int = Field(16000, ge=1)
    label_smoothing: float = Field(0.0, ge=0.0, lt=1.0)
    """For one label a document."""
    class_weights: Literal["none", "balanced"] | dict[str, float] = "none"
    """How much a label counts in the loss: `balanced`: the rarer, the more; or a table."""


class BaseRunConfig(Section):
    """What the settings of every task hold."""

    task: str
    output: Path
    seed: int = Field(1, ge=0)
    tokens: TokensConfig = TokensConfig()
    training: TrainingSettings


class RunConfig(BaseRunConfig):
    """A whole run, as `luong train` reads it.

    Example:
        >>> config = load_config("run.toml", ["training.max_epochs=3"])
        >>> config.training.max_epochs
        3
    """

    task: Literal["translate"] = "translate"
    data: DataConfig
    model: ModelConfig = ModelConfig()
    training: TrainingConfig = TrainingConfig()

    @model_validator(mode="after")
    def _tying(self) -> RunConfig:
        if self.model.tie_embeddings == "all" and not self.tokens.shared:
            raise ValueError('tie_embeddings = "all" needs tokens.shared = true, one vocabulary')
        return self


class ClassifierConfig(BaseRunConfig):
    """A whole run of the task `classify`."""

    task: Literal["classify"]
    data: DocumentsConfig
    tokens: WordsConfig = WordsConfig()
    model: HierarchyConfig = HierarchyConfig()
    training: ClassifierTrainingConfig = ClassifierTrainingConfig()


AnyConfig = RunConfig | ClassifierConfig
TASKS: dict[str, type[RunConfig] | type[ClassifierConfig]] = {
    "translate": RunConfig,
    "classify": ClassifierConfig,
}


def load_config(path: str | Path, overrides: list[str] | None = None) -> AnyConfig:
    """Read a run's settings from a TOML file and apply overrides.

    Args:
        path: The TOML file.
        overrides: Settings as `section.key=value`; the value is TOML, or else a plain string.

    Returns:
        The settings, checked.

    Raises:
        UserError: The file is missing or not TOML, or keys are unknown or of a wrong type; all
            such mistakes are named at once.
    """
    path = Path(path)
    try:
        # Some editors put a byte order mark in front, which TOML does not know.
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        raise UserError(
            f"{path} does not exist. `luong init > {path}` writes a file to start from."
        ) from None
    except OSError as error:
        raise UserError(f"{path} cannot be read: {error.strerror}. Name a TOML file.") from None
    except UnicodeDecodeError as error:
        raise UserError(f"{path} is not UTF-8 (byte {error.start}). Save it as UTF-8.") from None
    except tomllib.TOMLDecodeError as error:
        raise UserError(f"{path} is not valid TOML: {error}.") from None
    for override in overrides or []:
        _apply(table, override)
    return parse_config(table, str(path))


def parse_config(table: dict[str, Any], name: str = "the settings") -> AnyConfig:
    """Check a nested table of settings, as `load_config` does.

    Raises:
        UserError: Every unknown key and wrong value, with its path and the nearest known key.
    """
    task = table.get("task", "translate")
    if not isinstance(task, str) or task not in TASKS:
        raise UserError(f"{name}: task = {task!r} is not known.{nearest(str(task), TASKS)}")
    try:
        return TASKS[task].model_validate(table)
    except ValidationError as error:
        complaints = [_complaint(dict(item), TASKS[task]) for item in error.errors()]
        raise UserError(f"{name}: " + " ".join(complaints)) from None


def _apply(table: dict[str, Any], override: str) -> None:
    """Put one `a.b=value` into a nested table."""
    key, equals, text = override.partition("=")
    if not equals or not key.strip():
        raise UserError(f"--set {override}: expected section.key=value, as in training.seed=2.")
    try:
        value = tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        value = text.strip()
    *sections, last = key.strip().split(".")
    for section in sections:
        table = table.setdefault(section, {})
        if not isinstance(table, dict):
            raise UserError(f"--set {override}: {section} is a value, not a section.")
    table[last] = value


def _section_at(location: tuple[Any, ...], model: type[BaseModel]) -> type[BaseModel] | None:
    """The settings model that holds the key at a path, if the path leads to one."""
    for part in location[:-1]:
        field = model.model_fields.get(str(part))
        if field is None:
            return None
        types = (field.annotation, *get_args(field.annotation))
        found = [t for t in types if isinstance(t, type) and issubclass(t, BaseModel)]
        if not found:
            return None
        model = found[0]
    return model


def _complaint(item: dict[str, Any], run: type[BaseModel]) -> str:
    """One sentence for one pydantic error."""
    location = tuple(item["loc"])
    path = ".".join(map(str, location))
    if item["type"] == "extra_forbidden":
        model = _section_at(location, run)
        hint = nearest(str(location[-1]), model.model_fields if model else [])
        return f"{path} is not a known key.{hint}"
    if item["type"] == "missing":
        return f"{path} is missing."
    if item["type"] == "value_error":
        message = str(item["ctx"]["error"])
        return f"{path}: {message}." if path else f"{message}."
    hint = ""
    if item["type"] == "literal_error" and isinstance(item["input"], str):
        model = _section_at(location, run)
        field = model.model_fields.get(str(location[-1])) if model else None
        hint = nearest(item["input"], get_args(field.annotation)) if field else ""
    message = item["msg"][0].lower() + item["msg"][1:]
    return f"{path} = {item['input']!r}: {message}.{hint}"
