"""Parsed sentences as JSON lines, with what the lines or rows of their input have."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping
from math import isfinite
from typing import Any, NamedTuple

from gpuparse.api.results import Parsed
from gpuparse.api.tokens import encoded, members_as_json
from gpuparse.data.formats.objects import FIELDS
from gpuparse.data.formats.sources import Piece, Rows
from gpuparse.errors import DataError, one_line
from gpuparse.jobs.predictions import Result

_OF_TEXT = ("text", "multiword")  # fields of a sentence that say how its words are written


def as_json_lines(piece: Piece, result: Result) -> bytes:
    """A piece with what was found, an object a line.

    The members of its line or row come first; then the fields of `ParsedSentence.to_dict` that it
    lacks. `tokens` and `trees` are written anew; of a document also `text`, which is that of the
    sentence, and `multiword`. `id` is null where the input names nothing. Faulty lines stay as they
    are, of faulty rows there are their columns.
    """
    parsed = Parsed(result, piece.counts, documents=piece.documents)
    if not isinstance(piece, Rows):
        return b"".join(_line(members_as_json(sentence, None)) for sentence in parsed)
    given = "id", *(_OF_TEXT if piece.documents is None else ())
    lines = []
    faulty = piece.is_faulty.tolist()
    for sentence, line, is_faulty in zip(parsed, _lines(piece), faulty, strict=True):
        if is_faulty:
            lines.append(line.data)
            continue
        found = members_as_json(sentence, None)
        new = {name: found[name] for name in found if not (name in given and name in line.members)}
        lines.append(_line({**line.members, **new}))
    return b"".join(lines)


def _line(members: Mapping[str, str]) -> bytes:
    return f"{{{','.join(members.values())}}}".encode() + b"\n"


class _Given(NamedTuple):
    """A line of the input: its members, key and value as JSON, by key; and its bytes."""

    members: Mapping[str, str]
    data: bytes


def _lines(piece: Rows) -> Iterator[_Given]:
    """The lines of a piece, or the rows of its table."""
    if isinstance(piece.table, list):
        return (_Given(line.members, line.data + b"\n") for line in piece.table)
    names = piece.table.schema.names
    if piece.documents is not None:
        names = [name for name in names if name != FIELDS[0]]  # which was added
    columns = []
    for name in names:
        try:
            values = piece.table.column(name).to_pylist()
            columns.append([f"{encoded(name)}:{encoded(_plain(value))}" for value in values])
        except (ValueError, OverflowError) as error:
            raise DataError(
                f"{piece.treebank.source}: column {name}: cannot be written as JSON:"
                f" {one_line(error)}; leave it out, or write a table"
            ) from error
    rows = (dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True))
    return (_Given(row, _line(row)) for row in rows)


def _plain(value: Any) -> Any:
    """A value of Arrow as JSON has it: bytes in base 64, numbers that it lacks as null."""
    if isinstance(value, float):
        return value if isfinite(value) else None
    if isinstance(value, dict):
        return {str(key): _plain(each) for key, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(each) for each in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return value if value is None or isinstance(value, (bool, int, str)) else str(value)
