"""YAML as plain data, with limits on size and depth, and without YAML 1.1's implicit types."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from gpuparse.errors import ConfigError
from gpuparse.limits import MAX_YAML_BYTES, MAX_YAML_VALUES

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


class _Loader(yaml.SafeLoader):
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


class _Dumper(yaml.SafeDumper):
    # The table of the reader: text that it would read as a number gets quotes.
    yaml_implicit_resolvers = _resolvers()


_Loader.add_constructor("tag:yaml.org,2002:int", _Loader.construct_plain_int)
_Loader.add_constructor("tag:yaml.org,2002:map", _Loader.construct_plain_mapping)


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
    try:
        loader = _Loader(text)
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
    return yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=1 << 20, indent=2
    )


def _lines(node: yaml.Node, path: tuple[str, ...]) -> dict[tuple[str, ...], int]:
    lines: dict[tuple[str, ...], int] = {}
    if isinstance(node, yaml.MappingNode):
        for key, value in node.value:
            here = (*path, key.value)
            lines[here] = key.start_mark.line + 1
            lines.update(_lines(value, here))
    return lines
