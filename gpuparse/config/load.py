"""Config files and the overrides of the command line: read, checked, resolved."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import fields
from pathlib import Path
from typing import Any

from gpuparse.config.schema import SECTIONS, Key, RunConfig, default_values, known_keys, yaml_word
from gpuparse.config.shipped import config_file, shipped_configs
from gpuparse.data.columns import IN_MISC, is_key
from gpuparse.data.folders import TOY, find_parts, part_files
from gpuparse.data.plain_yaml import PlainYaml, parse_yaml, read_yaml
from gpuparse.errors import ConfigError, did_you_mean, near_names
from gpuparse.features.templates import shipped_sets

BASE = "base"  # the key that names the file whose keys a file takes over
TREEBANK = "data.treebank"  # the key of the folder that has the parts train, dev and test
MAX_BASES = 8
_LISTED = "`gpuparse config` lists all keys"
_SET = "template set"  # a kind of keys
_FIXED = {  # keys that are gone, since their values are always the same
    "tokenizer": "token_features sentence_features word_features epochs min_count rows cost"
    " max_step max_words",
    "tagger": "features feats_features epochs dictionary min_count rows cost max_step"
    " network_epochs",
    "lemmatizer": "features epochs min_count rows",
    "pruning": "epochs folds",
    "word_vectors": "batch_size optimizer learning_rate dropout cost label_loss label_weight",
    "encoder": "batch_pieces learning_rate head_rate warm_up dropout label_smoothing arc_size"
    " label_size",
}
_TOGETHER = "learn from both treebanks: data.train=a.conllu,b.conllu"
_REPLACED = {
    "learning.backend": "give learning.engine: auto, native or torch",
    "init_from": _TOGETHER, "learning.keep_state": _TOGETHER,
    "draw": "`gpuparse draw` draws trees that are parsed",
}  # fmt: skip


def load_config(
    path: str | Path, overrides: Sequence[str] | Mapping[str, object] = ()
) -> RunConfig:
    """Read a config file, its bases and the overrides of the command line, and check all keys.

    A file that has the key `base` takes over all keys of that file and states what differs.
    Relative paths in a file are relative to the file's folder, those of overrides to the working
    directory; in the returned config they are relative to the working directory. `output` is always
    relative to the working directory; its default is `runs/` and the file's name.

    Args:
        path: YAML file, or the name of a config that comes with gpuparse (`config_file`).
        overrides: words such as `learning.epochs=5`, of which the last one wins; or values by
            dotted key.
    Returns: The config, complete and valid; of data only the names in the folder of
        `data.treebank` have been looked at.
    Raises: ConfigError: every wrong key, one line each.
    Cost: O(size of the files).
    """
    return read_settings(path, overrides).config()


def read_settings(
    path: str | Path, overrides: Sequence[str] | Mapping[str, object] = ()
) -> Settings:
    """The settings of a config file, its bases and overrides, as `load_config` reads them.

    Raises: ConfigError: a file cannot be read; all other errors are in the settings.
    """
    path = config_file(path)
    settings = Settings.of_yaml(read_yaml(path), path, folder=folder_of(path))
    settings.take(overrides)
    settings.take_output_from(path)
    return settings


def make_config(
    content: Mapping[str, object], overrides: Sequence[str] | Mapping[str, object] = ()
) -> RunConfig:
    """A config from plain data.

    Args:
        content: what a file would say, in sections or by dotted keys, with all paths, that of
            `base` too, relative to the working directory.
        overrides: as in `load_config`.
    Raises: ConfigError: as `load_config`; `output` is missing, which here has no default.
    """
    settings = Settings("config")
    settings.take_content(content)
    settings.take(overrides)
    if "output" not in settings.places:
        settings.errors.append("config: output: missing; give the folder of the model")
    return settings.config()


def parse_config(text: str, source: str) -> RunConfig:
    """Read a config from text, such as the one that a model folder records; paths stay as they are.

    Args:
        text: YAML.
        source: its name for messages.
    Raises: ConfigError: as `load_config`.
    """
    return Settings.of_yaml(parse_yaml(text, source), source, folder="").config()


def folder_of(path: str | Path) -> str:
    """The folder of a config file, relative to the working directory."""
    # The real folder: `..` behind a symbolic link can only be resolved on the disk.
    return os.path.relpath(os.path.realpath(os.path.dirname(path) or "."))


class Settings:
    """Values of dotted keys, where each was given, and all errors; `config` makes a config."""

    def __init__(self, source: str) -> None:
        self.source = source
        self.values: dict[str, object] = {}
        self.places: dict[str, str] = {}
        self.errors: list[str] = []
        self._meant: set[str] = set()  # keys and sections that unknown ones were probably meant as

    @classmethod
    def of_yaml(cls, content: PlainYaml, source: str, *, folder: str) -> Settings:
        """The settings of a YAML file, and of its bases, with paths relative to `folder`."""
        settings = cls(source)
        settings._read(content, source, folder, [source])
        return settings

    def _read(self, content: PlainYaml, source: str, folder: str, chain: list[str]) -> None:
        """Take over the keys of a file and before them those of its base; `chain`: files so far."""
        if not isinstance(content.value, Mapping):
            raise ConfigError(f"{source}: expected keys and values; see docs/configuration.md")
        if BASE in content.value:
            place = f"{source}:{content.lines[(BASE,)]}"
            try:
                self._read_base(content.value[BASE], folder, chain)
            except ConfigError as error:
                self.errors.append(f"{place}: {BASE}: {error}")
        for name, value in content.value.items():
            if name == BASE:
                continue
            place = f"{source}:{content.lines[(name,)]}"
            if name not in SECTIONS:
                self._set_key(name, value, place, folder)
            elif isinstance(value, Mapping):
                for inner, inner_value in value.items():
                    inner_place = f"{source}:{content.lines[(name, inner)]}"
                    self.set(f"{name}.{inner}", inner_value, inner_place, folder)
            else:
                self.errors.append(f"{place}: {name}: expected a section of keys and values")

    def _read_base(self, name: object, folder: str, chain: list[str]) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(f"expected the path of a config file, not {_shown(name)}")
        path = config_file(name, folder or ".")
        if not os.path.isfile(path):  # a pipe would be waited for
            raise ConfigError(f"{path}: a folder, pipe or device, where a file is expected")
        if any(_is_same_file(path, earlier) for earlier in chain):
            raise ConfigError(f"a file cannot be its own base: {' -> '.join([*chain, path])}")
        if len(chain) > MAX_BASES:
            files = " -> ".join([*chain, path])
            raise ConfigError(f"a chain of more than {MAX_BASES} `base:` files: {files}")
        self._read(read_yaml(path), path, folder_of(path), [*chain, path])

    def take_output_from(self, path: str | Path) -> None:
        """Name the output after the config file unless `output` was given."""
        if "output" not in self.places:
            self.set("output", f"runs/{Path(path).stem}", str(path), folder="")

    def take_content(self, content: Mapping[str, object]) -> None:
        """Take over the keys of plain data, in sections or dotted."""
        if BASE in content:
            try:
                self._read_base(_plain(content[BASE]), "", [self.source])
            except ConfigError as error:
                self.errors.append(f"{self.source}: {BASE}: {error}")
        for name, value in content.items():
            if isinstance(value, Mapping) and name in SECTIONS:
                for inner, inner_value in value.items():
                    self.set(f"{name}.{inner}", _plain(inner_value), self.source, folder="")
            elif name != BASE:
                self._set_key(name, _plain(value), self.source, folder="")

    def take(self, overrides: Sequence[str] | Mapping[str, object]) -> None:
        """Take overrides: words of the command line, or values by dotted key."""
        if isinstance(overrides, Mapping):
            for name, value in overrides.items():
                self.set(name, _plain(value), "overrides", folder="")
            return
        for word in overrides:
            self.override(word)

    def override(self, word: str) -> None:
        """Take one `key=value` of the command line."""
        name, equals, text = word.partition("=")
        place = "command line"
        if not equals:
            self.errors.append(f"{place}: {word!r}: expected KEY=VALUE, such as learning.epochs=5")
            return
        if name == BASE:
            self.errors.append(f"{place}: {BASE}: only a config file can name its base")
            return
        key = known_keys().get(name)
        try:
            value = parse_yaml(text, place).value
        except ConfigError:
            value = text
        # Text needs no quotes here: `output=2024` and `data.train=[1].conllu` are text.
        texts = ("text", "path", "paths", "guides", _SET)
        if key is not None and key.kind in texts and value is not None:
            value = text
        self.set(name, value, place, folder="")

    def _set_key(self, name: str, value: object, place: str, folder: str) -> None:
        """`set` a key of a file that is in no section; an unknown section has keys of its own."""
        if isinstance(value, Mapping) and name not in known_keys():
            near = near_names(name, SECTIONS)
            self._meant.update(near)
            hint = did_you_mean(near) or f"the sections are {', '.join(SECTIONS)}"
            self.errors.append(f"{place}: {name}: unknown section; {hint}")
        else:
            self.set(name, value, place, folder)

    def set(self, name: str, value: object, place: str, folder: str) -> None:
        """Check one value, resolve it if it is a path, and keep it.

        Args:
            name: the dotted key.
            value: the value as YAML reads it.
            place: where it was given, for messages.
            folder: the folder that a relative path is relative to, "" for the working directory.
        """
        key = known_keys().get(name)
        if key is None:
            self._meant.update(nearest_key(name))
            self.errors.append(f"{place}: {name}: {unknown_key(name)}")
            return
        self.places[name] = place
        if key.kind == "paths":
            value = _as_paths(value)
        if not key.accepts(value):
            words = map(yaml_word, key.choices)
            self.errors.append(
                f"{place}: {name}: expected {key.expected()}, not {_shown(value)}"
                + _meant_value(value, words)
            )
        elif key.kind == "guides" and _wrong_guides(value):
            self.errors.append(
                f"{place}: {name}: expected {key.expected()}, the key without blanks, '=' and '|',"
                f" not {_shown(value)}"
            )
        elif key.kind == _SET and _wrong_set(key, value):
            names = _sets_of(key)
            self.errors.append(
                f"{place}: {name}: expected {' or '.join(names)} or a YAML file's path, not"
                f" {_shown(value)}{_meant_value(value, names)}"
            )
        else:
            self.values[name] = _resolved(key, value, folder)

    @property
    def is_shipped(self) -> bool:
        """True if they are those of a config that comes with gpuparse."""
        return Path(self.source) in shipped_configs().values()

    def missing(self) -> list[str]:
        """The errors about required keys that were not given, not even with a wrong name."""
        given = default_values() | self.places
        if TREEBANK in self.places and self.values.get(TREEBANK, "") is not None:
            given |= {"data.train": ""}  # found there
        return [
            self.lacks(name)
            for name in known_keys()
            if name not in given and self._meant.isdisjoint((name, name.partition(".")[0]))
        ]

    def lacks(self, name: str) -> str:
        """The error about a key that must be given."""
        value = "FILE" if known_keys()[name].kind in ("path", "paths") else "VALUE"
        # A config that comes with gpuparse is complete as it is: no fault of its file is named.
        place = "" if self.is_shipped else f"{self.source}: "
        instead = f", or {TREEBANK}=FOLDER" if name == "data.train" else ""
        return f"{place}{name} is missing: give {name}={value}{instead}"

    def config(self, *, may_lack: bool = False) -> RunConfig:
        """The config.

        Args: may_lack: whether keys that must be given may be missing: they are None.
        Raises: ConfigError: all errors, one line each.
        """
        of_treebank, wrong = self._parts()
        errors = self.errors + wrong + ([] if may_lack else self.missing())
        if errors:
            raise ConfigError("\n".join(errors))
        values = dict.fromkeys(known_keys()) | default_values() | of_treebank | self.values
        sections: dict[str, Any] = {
            section: kind(**{f.name: values[f"{section}.{f.name}"] for f in fields(kind)})
            for section, kind in SECTIONS.items()
        }
        top: dict[str, Any] = {
            f.name: values[f.name] for f in fields(RunConfig) if f.name not in SECTIONS
        }
        return RunConfig(**top, **sections)

    def _parts(self) -> tuple[dict[str, str | None], list[str]]:
        """The parts of `data.treebank` by their keys, and errors.

        A part may be given too if it is left out or the same file, so that a printed config, which
        has all keys, is read as it was.
        """
        folder = self.values.get(TREEBANK)
        if not isinstance(folder, str):
            return {}, []
        try:
            parts = find_parts(folder)
        except ConfigError as error:
            return {}, [f"{self.places[TREEBANK]}: {TREEBANK}: {error}"]
        found = {f"data.{part}": file for part, file in parts.items()}
        wrong = [
            f"{self.places[name]}: {name}: given with {TREEBANK}, which names the treebanks: leave"
            " one of them out"
            for name, file in found.items()
            if isinstance(given := self.values.get(name), str)
            and (file is None or _real_paths(given) != _real_paths(file))
        ]
        return found, wrong


def _plain(value: object) -> object:
    """A value as YAML would have it."""
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    return [_plain(each) for each in value] if isinstance(value, tuple | list) else value


def _as_paths(value: object) -> object:
    """A list of paths as they are joined in a config; other values, and wrong lists, unchanged."""
    if not isinstance(value, list) or not value:
        return value
    are_paths = all(isinstance(each, str) and each and "," not in each for each in value)
    return ",".join(value) if are_paths else value


def _real_paths(part: str) -> list[str]:
    return [os.path.realpath(file) for file in part_files(part)]


def _is_same_file(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def unknown_key(name: str) -> str:
    """The error about a key that does not exist, with one that was probably meant."""
    section, _, last = name.partition(".")
    if last in _FIXED.get(section, "").split():
        return "this key is gone, its value is fixed; leave it out"
    if name in _REPLACED:
        return f"this key is gone; {_REPLACED[name]}"
    if name in SECTIONS:
        return f"a section; expected one of its keys, such as {_keys_of(name)[0]}"
    return f"unknown key; {did_you_mean(nearest_key(name)) or _LISTED}"


def nearest_key(name: str) -> list[str]:
    """The key that was probably meant by one that does not exist; none where none is near."""
    known = list(known_keys())
    if near := near_names(name, known, cutoff=0.75):
        return near
    last = name.rpartition(".")[2]
    by_last = {key.rpartition(".")[2]: key for key in reversed(known)}  # the first section
    if last in by_last:  # the right key in a wrong section, or without a section
        return [by_last[last]]
    return [by_last[match] for match in near_names(last, by_last, cutoff=0.7)]


def _keys_of(section: str) -> list[str]:
    return [key for key in known_keys() if key.startswith(f"{section}.")]


def _meant_value(value: object, words: Iterable[str]) -> str:
    """The end of an error about a value that is none of some words: what was probably meant."""
    hint = did_you_mean(near_names(value, words)) if isinstance(value, str) else ""
    return f"; {hint}" if hint else ""


def _wrong_guides(value: object) -> bool:
    return (
        isinstance(value, str)
        and value.startswith(IN_MISC)
        and not is_key(value.removeprefix(IN_MISC))
    )


def _sets_of(key: Key) -> list[str]:
    """The names of sets that a key takes, and what else it takes in place of a name."""
    return sorted([*shipped_sets(), *map(str, key.choices)])


def _wrong_set(key: Key, value: object) -> bool:
    is_name = isinstance(value, str) and not is_template_file(value)
    return is_name and value not in _sets_of(key)


def _resolved(key: Key, value: object, folder: str) -> object:
    """A value as the config keeps it: numbers as floats, paths relative to here."""
    if key.kind == "number" and isinstance(value, int):
        return float(value)
    if key.kind == "paths" and isinstance(value, str) and folder:
        if os.path.exists(whole := os.path.normpath(os.path.join(folder, value))):
            return whole
        files = value.split(",")
        return ",".join(str(_resolved(Key("path", ""), file, folder)) for file in files)
    is_path = key.kind in ("path", "guides") or (
        key.kind == _SET and isinstance(value, str) and is_template_file(value)
    )
    if not is_path or not isinstance(value, str) or not folder:
        return value
    if value.startswith(IN_MISC) or value in TOY or value in key.choices:
        return value
    return os.path.normpath(os.path.join(folder, value))


def is_template_file(name: str) -> bool:
    """True if a template set is named by a file's path rather than the name of a shipped set."""
    return name.endswith((".yaml", ".yml")) or "/" in name


def _shown(value: object) -> str:
    text = repr(value) if isinstance(value, str) else yaml_word(value)
    return text if len(text) <= 60 else text[:57] + "..."
