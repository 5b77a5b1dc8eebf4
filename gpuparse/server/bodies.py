"""Reading of requests: bodies within limits, JSON without ambiguity, forms."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuparse.errors import one_line
from gpuparse.server.refusals import RequestError

if TYPE_CHECKING:
    from starlette.requests import Request

MAX_FIELDS = 100
# Of JSON as Python objects: of a list or object, of another value, and of all, about.
OPENED, VALUE, MAX_OBJECTS = 200, 60, 192 << 20
_BOUNDARY = re.compile(r'boundary=(?:"([^"\r\n]{1,200})"|([^\s;"]{1,200}))', re.IGNORECASE)
_NAME = re.compile(rb';\s*name="([^"\r\n]*)"', re.IGNORECASE)


class Held:
    """The bytes of all bodies that are held at once."""

    def __init__(self, most: int) -> None:
        self.most, self.n_bytes = most, 0

    def take(self, n_bytes: int) -> None:
        """Hold more. Raises: RequestError: it would be too much."""
        if self.n_bytes + n_bytes > self.most:
            raise RequestError(
                429, "other requests have too many bytes at present: try again later",
                code="queue_full",
            )  # fmt: skip
        self.n_bytes += n_bytes


async def read_body(
    request: Request, *, max_bytes: int, idle_seconds: float, seconds: float, held: Held
) -> bytes:
    """The body of a request.

    Args: idle_seconds: to wait for the next bytes. seconds: for all of them. held: gets its bytes.
    Raises: RequestError: it is too long or too slow. ConnectionError: the client has left.
    """
    refused = RequestError(
        413, f"the body has more than {max_bytes:,} bytes: send the text in several requests",
        code="too_many_bytes",
    )  # fmt: skip
    announced = request.headers.get("content-length", "0")
    if announced.isascii() and announced.isdigit() and int(announced[:20]) > max_bytes:
        raise refused
    loop = asyncio.get_running_loop()
    end, body = loop.time() + seconds, bytearray()
    while True:
        try:
            message = await asyncio.wait_for(
                request.receive(), min(idle_seconds, max(0.001, end - loop.time()))
            )
        except TimeoutError:
            raise RequestError(408, "the body came too slowly", code="slow_body") from None
        if message["type"] == "http.disconnect":
            raise ConnectionError
        piece = message.get("body", b"")
        if len(body) + len(piece) > max_bytes:
            raise refused
        held.take(len(piece))
        request.scope["gpuparse.held"] += len(piece)
        body += piece
        if not message.get("more_body"):
            return bytes(body)


def read_json(body: bytes) -> dict[str, Any]:
    """An object of JSON.

    Raises: RequestError: it is no object in UTF-8, has a key twice, numbers that JSON has not, or
        more values than memory is planned for.
    """
    if OPENED * (len(body) // 2) > MAX_OBJECTS and _size(body) > MAX_OBJECTS:
        raise RequestError(
            413, "the JSON has too many values: send them in several requests",
            code="too_many_values",
        )  # fmt: skip
    try:
        found = json.loads(body.decode(), object_pairs_hook=_once, parse_constant=_no_number)
    except UnicodeDecodeError as error:
        raise RequestError(400, f"byte {error.start} of the body is not UTF-8") from None
    except RecursionError:
        raise RequestError(400, "the JSON has too many levels") from None
    except json.JSONDecodeError as error:
        raise RequestError(
            400, f"no JSON: {error.msg} at line {error.lineno}, column {error.colno}"
        ) from None
    except ValueError:  # a whole number of thousands of digits
        raise RequestError(400, "the JSON has a number that is too long") from None
    if not isinstance(found, dict):
        raise RequestError(400, "expected an object of JSON, { ... }")
    return found


def _size(body: bytes) -> int:
    """About how many bytes JSON takes as Python objects, without its texts."""
    marks = np.frombuffer(body.replace(rb"\\", b"__").replace(rb"\"", b"__"), np.uint8)
    outside = np.cumsum(marks == ord('"'), dtype=np.uint8) % 2 == 0  # the count may wrap
    opened = ((marks == ord("[")) | (marks == ord("{"))) & outside
    return OPENED * int(opened.sum()) + VALUE * int(((marks == ord(",")) & outside).sum())


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) < len(pairs):
        raise RequestError(400, "the JSON has a key twice in one object")
    return found


def _no_number(text: str) -> Any:
    raise RequestError(400, f"{text} is no number of JSON")


def read_form(body: bytes, content_type: str, query: bytes) -> dict[str, str]:
    """The fields of a form, after those of the URL.

    Args: content_type: of the body, "" without one. query: of the URL.
    Raises: RequestError: another type, or a form that cannot be read.
    """
    fields = _encoded(query, "URL")
    kind = content_type.partition(";")[0].strip().lower()
    if kind == "multipart/form-data":
        return fields | _multipart(body, content_type)
    if kind == "application/x-www-form-urlencoded":
        return fields | _encoded(body, "form")
    if body:
        raise RequestError(
            400, f"Unsupported payload Content-Type '{one_line(content_type) or '<none>'}'."
        )
    return fields


def _encoded(text: bytes, what: str) -> dict[str, str]:
    """The fields of `a=b&c=d`, each percent-encoded."""
    if text.count(b"&") >= MAX_FIELDS:
        raise RequestError(400, f"the {what} has more than {MAX_FIELDS} fields")
    fields = {}
    for name, _, value in (pair.partition(b"=") for pair in text.split(b"&") if pair):
        try:
            fields[_decoded(name)] = _decoded(value)
        except UnicodeDecodeError:
            raise RequestError(400, f"the {what} is not UTF-8") from None
    return fields


def _decoded(text: bytes) -> str:
    """Text without `+` for spaces and `%XX` for bytes; a `%` without two digits stays."""
    given = np.frombuffer(text.replace(b"+", b" "), np.uint8)
    at = np.flatnonzero(given[:-2] == ord("%"))
    high, low = _digits(given[at + 1]), _digits(given[at + 2])
    is_byte = (high < 16) & (low < 16)
    at = at[is_byte]
    found, is_kept = given.copy(), np.ones(len(given), np.bool_)
    found[at] = 16 * high[is_byte] + low[is_byte]
    is_kept[at + 1] = is_kept[at + 2] = False
    return found[is_kept].tobytes().decode()


def _digits(codes: np.ndarray) -> np.ndarray:
    """The values of hexadecimal digits; 16 for another byte."""
    lower = codes | 32
    letters = np.where((lower >= ord("a")) & (lower <= ord("f")), lower - (ord("a") - 10), 16)
    return np.where((codes >= ord("0")) & (codes <= ord("9")), codes - ord("0"), letters)


def _multipart(body: bytes, content_type: str) -> dict[str, str]:
    found = _BOUNDARY.search(content_type)
    wrong = RequestError(400, "Cannot parse the multipart/form-data payload.")
    if not found:
        raise wrong
    mark = b"--" + (found[1] or found[2]).encode("latin-1")
    text = b"\r\n" + body
    parts = text.split(b"\r\n" + mark, MAX_FIELDS + 2)
    if len(parts) < 2 or not parts[-1].startswith(b"--") or len(parts) > MAX_FIELDS + 1:
        raise wrong
    fields = {}
    for part in parts[1:-1]:
        head, blank, value = part.partition(b"\r\n\r\n")
        name = _NAME.search(head)
        if not blank or not name:
            raise wrong
        try:
            fields[name[1].decode()] = value.decode()
        except UnicodeDecodeError:
            raise RequestError(400, "the form is not UTF-8") from None
    return fields


class Fields:
    """The fields of an object of JSON, each checked when it is taken."""

    def __init__(self, given: Mapping[str, Any], known: Collection[str]) -> None:
        """Raises: RequestError: a field that is not known."""
        self._given = given
        for name in given:
            if name not in known:
                raise RequestError(
                    400, f"no field {one_line(name)!r}; expected {', '.join(known)}",
                    code="unknown_field", where=one_line(name),
                )  # fmt: skip

    def __contains__(self, name: str) -> bool:
        return self._given.get(name) is not None

    def text(self, name: str) -> bytes:
        """A string, as UTF-8."""
        value = self._of(name, str, "a string")
        try:
            return str(value).encode()
        except UnicodeEncodeError as error:
            raise self.wrong(name, f"has half a surrogate pair at {error.start}") from None

    def flag(self, name: str) -> bool:
        """true or false; false if it is missing."""
        return name in self and bool(self._of(name, bool, "true or false"))

    def number(self, name: str, least: int, most: int) -> int | None:
        """A whole number; None if it is missing."""
        return self.checked_number(name, self._given[name], least, most) if name in self else None

    def choice(self, name: str, known: tuple[str, ...]) -> str | None:
        """One of some strings; None if it is missing."""
        if name not in self:
            return None
        value = self._given[name]
        if value not in known or not isinstance(value, str):
            raise self.wrong(name, f"expected {' or '.join(known)}")
        return value

    def items(self, name: str) -> list[Any]:
        """A list."""
        found: list[Any] = self._of(name, list, "a list")
        return found

    def checked_number(self, name: str, value: Any, least: int, most: int) -> int:
        """A whole number. Raises: RequestError: another thing."""
        if type(value) is not int or not least <= value <= most:
            raise self.wrong(name, f"expected a whole number from {least} to {most:,}")
        return value

    def wrong(self, name: str, what: str) -> RequestError:
        """The error of a field."""
        return RequestError(400, f"{name}: {what}", code="wrong_field", where=name)

    def _of(self, name: str, kind: type, expected: str) -> Any:
        value = self._given.get(name)
        if type(value) is not kind:
            raise self.wrong(name, f"expected {expected}")
        return value
