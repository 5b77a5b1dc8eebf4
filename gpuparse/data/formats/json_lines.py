"""JSON lines: an object a line, each a sentence or a document, whose members stay as they are."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, BinaryIO

import numpy as np

from gpuparse.data.cached import cached_property
from gpuparse.data.conll import BYTE_ORDER_MARK, MAX_LINE
from gpuparse.data.formats.arrow_tables import TEXT
from gpuparse.data.formats.names import AUTO, CONLLU, JSONL, format_of, is_raw_text, is_table
from gpuparse.data.formats.names import TEXT as RAW_TEXT
from gpuparse.data.formats.objects import FIELDS
from gpuparse.data.formats.streams import beginning, opened
from gpuparse.errors import DataError, option
from gpuparse.files import input_file, no_utf8

CHUNK = 1 << 20  # bytes that are read at a time
TOKENS = "tokens"  # the field of a sentence whose words are objects
NO_FIELDS = (
    f"without the key {FIELDS[0]} (a list of words), {TOKENS} (a list of objects) or {TEXT} (for"
    " models with a tokeniser)"
)
_SPACES = re.compile("[ \t\r\n]*")
_STRINGS = re.compile(r'"(?:[^"\\]|\\.)*"')
_OPENING, _CLOSING = list(b"[{"), list(b"]}")
_MOST_LEVELS = 100  # of arrays and objects in each other
_SHORT = 18  # digits of a number that is read exactly


@dataclass(frozen=True, eq=False)
class JsonLine:
    """A line.

    number: from 1. data: its bytes. members: key and value of each member as they are in the line,
    by key. values: the values. fault: what is wrong with the line, "" if it is sound.
    """

    number: int
    data: bytes
    members: Mapping[str, str]
    values: Mapping[str, Any]
    fault: str = ""

    @cached_property
    def words(self) -> Any:
        """A sentence, as `read_sentences` takes it; None of a line without words."""
        if FIELDS[0] in self.values:
            found = {field: self.values[field] for field in FIELDS if field in self.values}
            return found if found[FIELDS[0]] is not None else found | {FIELDS[0]: []}
        tokens = self.values.get(TOKENS)
        if isinstance(tokens, list) and all(isinstance(t, dict) and FIELDS[0] in t for t in tokens):
            return [{field: t[field] for field in FIELDS if field in t} for t in tokens]
        return None

    @property
    def has_text(self) -> bool:
        """True for a document, which has a text and no words."""
        return TEXT in self.values and self.words is None


def cut_json_lines(
    file: BinaryIO, *, first: int = 1, chunk_bytes: int = CHUNK, keeps: bool = False
) -> Iterator[tuple[int, list[bytes]]]:
    """The lines of a stream, those of a block at a time, after the number of the first of them.

    Args:
        file: open for reading bytes. first: the number of its first line.
        keeps: whether lines that are too long are held whole, and not cut.
    Cost: memory for a block and a line.
    """
    for block in _blocks(file, chunk_bytes, keeps=keeps):
        yield first, block
        first += len(block)


def read_lines(first: int, block: Iterable[bytes]) -> Iterator[JsonLine]:
    """The members of each line, blank lines left out.

    A line is at fault that is no object of JSON in UTF-8, has a key twice, a number that JSON does
    not have, or more than MAX_LINE bytes.

    Args: first: the number of the first one.
    Cost: a microsecond a member.
    """
    for number, line in enumerate(block, first):
        line = line.removeprefix(BYTE_ORDER_MARK) if number == 1 else line
        if not line.isspace() and line:
            yield _read(number, line, MAX_LINE)


def _blocks(file: BinaryIO, chunk_bytes: int, *, keeps: bool) -> Iterator[list[bytes]]:
    """The lines that end in each block; of one that is too long, the beginning is enough."""
    held: list[bytes] = []  # of the line that goes on in the next block
    size = 0
    while block := file.read(chunk_bytes):
        first, *lines = block.split(b"\n")
        if keeps or size <= MAX_LINE:
            held.append(first)
            size += len(first)
        if lines:
            *whole, rest = lines
            yield [b"".join(held), *whole]
            held, size = [rest], len(rest)
    if size:
        yield [b"".join(held)]


def _read(number: int, line: bytes, most: int) -> JsonLine:
    try:
        if len(line) > most:
            raise DataError(f"the line has more than {most:,} bytes; break it up")
        members = _members(line.decode())
    except UnicodeDecodeError as error:
        what = f"byte {error.start} of the line is not UTF-8; convert the file to UTF-8"
        return JsonLine(number, line, {}, {}, (number == 1 and no_utf8(line)) or what)
    except json.JSONDecodeError as error:
        what = f"no JSON: {error.msg} at column {error.pos + 1}; write an object in each line"
        return JsonLine(number, line, {}, {}, what)
    except DataError as error:
        return JsonLine(number, line, {}, {}, str(error))
    return JsonLine(
        number, line, {key: text for key, (text, _) in members.items()},
        {key: value for key, (_, value) in members.items()},
    )  # fmt: skip


def _members(text: str) -> dict[str, tuple[str, Any]]:
    """The members of the object that a text is: key and value as text, and the value.

    Raises: json.JSONDecodeError: it is no JSON. DataError: no object; a key twice; too many levels.
    """
    if _levels(text) > _MOST_LEVELS:
        raise DataError(f"the JSON has more than {_MOST_LEVELS} levels")
    at = _after_spaces(text, 0)
    if text[at : at + 1] != "{":
        _decode(text, at)
        raise DataError("expected an object of JSON, { ... }")
    found: dict[str, tuple[str, Any]] = {}
    at = _after_spaces(text, at + 1)
    is_first = True
    while not (is_first and text[at : at + 1] == "}"):
        begin = at
        if text[at : at + 1] != '"':
            raise json.JSONDecodeError("expected a key in double quotes", text, at)
        key, at = _decode(text, at)
        at = _after_spaces(text, at)
        if text[at : at + 1] != ":":
            raise json.JSONDecodeError("expected a colon", text, at)
        value, at = _decode(text, _after_spaces(text, at + 1))
        if key in found:
            raise DataError(f"the key {_shown(key)} is there twice")
        found[key] = text[begin:at], value
        at, is_first = _after_spaces(text, at), False
        if text[at : at + 1] == "}":
            break
        if text[at : at + 1] != ",":
            raise json.JSONDecodeError("expected a comma or the end of the object", text, at)
        at = _after_spaces(text, at + 1)
    if _after_spaces(text, at + 1) < len(text):
        raise json.JSONDecodeError("there is more behind the object", text, at + 1)
    return found


def _levels(text: str) -> int:
    """The depth of arrays and objects in each other, or more where it is within the limit.

    The decoder's own limit depends on how deep its caller is.
    """
    n_most = text.count("[") + text.count("{")
    if n_most <= _MOST_LEVELS:
        return n_most
    codes = np.frombuffer(_STRINGS.sub("", text).encode(), np.uint8)
    steps = np.isin(codes, _OPENING).astype(np.int64) - np.isin(codes, _CLOSING)
    return int(steps.cumsum().max(initial=0))


def _after_spaces(text: str, at: int) -> int:
    found = _SPACES.match(text, at)
    return found.end() if found else at


def _number(text: str) -> int | float:
    """A whole number; one with more digits than any field has need not be exact."""
    return int(text) if len(text) <= _SHORT else float(text)


def _no_number(text: str) -> Any:
    raise DataError(f"{text} is no number of JSON")


_decode = json.JSONDecoder(parse_int=_number, parse_constant=_no_number).raw_decode


def _shown(key: str) -> str:
    return json.dumps(key)[:40]


def is_object(begin: bytes) -> bool:
    """True if the first line of an input is an object of JSON.

    A line of which only the beginning was read is one if it begins like one.
    """
    text = begin.removeprefix(BYTE_ORDER_MARK).strip()
    if not text.startswith(b"{"):
        return False
    if not begin.endswith(b"\n") and len(begin) >= CHUNK:
        return text[1:].lstrip().startswith(b'"')
    return not _read(1, text, len(text)).fault


def check_fields(begin: bytes, name: str) -> None:
    """Make sure that an input that begins with an object of JSON has sentences or documents.

    Raises: DataError: it has fields of neither.
    """
    line = _read(1, begin.removeprefix(BYTE_ORDER_MARK).strip(), CHUNK)
    if not line.fault and line.words is None and TEXT not in line.values:
        raise DataError(
            f"{name}: the first line is an object of JSON {NO_FIELDS}; to parse the JSON itself as"
            f" prose, give {option('input', TEXT)}"
        )


def stream_format(begin: bytes, name: str, *, is_text: bool) -> str:
    """The format of a stream, which has no suffix, by what `beginning` reads of it.

    Args: name: in messages. is_text: whether what begins like raw text may be raw text.
    Raises: DataError: as `check_fields`.
    """
    if is_object(begin):
        check_fields(begin, name)
        return JSONL
    return RAW_TEXT if is_text and is_raw_text(begin) else CONLLU


def file_format(path: str, asked: str = AUTO) -> str:
    """As `format_of`; but a file whose first line is an object of JSON has JSON lines.

    Raises: as `format_of`; DataError: as `check_fields`; a compressed file is damaged.
    """
    kind = format_of(path, asked)
    if asked == AUTO and kind != JSONL and not is_table(kind) and os.path.isfile(path):
        begin = first_line(path)
        if is_object(begin):
            check_fields(begin, path)
            return JSONL
    return kind


def first_line(path: str) -> bytes:
    """The first line of a file that is not blank, decompressed if its name says so."""
    with input_file(path) as file:
        return beginning(opened(file, path))
