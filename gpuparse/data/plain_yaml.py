"""YAML as plain data, with limits on size and depth, and without YAML 1.1's implicit types."""

from __future__ import annotations

import functools
import re
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpuparse.errors import ConfigError
from gpuparse.limits import MAX_YAML_BYTES, MAX_YAML_VALUES

if TYPE_CHECKING:
    import yaml

MAX_DEPTH = 16

# Types of a scalar without quotes, first match wins: the core schema of YAML 1.2 without octal and
# hexadecimal numbers, .inf and .nan. YAML 1.1, the version of PyYAML, reads `no` as false, 010 as 8
# and 1:30 as 90.
_PLAIN_SCALARS = (
    ("tag:yaml.org,2002:null", r"~|null|Null|NULL|", "~nN\0"),
    ("tag:yaml.org,2002:bool", r"true|True|TRUE|false|False|FALSE", "tTfF"),
    ("tag:yaml.org,2002:int", r"[-+]?[0-9]+", "-+0123456789"),
    (
        "tag:yaml.org,2002:float",
        r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?",
        "-+.0123456789",
    ),
)


_SLICE = re.compile(r"(?<=\w)\[[-0-9:]+\]")  # of a field in a template


@dataclass(frozen=True)
class PlainYaml:
    """The content of a file, and the line of each key: `lines[("learning", "epochs")]`, from 1."""

    value: Any
    lines: dict[tuple[str, ...], int]


def _resolvers() -> dict[str, list[tuple[str, re.Pattern[str]]]]:
    """The table of PyYAML for the type of a scalar, by its first character ("" if empty)."""
    table: dict[str, list[tuple[str, re.Pattern[str]]]] = {}
    for tag, pattern, firsts in _PLAIN_SCALARS:
        for first in firsts.replace("\0", "") + ("\0" if "\0" in firsts else ""):
            key = "" if first == "\0" else first
            table.setdefault(key, []).append((tag, re.compile(rf"(?:{pattern})\Z")))
    return table


@functools.cache
def _loader() -> type:
    """The reader of PyYAML with our limits; PyYAML takes long to import."""
    import yaml

    class Loader(yaml.SafeLoader):
        yaml_implicit_resolvers = _resolvers()

        def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
            event = self.peek_event()
            if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
                raise yaml.MarkedYAMLError(
                    problem="anchors (&name) and aliases (*name) are refused; write the value out",
                    problem_mark=event.start_mark,
                )
            if event.tag is not None:
                raise yaml.MarkedYAMLError(
                    problem=f"the tag {event.tag!r} is refused; only plain values are allowed",
                    problem_mark=event.start_mark,
                )
            self.values = getattr(self, "values", 0) + 1
            if self.values > MAX_YAML_VALUES:
                raise yaml.MarkedYAMLError(
                    problem=f"more than {MAX_YAML_VALUES:,} values", problem_mark=event.start_mark
                )
            self.depth = getattr(self, "depth", 0) + 1
            if self.depth > MAX_DEPTH:
                raise yaml.MarkedYAMLError(
                    problem=f"nested more than {MAX_DEPTH} deep", problem_mark=event.start_mark
                )
            node = super().compose_node(parent, index)
            self.depth -= 1
            return node

        def construct_plain_mapping(self, node: yaml.MappingNode) -> dict[str, Any]:
            first_at: dict[str, int] = {}
            for key, _ in node.value:
                if not isinstance(key, yaml.ScalarNode):
                    problem = "a key must be one plain word"
                elif key.value in first_at:
                    problem = f"the key {key.value!r} is already in line {first_at[key.value]}"
                else:
                    first_at[key.value] = key.start_mark.line + 1
                    continue
                raise yaml.MarkedYAMLError(problem=problem, problem_mark=key.start_mark)
            # Keys are text: `no: x` has the key "no", `1: x` the key "1".
            return {key.value: self.construct_object(value, deep=True) for key, value in node.value}

        def construct_plain_int(self, node: yaml.ScalarNode) -> int | str:
            # Python refuses to convert thousands of digits.
            return int(node.value) if len(node.value) <= 30 else node.value

    Loader.add_constructor("tag:yaml.org,2002:int", Loader.construct_plain_int)
    Loader.add_constructor("tag:yaml.org,2002:map", Loader.construct_plain_mapping)
    return Loader


@functools.cache
def _dumper() -> type:
    import yaml

    class Dumper(yaml.SafeDumper):
        # The table of the reader: text that it would read as a number gets quotes.
        yaml_implicit_resolvers = _resolvers()

    return Dumper


def parse_yaml(text: str, source: str) -> PlainYaml:
    """Read one YAML document of mappings, lists, text, numbers, true, false and null.

    Args:
        text: the document, at most MAX_YAML_BYTES long.
        source: file name for messages.
    Returns: The value (None for an empty document) and the line of every key.
    Raises:
        ConfigError: no YAML; or a duplicate key, an anchor or alias, any explicit tag, a second
            document, more than MAX_DEPTH levels or MAX_YAML_VALUES values, or a longer text. Names
            the line.
    Cost: O(length).
    """
    if len(text) > MAX_YAML_BYTES or len(text.encode("utf-8", "surrogateescape")) > MAX_YAML_BYTES:
        raise ConfigError(f"{source}: longer than {MAX_YAML_BYTES} bytes")
    import yaml

    try:
        loader = _loader()(text)
        try:
            node = loader.get_single_node()
            value = None if node is None else loader.construct_document(node)
        finally:
            loader.dispose()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        line = "" if mark is None else f":{mark.line + 1}"
        problem = error.problem or error.context
        if problem and r"'\t'" in problem:
            problem = "a tab, where YAML needs spaces"
            if mark and re.match(r"\d+\t", text.split("\n")[mark.line]):
                problem = "a line of a treebank, not of a config: give it as data.train=FILE"
        if mark and problem and _SLICE.match(text.split("\n")[mark.line], mark.column):
            problem += (
                ": in a list of brackets, quote a template with a slice, as in"
                ' ["h.lower[-2:] m.pos", m.pos], or write one template in each line, after "- "'
            )
        raise ConfigError(f"{source}{line}: {problem}") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{source}: {' '.join(str(error).split())}") from None
    return PlainYaml(value, {} if node is None else _lines(node, ()))


def read_yaml(path: str | Path) -> PlainYaml:
    """Read a YAML file as `parse_yaml` does.

    Args: path: the file.
    Returns: The value and the line of every key.
    Raises: ConfigError: the file cannot be read, is no UTF-8, or `parse_yaml` refuses it.
    Cost: O(size), never more than MAX_YAML_BYTES + 1 bytes of it.
    """
    try:
        with open(path, "rb") as file:
            data = file.read(MAX_YAML_BYTES + 1)
        text = data.decode("utf-8-sig")
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: no UTF-8 text (byte {error.start})") from None
    return parse_yaml(text, str(path))


def dump_yaml(value: Any) -> str:
    """Write plain data as YAML that `parse_yaml` reads back unchanged, always in the same form.

    Args: value: mappings, lists, text, numbers, true, false and None; keys keep their order.
    Returns: The document.
    Cost: O(size).
    """
    import yaml

    return yaml.dump(
        value, Dumper=_dumper(), sort_keys=False, allow_unicode=True, width=1 << 20, indent=2
    )


def _lines(node: yaml.Node, path: tuple[str, ...]) -> dict[tuple[str, ...], int]:
    import yaml

    lines: dict[tuple[str, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, key.value)
            lines[here] = key.start_mark.line + 1
            lines.update(_lines(value, here))
    return lines


# A line of the simple form, which `dump_yaml` gives to template sets: an item or a key, or both,
# with a whole number, an empty list or text, or words, which begin with a letter, between single
# spaces.
_WORD = r"[A-Za-z](?:[\w.+*\[\]:-]*[\w.+*\[\]-])?"
_SIMPLE_LINE = re.compile(
    r"((?:  ){0,4})(- )?(?:([A-Za-z_]{1,64}):(?: (?=.)|\Z))?"
    rf"(\[\]|''|0|[1-9][0-9]{{0,8}}|{_WORD}(?: {_WORD})*)?",
    re.ASCII,
)
_WRITTEN = {"''": "", "null": None, "true": True, "false": False}
_NO_TEXT = re.compile("|".join(pattern for _, pattern, _ in _PLAIN_SCALARS[:2]))
_Rows = list[tuple[int, bool, str, str]]  # see `_row`; the last one first


def parse_value(text: str, source: str) -> Any:
    """The value that `parse_yaml` reads; of the simple form, in a small part of its time.

    Template sets are read whenever a model is loaded.
    """
    if text.count("\n") < MAX_YAML_VALUES // 4:
        with suppress(ValueError):  # it is of another form
            rows = [_row(line) for line in reversed(text.removesuffix("\n").split("\n"))]
            value = _mapping(rows, 0)
            if not rows:
                return value
    return parse_yaml(text, source).value


def _row(line: str) -> tuple[int, bool, str, str]:
    """The indent of a line, whether it is an item, its key and value, "" for none."""
    match = _SIMPLE_LINE.fullmatch(line)
    if match is None:
        raise ValueError
    indent, item, key, value = match.groups("")
    return len(indent), bool(item), key, value


def _mapping(rows: _Rows, indent: int) -> dict[str, Any]:
    """The mapping that begins with the next row. Raises: ValueError: it is not simple."""
    found: dict[str, Any] = {}
    while rows and rows[-1][:2] == (indent, False):
        *_, key, value = rows.pop()
        if not key or key in found:
            raise ValueError
        if value:
            found[key] = _scalar(value)
        elif rows and rows[-1][:2] == (indent, True):
            found[key] = _items(rows, indent)
        else:
            found[key] = _mapping(rows, indent + 2)
    if not found:
        raise ValueError
    return found


def _items(rows: _Rows, indent: int) -> list[Any]:
    found = []
    while rows and rows[-1][:2] == (indent, True):
        *_, key, value = rows.pop()
        if key:
            rows.append((indent + 2, False, key, value))
        found.append(_mapping(rows, indent + 2) if key else _scalar(value))
    return found


def _scalar(text: str) -> Any:
    if text == "[]":
        return []
    if text in _WRITTEN:
        return _WRITTEN[text]
    if text[:1].isdigit():
        return int(text)
    if not text or _NO_TEXT.fullmatch(text):  # TRUE, Null
        raise ValueError
    return text
