"""The schema of a run's config: each key once, with type, range, default and meaning."""

from __future__ import annotations

import dataclasses
import os
from dataclasses import MISSING, dataclass, field, fields
from typing import Any, NamedTuple

from gpuparse.data.columns import IN_MISC
from gpuparse.data.folders import part_files
from gpuparse.data.plain_yaml import dump_yaml
from gpuparse.inference.decoders import DECODERS

MAX_INT32 = 2**31 - 1
ENCODER = "encoder"  # in place of the name of a template set
WHOLE, TREEBANK = "whole", "treebank"  # in place of a file of words

Value = str | int | float | bool | None


class RuleNeeds(NamedTuple):
    """The needs of an update rule."""

    takes_k_best: bool
    needs_max_step: bool
    searches: bool  # whether it learns from trees that were searched for; if not, of first order


RULES = {
    "perceptron": RuleNeeds(takes_k_best=False, needs_max_step=False, searches=True),
    "mira": RuleNeeds(takes_k_best=True, needs_max_step=False, searches=True),
    "mira-factored": RuleNeeds(takes_k_best=False, needs_max_step=False, searches=False),
    "conditional": RuleNeeds(takes_k_best=False, needs_max_step=True, searches=False),
}
"""Update rules by name, in the order of the numbers in native/updates.h."""


@dataclass(frozen=True)
class Key:
    """One key of the config: the values that it accepts.

    Attributes:
        kind: "text", "path" (relative paths are resolved), "paths" (one, or several as a list or
            joined by commas), "template set" (a path if it looks like one), "guides" (a path or a
            key of MISC), "integer", "number", or "choice".
        meaning: one sentence for the table in docs/configuration.md.
        choices: the values of a choice; what a template set or path takes beside names and paths.
        low, high: range of a number, both ends included.
        above: a bound that a number must be greater than.
        optional: whether null is accepted.
        auto: whether `auto` is accepted beside numbers.
    """

    kind: str
    meaning: str
    choices: tuple[str | int | bool, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    above: int | float | None = None
    optional: bool = False
    auto: bool = False

    def expected(self) -> str:
        """The accepted values, in words."""
        if self.kind == "choice":
            words = " or ".join(yaml_word(choice) for choice in self.choices)
        else:
            article = {"integer": "an ", "text": ""}.get(self.kind, "a ")
            words = f"{article}{self.kind}"
            if self.kind == "paths":
                words = "a path, or a list of paths without commas"
            if self.kind == "guides":
                words = f"{IN_MISC}KEY or a path"
            if self.kind == "path" and self.choices:
                words = f"{', '.join(map(str, self.choices))} or a path"
            if self.low is not None and self.high is not None:
                words += f" from {self.low} to {self.high}"
            elif self.low is not None:
                words += f" of at least {self.low}"
            elif self.above is not None:
                words += f" above {self.above}"
        words += ", or auto" if self.auto else ""
        return f"{words} or null" if self.optional else words

    def accepts(self, value: object) -> bool:
        """True if a value has the right type and lies in the range."""
        if value is None:
            return self.optional
        if value == "auto" and self.auto:
            return True
        if self.kind == "choice":
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        if self.kind == "integer":
            return type(value) is int and self._is_in_range(value)
        if self.kind == "number":
            is_number = isinstance(value, int | float) and type(value) is not bool
            return is_number and self._is_in_range(value)
        return isinstance(value, str) and value != "" and "\0" not in value

    def _is_in_range(self, value: Any) -> bool:
        return (
            (self.low is None or value >= self.low)
            and (self.high is None or value <= self.high)
            and (self.above is None or value > self.above)
        )


def _key(default: Any, kind: str, meaning: str, **limits: Any) -> Any:
    """A dataclass field for one key; `default` is MISSING where the key must be given."""
    return field(default=default, metadata={"key": Key(kind, meaning, **limits)})


def _choice(default: Any, choices: tuple[str | int | bool, ...], meaning: str) -> Any:
    return _key(default, "choice", meaning, choices=choices)


@dataclass(frozen=True, kw_only=True)
class DataConfig:
    """The treebanks, and how they are read."""

    treebank: str | None = _key(
        None,
        "path",
        "Folder of a treebank, in place of `data.train`, `data.dev` and `data.test`: its parts are"
        " found by their names; `data.dev=null` and `data.test=null` leave a part out.",
        optional=True,
    )
    train: str = _key(
        MISSING,
        "paths",
        "Training treebank; several files are a list, or `a.conllu,b.conllu`. `toy-train` has 300"
        " generated sentences.",
    )
    dev: str | None = _key(
        None,
        "paths",
        "Development treebank, scored after every epoch; it also decides `weights.bits` and"
        " calibrates the model's probabilities.",
        optional=True,
    )
    test: str | None = _key(
        None, "paths", "Test treebank, parsed and scored after training.", optional=True
    )
    guide: str | None = _key(
        None,
        "guides",
        "Heads predicted by another parser, for guide templates (stacking features): `misc:KEY` in"
        " all treebanks, or a parsed copy of `data.train`.",
        optional=True,
    )
    dev_guide: str | None = _key(
        None,
        "guides",
        "The guides of `data.dev`; the default is `data.guide` if that is `misc:KEY`.",
        optional=True,
    )
    test_guide: str | None = _key(
        None,
        "guides",
        "The guides of `data.test`; the default is `data.guide` if that is `misc:KEY`.",
        optional=True,
    )
    partial: bool = _choice(
        False,
        (True, False),
        "Whether words of `data.train` may lack a head (`_`); words with a head are learned from.",
    )
    single_root: bool | str = _choice(
        "auto",
        (True, False, "auto"),
        "Whether exactly one word is attached to the root; `auto`: true if this holds in all"
        " training trees.",
    )
    pos: str = _choice(
        "auto",
        ("auto", "coarse", "fine"),
        "The column that templates call `pos`: 4 (`coarse`), 5 (`fine`), or `auto`: 5 if it is"
        " filled.",
    )
    on_error: str = _choice(
        "fail",
        ("fail", "skip"),
        "Whether a malformed sentence ends the run or is skipped and counted.",
    )


@dataclass(frozen=True, kw_only=True)
class FeatureMapConfig:
    """The hash table of the arc features' weights."""

    rows: int = _key(
        1 << 22,
        "integer",
        "Rows of the table of arc weights; need not be a power of 2.",
        low=16,
        high=MAX_INT32,
    )


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """Keys of learning the weights of arcs and labels."""

    rule: str = _choice(
        "mira",
        tuple(RULES),
        "Update rule. `mira-factored` and `conditional` learn templates of arcs alone;"
        " `conditional` needs `learning.max_step`.",
    )
    engine: str = _choice(
        "auto",
        ("auto", "native", "torch"),
        "Engine that learns the arc weights: `native` code; `torch`, on the `device`; `auto`:"
        " `torch` with `device: cuda`, else `native`.",
    )
    k: int = _key(
        1,
        "integer",
        "Number of best trees per sentence that `mira` learns from.",
        low=1,
        high=1000,
    )
    epochs: int = _key(10, "integer", "Passes over the training treebank.", low=1, high=10_000)
    batch_size: int = _key(
        1,
        "integer",
        "Sentences parsed with the same weights before their updates are applied; 1 is the"
        " algorithm of the papers.",
        low=1,
        high=1 << 20,
    )
    cost_augmented: bool = _choice(
        False,
        (True, False),
        "Whether training searches for the tree with the highest sum of score and cost.",
    )
    averaged: bool = _choice(
        True,
        (True, False),
        "Whether the model is the mean of the weights after each sentence; false: the last ones.",
    )
    keep: str = _choice(
        "last",
        ("last", "best"),
        "Which epoch of word vectors, arcs and labels is in the model: `last`, or `best`, the one"
        " with the highest LAS on `data.dev`, or UAS without labels; of word vectors for each"
        " network.",
    )
    max_step: float | None = _key(
        None,
        "number",
        "Largest step size of one MIRA update (the aggressiveness C); null: no limit. With"
        " `conditional` the learning rate.",
        above=0,
        optional=True,
    )
    shuffle: bool = _choice(
        True,
        (True, False),
        "Whether the sentences are shuffled in each epoch; false: the order of the file.",
    )
    unreachable: str = _choice(
        "projectivise",
        ("projectivise", "skip", "error", "none"),
        "What a projective decoder learns from a non-projective gold tree: `projectivise`, the"
        " nearest projective tree; `skip`, nothing; `error`, nothing, and training ends; `none`,"
        " the gold tree itself.",
    )


@dataclass(frozen=True, kw_only=True)
class PruningConfig:
    """The candidate arcs of higher-order decoders (third order and grandchildren)."""

    max_heads: int | None = _key(
        16,
        "integer",
        "Most candidate heads per word for higher-order decoders, ranked by a first-order parser"
        " that is learned first; null: no pruning.",
        low=1,
        high=10_000,
        optional=True,
    )
    threshold: float = _key(
        0.0001,
        "number",
        "Smallest probability of a candidate arc, as a share of that of the word's most probable"
        " head.",
        low=0,
        high=1,
    )


@dataclass(frozen=True, kw_only=True)
class WordVectorsConfig:
    """Keys of learning and weighting word vectors; for sets with `word_vectors`."""

    epochs: int = _key(
        10, "integer", "Passes over the training treebank for word vectors.", low=1, high=10_000
    )
    networks: int = _key(
        1,
        "integer",
        "Networks of word vectors, learned one after the other from different random numbers; a"
        " score is the mean of theirs.",
        low=1,
        high=64,
    )
    min_count: int | str = _key(
        2,
        "integer",
        "Words of the training treebank in which a value must occur to get a vector; `auto`: 5, or"
        " 2 if the treebank has fewer than 30,000 words.",
        low=1,
        high=MAX_INT32,
        auto=True,
    )
    loss: str = _choice(
        "hinge",
        ("hinge", "conditional"),
        "Loss of trees: `hinge`, how much a wrong tree scores above the gold tree; `conditional`,"
        " -ln of the probability of the gold tree.",
    )
    weight: float = _key(
        0.5,
        "number",
        "Factor of the vectors' scores of arcs and siblings, half of it for grandparents, in the"
        " sum with scores of templates.",
        above=0,
        high=100,
    )
    margin: float | None = _key(
        None,
        "number",
        "Templates score only arcs, and labels of finished trees, whose vectors score at most this"
        " much less than the best ones, in units of the cost of a wrong head; null: all.",
        low=0,
        high=1000,
        optional=True,
    )

    @property
    def all_epochs(self) -> int:
        """Epochs of all networks."""
        return self.networks * self.epochs


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """Keys of the prediction of relations."""

    kind: str = _choice(
        "second-stage",
        ("none", "second-stage", "joint"),
        "`second-stage`: a classifier labels the arcs of the finished tree; `joint`: the score of"
        " an arc includes the score of its best label; `none`: heads only.",
    )
    features: str = _key(
        "labels",
        "template set",
        "Template set of the labels: `labels`, `wide-labels`, `joint-labels` or your own file.",
    )
    rows: int = _key(
        1 << 22, "integer", "Rows of the table of label weights.", low=16, high=MAX_INT32
    )
    epochs: int = _key(
        5, "integer", "Passes over the training treebank for the labels.", low=1, high=10_000
    )


@dataclass(frozen=True, kw_only=True)
class WeightsConfig:
    """Keys of storing the learned weights."""

    bits: str | int = _choice(
        "auto",
        ("auto", 8, 16),
        "Bits per stored weight; `auto`: 8 if UAS and LAS on `data.dev` fall by at most 0.05 points"
        " (encoders: 0.15), else 16.",
    )


# Keys that the stages before the parser share.


def _learns(stage: str, then: str = "") -> Any:
    return _choice(False, (True, False), f"Whether {stage} is learned from `data.train`{then}.")


def _taken_from(stage: str, then: str = "") -> Any:
    return _key(None, "path", f"Model folder to take {stage} from{then}.", optional=True)


def _word_list(columns: str) -> Any:
    return _key(
        None,
        "path",
        f"CoNLL file of words with {columns} from outside of the treebank: a dictionary, or another"
        " treebank.",
        optional=True,
    )


@dataclass(frozen=True, kw_only=True)
class TokenizerConfig:
    """Keys of learning tokens, sentences and multiword tokens."""

    learn: bool = _learns("a tokeniser", ", so that the model reads raw text")
    model: str | None = _taken_from("the tokeniser")


@dataclass(frozen=True, kw_only=True)
class TaggerConfig:
    """Keys of learning UPOS, XPOS and FEATS."""

    learn: bool = _learns("a tagger")
    model: str | None = _taken_from("the tagger", "; the parser learns from the gold tags then")
    folds: int = _key(
        5,
        "integer",
        "Folds of `data.train`; each is tagged by a tagger learned from all others, and the parser"
        " learns from these tags; 1: from the gold tags.",
        low=1,
        high=100,
    )
    word_list: str | None = _word_list("UPOS, XPOS and FEATS")
    bits: int = _choice(
        11,
        (8, 11, 16),
        "Bits per stored weight; 8: a packaged model is smaller; 16: search is slower.",
    )
    networks: int = _key(
        1,
        "integer",
        "Networks, learned from different random numbers; a score is the mean of theirs. Taggers of"
        " folds have one.",
        low=1,
        high=16,
    )


@dataclass(frozen=True, kw_only=True)
class LemmatizerConfig:
    """Keys of learning lemmas."""

    learn: bool = _learns("a lemmatiser")
    model: str | None = _taken_from("the lemmatiser")
    word_list: str | None = _word_list("UPOS, FEATS and lemmas")


@dataclass(frozen=True, kw_only=True)
class EncoderConfig:
    """A parser whose scores are those of a pretrained encoder, in place of templates."""

    model: str | None = _key(
        None,
        "text",
        "Folder of a pretrained encoder or of a model with one, or a name that the package"
        " `transformers` knows; for `features: encoder`.",
        optional=True,
    )
    vocabulary: str = _key(
        WHOLE,
        "path",
        "Pieces of words that the model keeps: all; those for words of `data.train`, and the"
        " shortest others, up to 50,000 in all; or those for words of a text file too, and those of"
        " up to three letters.",
        choices=(WHOLE, TREEBANK),
    )
    train: bool = _choice(
        True, (True, False), "Whether the encoder itself is learned; false: only layers above it."
    )
    read_tags: bool = _choice(
        False,
        (True, False),
        "Whether UPOS, XPOS and FEATS of the input are read; they are not filled then.",
    )
    upos: bool = _choice(True, (True, False), "Whether UPOS is filled.")
    xpos: bool = _choice(True, (True, False), "Whether XPOS is filled.")
    feats: bool = _choice(True, (True, False), "Whether FEATS is filled.")
    precision: str = _choice(
        "auto",
        ("auto", "float32", "bfloat16"),
        "Numbers that torch multiplies with in the encoder, in training and in parsing; `auto`:"
        " float32 on a CPU, but bfloat16 in training on one that multiplies with it; bfloat16 on a"
        " GPU.",
    )
    loss: str = _choice(
        "local",
        ("local", "conditional", "hinge"),
        "Loss of trees: `local`, -ln of the probability of each gold head among the heads of its"
        " word; `conditional`, of the gold tree; `hinge`, how much a wrong tree scores"
        " above the gold tree.",
    )
    epochs: int | str = _key(
        "auto",
        "integer",
        "Passes over the training treebank; `auto`: 9, or up to 30 of small treebanks, so"
        " that there are 1,500 steps.",
        low=1,
        high=10_000,
        auto=True,
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """All keys of a run, as `train` reads them and a model folder records them."""

    output: str = _key(
        MISSING,
        "text",
        "Model folder to write; by default it has the name of the config.",
    )
    features: str = _key(
        "extended",
        "template set",
        "Template set of the arcs and other parts: the name of a shipped set or a YAML file;"
        " `encoder`: a pretrained encoder instead.",
        choices=(ENCODER,),
    )
    decoder: str = _choice(
        "eisner",
        ("auto", *DECODERS),
        "Search algorithm (docs/decoders.md). `auto`: the highest order that `features` has"
        " templates for (an encoder: the first), projective if at most 0.5 % of the arcs of"
        " `data.train` are non-projective, or 1 % where vectors alone score siblings (`fast`).",
    )
    min_gain: float = _key(
        0.5,
        "number",
        "Smallest gain in score of a change by `hill_climb` and `multi_parent`, and of a"
        " non-projective tree by `dual_decomposition`, in units of the cost of one wrong head; with"
        " an encoder, in nats.",
        low=0,
    )
    seed: int = _key(1, "integer", "Seed of all random numbers.", low=0, high=2**63 - 1)
    threads: int = _key(
        0, "integer", "Number of threads; 0: one per available processor.", low=0, high=4096
    )
    device: str = _choice(
        "auto",
        ("auto", "cpu", "cuda"),
        "Device that parses `data.dev` and `data.test`; `auto`: CUDA if available. `cuda` also"
        " learns there, see `learning.engine`.",
    )
    calibration: str = _choice(
        "held-out",
        ("held-out", "none"),
        "How probabilities are calibrated without `data.dev`: `held-out`, by a second parser, and"
        " tagger, on held-out sentences of `data.train`; `none`: they are not.",
    )
    parser: bool = _choice(
        True, (True, False), "Whether a parser is learned; false: only the stages before it."
    )
    data: DataConfig
    feature_map: FeatureMapConfig = field(default_factory=FeatureMapConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    pruning: PruningConfig = field(default_factory=PruningConfig)
    word_vectors: WordVectorsConfig = field(default_factory=WordVectorsConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    weights: WeightsConfig = field(default_factory=WeightsConfig)
    tokenizer: TokenizerConfig = field(default_factory=TokenizerConfig)
    tagger: TaggerConfig = field(default_factory=TaggerConfig)
    lemmatizer: LemmatizerConfig = field(default_factory=LemmatizerConfig)
    encoder: EncoderConfig = field(default_factory=EncoderConfig)

    @property
    def has_encoder(self) -> bool:
        """True if the parser's scores are those of a pretrained encoder."""
        return self.features == ENCODER

    @property
    def engine(self) -> str:
        """The engine that learns the arc weights, "native" or "torch".

        It does not depend on what `device: auto` finds: a config means the same model everywhere.
        """
        if self.learning.engine != "auto":
            return self.learning.engine
        return "torch" if self.device == "cuda" else "native"

    def to_yaml(self) -> str:
        """The complete config as YAML, every key written out, always in the same form."""
        return dump_yaml(dataclasses.asdict(self))

    @property
    def word_lists(self) -> dict[str, str]:
        """The files of words that are given, by key."""
        paths = {f"{s}.{name}": getattr(getattr(self, s), name) for s, name in WORD_LISTS.items()}
        return {key: path for key, path in paths.items() if path not in (None, WHOLE, TREEBANK)}

    def recorded(self) -> RunConfig:
        """The config as a model folder records it; keys that do not change a model are fixed.

        The same run gives the same bytes for any output folder, number of threads and parsing
        device; the engine that learned is recorded. Treebanks are recorded without their folders,
        and by their files alone.
        """
        named = dataclasses.asdict(self.data)
        kinds = ("path", "paths", "guides")
        paths = [f.name for f in fields(DataConfig) if f.metadata["key"].kind in kinds]
        recorded: dict[str, Any] = {
            name: ",".join(map(os.path.basename, part_files(path)))
            for name in paths
            if (path := named[name]) is not None and not path.startswith(IN_MISC)
        }
        data = dataclasses.replace(self.data, **recorded | {"treebank": None})
        learning = dataclasses.replace(self.learning, engine=self.engine)
        stages: dict[str, Any] = {
            name: dataclasses.replace(stage, model=os.path.basename(os.path.abspath(stage.model)))
            for name in SECTIONS
            if getattr(stage := getattr(self, name), "model", None) is not None
        }
        for section, name in WORD_LISTS.items():
            stage = stages.get(section, getattr(self, section))
            file = {name: _file_name(getattr(stage, name))}
            stages[section] = dataclasses.replace(stage, **file)
        return dataclasses.replace(
            self, output="model", threads=0, device="auto", data=data, learning=learning,
            **stages,
        )  # fmt: skip


# Sections, and their keys that name a file of words.
WORD_LISTS = {"tagger": "word_list", "lemmatizer": "word_list", "encoder": "vocabulary"}


def _file_name(path: str | None) -> str | None:
    """A path without its folder."""
    return None if path is None else os.path.basename(path)


SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "feature_map": FeatureMapConfig,
    "learning": LearningConfig,
    "pruning": PruningConfig,
    "word_vectors": WordVectorsConfig,
    "labels": LabelsConfig,
    "weights": WeightsConfig,
    "tokenizer": TokenizerConfig,
    "tagger": TaggerConfig,
    "lemmatizer": LemmatizerConfig,
    "encoder": EncoderConfig,
}


def known_keys() -> dict[str, Key]:
    """Every key by its dotted name, in the order of the dataclasses."""
    keys = {f.name: f.metadata["key"] for f in fields(RunConfig) if f.name not in SECTIONS}
    for section, kind in SECTIONS.items():
        keys |= {f"{section}.{f.name}": f.metadata["key"] for f in fields(kind)}
    return keys


def default_values() -> dict[str, Value]:
    """The dotted keys that have a default, with their values."""
    kinds = {"": RunConfig} | {f"{name}.": kind for name, kind in SECTIONS.items()}
    return {
        prefix + f.name: f.default
        for prefix, kind in kinds.items()
        for f in fields(kind)
        if "key" in f.metadata and f.default is not MISSING
    }


def yaml_word(value: object) -> str:
    """A value as one writes it in YAML."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
