"""The run's config: every key with its type, range, default and meaning, once; YAML in and out."""

from __future__ import annotations

import argparse
import dataclasses
import difflib
import os
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

from gpuparse.data.misc_keys import IN_MISC, is_key
from gpuparse.errors import ConfigError
from gpuparse.features.templates import SETS
from gpuparse.plain_yaml import PlainYaml, dump_yaml, parse_yaml, read_yaml

MAX_INT32 = 2**31 - 1
SYNTHETIC = "synthetic:"

Value = str | int | float | bool | None


@dataclass(frozen=True)
class Key:
    """What one key of the config accepts.

    Attributes:
        kind: "text", "path" (relative paths are resolved), "template set" (a path if it looks like
            one), "guides" (a path or a key of MISC), "integer", "number", or "choice".
        meaning: one sentence for the table in docs/configuration.md.
        choices: the values of a choice.
        low, high: range of a number, both ends included.
        above: a bound that a number must be greater than.
        optional: whether null is accepted.
    """

    kind: str
    meaning: str
    choices: tuple[str | int | bool, ...] = ()
    low: int | float | None = None
    high: int | float | None = None
    above: int | float | None = None
    optional: bool = False

    def expected(self) -> str:
        """What the key accepts, in words."""
        if self.kind == "choice":
            words = " or ".join(_yaml_word(choice) for choice in self.choices)
        else:
            article = "an" if self.kind == "integer" else "a"
            words = "text" if self.kind == "text" else f"{article} {self.kind}"
            if self.kind == "guides":
                words = f"{IN_MISC}KEY or a path"
            if self.low is not None and self.high is not None:
                words += f" from {self.low} to {self.high}"
            elif self.low is not None:
                words += f" of at least {self.low}"
            elif self.above is not None:
                words += f" above {self.above}"
        return f"{words} or null" if self.optional else words

    def accepts(self, value: object) -> bool:
        """Whether a value has the right type and lies in the range."""
        if value is None:
            return self.optional
        if self.kind == "choice":
            return any(type(value) is type(choice) and value == choice for choice in self.choices)
        if self.kind == "integer":
            return type(value) is int and self._in_range(value)
        if self.kind == "number":
            return (
                isinstance(value, int | float) and type(value) is not bool and self._in_range(value)
            )
        return isinstance(value, str) and value != "" and "\0" not in value

    def _in_range(self, value: int | float) -> bool:
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
    """Treebanks, and how to read them."""

    train: str = _key(
        MISSING,
        "path",
        "Treebank to learn from. `synthetic:N:SEED` is a generated treebank of N sentences.",
    )
    dev: str | None = _key(
        None,
        "path",
        "Treebank scored after every epoch; also decides `weights.bits`.",
        optional=True,
    )
    test: str | None = _key(
        None, "path", "Treebank parsed and scored after training.", optional=True
    )
    guide: str | None = _key(
        None,
        "guides",
        "Heads that another parser proposes, for guide templates: `misc:KEY` in all treebanks, or a"
        " parsed copy of `data.train`.",
        optional=True,
    )
    dev_guide: str | None = _key(
        None,
        "guides",
        "The same of `data.dev`, if not as of `data.train`.",
        optional=True,
    )
    test_guide: str | None = _key(
        None,
        "guides",
        "The same of `data.test`, if not as of `data.train`.",
        optional=True,
    )
    partial: bool = _choice(
        False,
        (True, False),
        "Whether words of `data.train` may lack a head (`_`); they are learned from as far as they"
        " are annotated.",
    )
    single_root: bool | str = _choice(
        "auto",
        (True, False, "auto"),
        "Whether exactly one word hangs from the root; `auto`: if it is so in all training trees.",
    )
    pos: str = _choice(
        "auto",
        ("auto", "coarse", "fine"),
        "What templates call `pos`: column 4, column 5, or `auto`: column 5 where it is filled.",
    )
    on_error: str = _choice(
        "fail",
        ("fail", "skip"),
        "Whether a faulty sentence ends the run or is left out and counted.",
    )


@dataclass(frozen=True, kw_only=True)
class FeatureMapConfig:
    """How features find their weights."""

    kind: str = _choice(
        "hashed",
        ("hashed", "exact"),
        "`hashed`: a table of fixed size; `exact`: one row for every feature seen in training.",
    )
    rows: int = _key(
        1 << 22,
        "integer",
        "Rows of the hashed table; need not be a power of 2.",
        low=16,
        high=MAX_INT32,
    )


@dataclass(frozen=True, kw_only=True)
class LearningConfig:
    """How the weights are set."""

    rule: str = _choice(
        "mira",
        ("mira", "perceptron", "passive-aggressive", "mira-factored", "conditional"),
        "The update rule; the last two need a first-order decoder, and the third and the last"
        " `learning.max_step`.",
    )
    backend: str = _choice(
        "auto",
        ("auto", "cpu", "torch"),
        "What learns the arcs: `cpu`, compiled code, which has all rules, decoders and maps;"
        " `torch`, on the `device`, whose model differs in rounding; `auto`: `torch` with"
        " `device: cuda`, else `cpu`.",
    )
    k: int = _key(
        1,
        "integer",
        "Best trees of each sentence that `mira` and `passive-aggressive` learn from.",
        low=1,
        high=1000,
    )
    epochs: int = _key(10, "integer", "Passes over the training treebank.", low=1, high=10_000)
    batch_size: int = _key(
        1,
        "integer",
        "Sentences parsed with the same weights before their updates; 1 is the papers' algorithm.",
        low=1,
        high=1 << 20,
    )
    cost_augmented: bool = _choice(
        False, (True, False), "Whether training searches for the tree of highest score plus cost."
    )
    averaged: bool = _choice(
        True,
        (True, False),
        "Whether the model is the mean of the weights after every sentence; false: the last ones.",
    )
    max_step: float | None = _key(
        None,
        "number",
        "Largest step of one MIRA update (C in the papers), null: no bound; C of"
        " `passive-aggressive`; the step of `conditional`.",
        above=0,
        optional=True,
    )
    shuffle: bool = _choice(
        True,
        (True, False),
        "Whether each epoch has its own order, drawn from the seed; else file order.",
    )
    unreachable: str = _choice(
        "oracle",
        ("oracle", "reorder", "none"),
        "Gold trees the decoder cannot build: learn from the nearest one it can, from them with"
        " their words rearranged so that they nest, or from them as they are.",
    )
    shards: int = _key(
        1,
        "integer",
        "Shards of the training treebank that learn for themselves in an epoch, after which their"
        " weights are averaged; several processes share them out.",
        low=1,
        high=10_000,
    )


@dataclass(frozen=True, kw_only=True)
class PruningConfig:
    """Which arcs decoders beyond the second order search over."""

    max_heads: int | None = _key(
        16,
        "integer",
        "Most heads of a word that decoders beyond the second order search over, the likeliest ones"
        " under a parser of the first order, which is learned first; null: all.",
        low=1,
        high=10_000,
        optional=True,
    )
    threshold: float = _key(
        0.0001,
        "number",
        "What the probability of an arc must be at least for that, times that of the word's"
        " likeliest head.",
        low=0,
        high=1,
    )
    epochs: int = _key(
        5, "integer", "Passes over the training treebank for that parser.", low=1, high=10_000
    )
    folds: int = _key(
        4,
        "integer",
        "Parts of the training treebank, each pruned by a parser learned from the others.",
        low=2,
        high=1000,
    )


@dataclass(frozen=True, kw_only=True)
class LabelsConfig:
    """How relations are chosen."""

    kind: str = _choice(
        "second-stage",
        ("none", "second-stage", "joint"),
        "`second-stage`: a classifier labels the arcs of the finished tree; `joint`: the best label"
        " of each arc takes part in the search for the tree; `none`: heads only.",
    )
    features: str = _key(
        "labels",
        "template set",
        "The set whose label templates are used: `labels`, `joint-labels` or one of your own.",
    )
    rows: int = _key(
        1 << 22, "integer", "Rows of the label classifier's table.", low=16, high=MAX_INT32
    )
    epochs: int = _key(
        5, "integer", "Passes over the training treebank for the labels.", low=1, high=10_000
    )


@dataclass(frozen=True, kw_only=True)
class WeightsConfig:
    """How the finished weights are stored."""

    bits: str | int = _choice(
        "auto",
        ("auto", 8, 16),
        "Bits of a stored weight; `auto`: 8 if the score on `data.dev` does not suffer, else 16.",
    )


@dataclass(frozen=True, kw_only=True)
class RunConfig:
    """A whole run: what `train` needs to know, and what a model folder says it was made by."""

    output: str = _key(
        MISSING, "text", "The model folder to write, relative to the working directory."
    )
    features: str = _key(
        "extended",
        "template set",
        "Templates of the arcs: the name of a shipped set or a YAML file.",
    )
    decoder: str = _choice(
        "eisner",
        (
            "eisner",
            "chu_liu_edmonds",
            "eisner_sibling",
            "hill_climb",
            "multi_parent",
            "eisner_grandchild",
            "eisner_grand_sibling",
            "eisner_tri_sibling",
            "dual_decomposition",
            "ilp",
        ),
        "Tree search: `eisner` for projective trees, `chu_liu_edmonds` for all trees; of the second"
        " order `eisner_sibling` for projective trees, `hill_climb` for all trees, `multi_parent`"
        " for graphs in which a word may have several heads; beyond it `eisner_grandchild`,"
        " `eisner_grand_sibling` and `eisner_tri_sibling` for projective trees,"
        " `dual_decomposition` for all trees; `ilp` finds the same trees by integer programs, exact"
        " and slow.",
    )
    min_gain: float = _key(
        0.5,
        "number",
        "`hill_climb` and `multi_parent`: a change is made only if it raises the score by more than"
        " so many wrong heads cost. `dual_decomposition` and `ilp`: so much more must a tree with"
        " crossing arcs score than the best projective one.",
        low=0,
    )
    seed: int = _key(
        1, "integer", "All that is drawn by chance derives from it.", low=0, high=2**63 - 1
    )
    threads: int = _key(
        0, "integer", "Threads; 0: all processors this process may use.", low=0, high=4096
    )
    device: str = _choice(
        "auto",
        ("auto", "cpu", "cuda"),
        "Where `data.dev` and `data.test` are parsed; `auto`: CUDA if it works. `cuda` learns"
        " there too, see `learning.backend`.",
    )
    draw: int = _key(
        0,
        "integer",
        "How many trees found for the first sentences of `data.test` are drawn after training.",
        low=0,
        high=1000,
    )
    data: DataConfig
    feature_map: FeatureMapConfig = field(default_factory=FeatureMapConfig)
    learning: LearningConfig = field(default_factory=LearningConfig)
    pruning: PruningConfig = field(default_factory=PruningConfig)
    labels: LabelsConfig = field(default_factory=LabelsConfig)
    weights: WeightsConfig = field(default_factory=WeightsConfig)

    @property
    def backend(self) -> str:
        """What learns the arcs, "cpu" or "torch".

        Not what `device: auto` finds decides: on every machine a config means the same model.
        """
        if self.learning.backend != "auto":
            return self.learning.backend
        return "torch" if self.device == "cuda" else "cpu"

    def to_yaml(self) -> str:
        """The config as a complete YAML file, every key written out, always in the same form."""
        return dump_yaml(dataclasses.asdict(self))

    def recorded(self) -> RunConfig:
        """The config as a model keeps it: what changes nothing in a model has one fixed value.

        So the same bytes come out wherever a model is written, with any threads, and on any device
        that parses; what learned it is kept. Of treebanks the names are kept, not the folders,
        which mean nothing elsewhere.
        """
        named = dataclasses.asdict(self.data)
        paths = [f.name for f in fields(DataConfig) if f.metadata["key"].kind in ("path", "guides")]
        data = dataclasses.replace(
            self.data,
            **{
                name: os.path.basename(path)
                for name in paths
                if (path := named[name]) is not None and not path.startswith(IN_MISC)
            },
        )
        learning = dataclasses.replace(self.learning, backend=self.backend)
        return dataclasses.replace(
            self, output="model", threads=0, device="auto", draw=0, data=data, learning=learning
        )

    @classmethod
    def from_yaml(cls, text: str, source: str) -> RunConfig:
        """Read back what `to_yaml` wrote, say from a model folder; paths stay as they are.

        Args:
            text: the YAML file.
            source: its name for messages.
        Raises:
            ConfigError: as `load_config`.
        """
        return Settings.of_file(parse_yaml(text, source), source, folder="").config()


_SECTIONS: dict[str, type] = {
    "data": DataConfig,
    "feature_map": FeatureMapConfig,
    "learning": LearningConfig,
    "pruning": PruningConfig,
    "labels": LabelsConfig,
    "weights": WeightsConfig,
}


def add_overrides(parser: argparse.ArgumentParser, meaning: str) -> None:
    """Let a command line end in words such as `learning.epochs=5`: `overrides`."""
    parser.add_argument(
        "overrides",
        nargs="*",
        default=[],  # or argparse would call them required
        metavar="KEY=VALUE",
        help=meaning,
    )


def load_config(path: str | Path, overrides: Sequence[str] = ()) -> RunConfig:
    """Read a config file and the overrides of the command line, and check all of it.

    Relative paths in the file count from the file's folder, those of overrides from the working
    directory; the config that comes back has them relative to the working directory. `output`
    always counts from the working directory.

    Args:
        path: YAML file.
        overrides: words such as `learning.epochs=5`; a later one wins.
    Returns:
        The config, complete and valid; no data has been looked at.
    Raises:
        ConfigError: whatever is wrong with any key, all of it, one line each.
    Cost: O(size of the file).
    """
    settings = Settings.of_file(read_yaml(path), str(path), folder=folder_of(path))
    for override in overrides:
        settings.override(override)
    return settings.config()


def folder_of(path: str | Path) -> str:
    """The folder that relative paths in a config file count from, as seen from where we stand."""
    # The real folder: with links in its path, `..` behind it could be taken away only on the disk.
    return os.path.relpath(os.path.realpath(os.path.dirname(path) or "."))


def known_keys() -> dict[str, Key]:
    """Every key by its dotted name, in the order of the file."""
    keys = {f.name: f.metadata["key"] for f in fields(RunConfig) if f.name not in _SECTIONS}
    for section, kind in _SECTIONS.items():
        keys |= {f"{section}.{f.name}": f.metadata["key"] for f in fields(kind)}
    return keys


def _defaults() -> dict[str, Value]:
    """The dotted keys that may be left out, with their values."""
    defaults: dict[str, Value] = {}
    for prefix, kind in [
        ("", RunConfig),
        *((f"{name}.", kind) for name, kind in _SECTIONS.items()),
    ]:
        for f in fields(kind):
            if "key" in f.metadata and f.default is not MISSING:
                defaults[prefix + f.name] = f.default
    return defaults


class Settings:
    """Dotted keys with the values given to them, where each was given, and all that is wrong.

    One that stands alone is asked for its config; a family of runs that differ in some keys is
    `varied` from what they have in common.
    """

    def __init__(self, source: str) -> None:
        self.source = source
        self.values: dict[str, object] = {}
        self.places: dict[str, str] = {}
        self.errors: list[str] = []

    @classmethod
    def of_file(cls, content: PlainYaml, source: str, *, folder: str) -> Settings:
        """The settings of a YAML file whose paths count from `folder`."""
        settings = cls(source)
        if not isinstance(content.value, Mapping):
            raise ConfigError(f"{source}: expected keys and values; see docs/configuration.md")
        for name, value in content.value.items():
            place = f"{source}:{content.lines[(name,)]}"
            if name not in _SECTIONS:
                settings.set(name, value, place, folder)
            elif isinstance(value, Mapping):
                for inner, inner_value in value.items():
                    inner_place = f"{source}:{content.lines[(name, inner)]}"
                    settings.set(f"{name}.{inner}", inner_value, inner_place, folder)
            else:
                settings.errors.append(f"{place}: {name}: expected a section of keys and values")
        return settings

    def override(self, word: str) -> None:
        """Take one `key=value` of the command line."""
        name, equals, text = word.partition("=")
        place = "command line"
        if not equals:
            self.errors.append(f"{place}: {word!r}: expected KEY=VALUE, such as learning.epochs=5")
            return
        key = known_keys().get(name)
        try:
            value = parse_yaml(text, place).value
        except ConfigError:
            value = text
        # Text needs no quotes here: `output=2024` and `data.train=[1].conllu` mean what they say.
        texts = ("text", "path", "template set", "guides")
        if key is not None and key.kind in texts and value is not None:
            value = text
        self.set(name, value, place, folder="")

    def set(self, name: str, value: object, place: str, folder: str) -> None:
        """Check one value, resolve it if it is a path, and keep it."""
        key = known_keys().get(name)
        if key is None:
            self.errors.append(f"{place}: {name}: unknown key{_did_you_mean(name)}")
            return
        self.places[name] = place
        if not key.accepts(value):
            self.errors.append(f"{place}: {name}: expected {key.expected()}, not {_shown(value)}")
        elif name in ("data.train", "data.dev", "data.test") and _wrong_synthetic(value):
            self.errors.append(
                f"{place}: {name}: expected synthetic:N:SEED with N of at least 1 and SEED of at"
                f" least 0, not {_shown(value)}"
            )
        elif key.kind == "guides" and _wrong_guides(value):
            self.errors.append(
                f"{place}: {name}: expected {key.expected()}, the key without blanks, '=' and '|',"
                f" not {_shown(value)}"
            )
        elif key.kind == "template set" and _wrong_set(value):
            self.errors.append(
                f"{place}: {name}: expected {' or '.join(_shipped_sets())} or a YAML file's path,"
                f" not {_shown(value)}"
            )
        else:
            self.values[name] = _resolved(key, value, folder)

    def varied(self) -> Settings:
        """A copy to be changed, with all that was given and nothing of what was wrong."""
        copy = Settings(self.source)
        copy.values, copy.places = dict(self.values), dict(self.places)
        return copy

    def missing(self) -> list[str]:
        """What is wrong with keys that must be given and are not."""
        return [
            f"{self.source}: {name}: missing; expected {key.expected()}"
            for name, key in known_keys().items()
            if name not in _defaults() and name not in self.places
        ]

    def config(self) -> RunConfig:
        """The config.

        Raises:
            ConfigError: all that is wrong.
        """
        errors = self.errors + self.missing()
        if errors:
            raise ConfigError("\n".join(errors))
        values = _defaults() | self.values
        sections: dict[str, Any] = {
            section: kind(**{f.name: values[f"{section}.{f.name}"] for f in fields(kind)})
            for section, kind in _SECTIONS.items()
        }
        top: dict[str, Any] = {
            f.name: values[f.name] for f in fields(RunConfig) if f.name not in _SECTIONS
        }
        return RunConfig(**top, **sections)


def _did_you_mean(name: str) -> str:
    known = list(known_keys())
    near = difflib.get_close_matches(name, known, n=1, cutoff=0.75)
    last = name.rpartition(".")[2]
    if not near:  # the right key in the wrong section, or without one
        near = [key for key in known if key.rpartition(".")[2] == last][:1]
    if not near:
        by_last = {key.rpartition(".")[2]: key for key in known}
        near = [
            by_last[match] for match in difflib.get_close_matches(last, by_last, n=1, cutoff=0.7)
        ]
    return f"; did you mean {near[0]}?" if near else "; docs/configuration.md lists all keys"


def _wrong_synthetic(value: object) -> bool:
    if not isinstance(value, str) or not value.startswith(SYNTHETIC):
        return False
    numbers = value.removeprefix(SYNTHETIC).split(":")
    if len(numbers) != 2 or not all(n.isascii() and n.isdigit() and len(n) < 10 for n in numbers):
        return True
    return int(numbers[0]) < 1


def _wrong_guides(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.startswith(IN_MISC)
        and not is_key(value.removeprefix(IN_MISC))
    )


def _shipped_sets() -> list[str]:
    return sorted(file.stem for file in SETS.glob("*.yaml"))


def _wrong_set(value: object) -> bool:
    return isinstance(value, str) and not is_template_file(value) and value not in _shipped_sets()


def _resolved(key: Key, value: object, folder: str) -> object:
    """A value as the config keeps it: numbers as floats, paths in `folder` from where we stand."""
    if key.kind == "number" and isinstance(value, int):
        return float(value)
    is_path = key.kind in ("path", "guides") or (
        key.kind == "template set" and isinstance(value, str) and is_template_file(value)
    )
    if not is_path or not isinstance(value, str) or not folder:
        return value
    if value.startswith((SYNTHETIC, IN_MISC)):
        return value
    return os.path.normpath(os.path.join(folder, value))


def is_template_file(name: str) -> bool:
    """Whether a template set is named by a file's path rather than the name of a shipped set."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else _yaml_word(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _yaml_word(value: object) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def schema_table() -> str:
    """All keys as a Markdown table: key, what it accepts, default, meaning."""
    defaults = _defaults()
    rows = ["| key | accepts | default | meaning |", "| --- | --- | --- | --- |"]
    for name, key in known_keys().items():
        default = f"`{_yaml_word(defaults[name])}`" if name in defaults else "required"
        rows.append(f"| `{name}` | {key.expected()} | {default} | {key.meaning} |")
    return "\n".join(rows) + "\n"


def main(arguments: Sequence[str]) -> int:
    """Check a config file and print it with every key resolved, or print the table of all keys.

    Args:
        arguments: `[FILE [KEY=VALUE ...]]`.
    Returns:
        0.
    Raises:
        ConfigError: the config is wrong.
    """
    parser = argparse.ArgumentParser(
        prog="python -m gpuparse config",
        description="Check a config file and print it with every key, or list all keys.",
    )
    parser.add_argument("config", nargs="?", help="YAML file; without it, all keys are listed")
    add_overrides(parser, "as for train")
    options = parser.parse_args(arguments)
    if options.config is None:
        print(schema_table(), end="")
    else:
        print(load_config(options.config, options.overrides).to_yaml(), end="")
    return 0
