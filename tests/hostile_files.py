"""Files of arrays as no training writes them, with sums that are right if nothing else is.

    python -m tests.hostile_files [models] [stages] [states] [encoders] [WORD ...]

Tries the entries whose names have all words. `tests/hostile_models.py`, `hostile_stages.py`,
`hostile_states.py` and `hostile_encoders.py` describe the kinds of folders that are read: how a
right one is made and used, and what is hostile in that kind alone. Here is the damage that all have
in common. Each entry is a small folder of which one thing is changed. It must be refused with an
error of ours, in one line that begins with its path, or do what a right one does, both within
seconds of CPU time and some hundred megabytes. Printed are the numbers of entries by kind and
outcome; the exit code is 1 if any is neither.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import socket
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse.data import array_file
from gpuparse.data.array_file import sha256
from gpuparse.errors import ConfigError, ModelError
from gpuparse.model.folder import FORMAT, WEIGHTS

CATALOGUES = ("models", "stages", "states")
ENCODERS = "encoders"  # which need transformers
PATIENCE = 60  # seconds of an entry that hangs
# CPU seconds: most entries take a hundredth of one; a slow and busy machine must not fail here.
SECONDS = 5.0
_NAMES = {"i1": "I8", "i2": "I16", "i4": "I32", "i8": "I64", "u1": "U8", "u2": "U16", "u4": "U32",
          "u8": "U64", "f2": "F16", "f4": "F32", "f8": "F64", "b1": "BOOL"}  # fmt: skip


class Raw(NamedTuple):
    """An array's entry in the header, and its bytes; `offsets` None: where they are."""

    dtype: Any
    shape: Any
    data: bytes
    offsets: Any = None


Arrays = dict[str, "np.ndarray | Raw"]


def as_text(content: object) -> str:
    """As `array_file.as_json`, NaN included."""
    return json.dumps(content, ensure_ascii=False, sort_keys=True, indent=0) + "\n"


def pack(facts: dict | str, arrays: Arrays, *, form: Any = FORMAT, sums: bool = True) -> bytes:
    """The content of a file of arrays.

    Args:
        facts: without the sums, which are made; or the text of the facts as it is.
        sums: False: the facts are complete, right or not.
    """
    places, data = {}, b""
    for name, array in arrays.items():
        if isinstance(array, np.ndarray):
            raw = Raw(_NAMES[array.dtype.str[1:]], list(array.shape), array.tobytes())
        else:
            raw = array
        offsets = raw.offsets or [len(data), len(data) + len(raw.data)]
        places[name] = {"dtype": raw.dtype, "shape": raw.shape, "data_offsets": offsets}
        data += raw.data
    if isinstance(facts, dict) and sums:
        of_arrays = {name: _sum_of(array) for name, array in arrays.items()}
        facts = {"format": form, "arrays": of_arrays} | facts
        facts["sha256"] = sha256(as_text(facts).encode("utf-8", "surrogatepass"))
    text = facts if isinstance(facts, str) else as_text(facts)
    header = json.dumps({"__metadata__": {"gpuparse": text}} | places).encode()
    header += b" " * (-len(header) % 8)
    return len(header).to_bytes(8, "little") + header + data


def _sum_of(array: np.ndarray | Raw) -> str:
    return array_file.sum_of_array(array) if isinstance(array, np.ndarray) else sha256(array.data)


def facts_of(folder: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """The facts of a model without the sums of its arrays, and the arrays."""
    return array_file.read(folder / WEIGHTS, form=FORMAT, what="model")


def rewrite(folder: Path, facts: dict | str, arrays: Arrays, *, form: Any = FORMAT) -> None:
    """Write the facts and arrays of a model with the right sums; a text is written as it is."""
    (folder / WEIGHTS).write_bytes(pack(facts, arrays, form=form))


@contextmanager
def bounded(seconds: float, megabytes: int) -> Iterator[None]:
    """AssertionError if what is done takes more CPU time or memory; a hang ends with a signal."""
    before, began = _reset_peak(), time.process_time()
    signal.setitimer(signal.ITIMER_PROF, PATIENCE)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    spent, grown = time.process_time() - began, _peak() - before
    if "libasan" not in os.environ.get("LD_PRELOAD", ""):  # whose own cost is neither
        assert spent < seconds, f"{spent:.1f} s"
        assert grown < megabytes << 20, f"{grown >> 20} MB"


def _reset_peak() -> int:
    """Forget the peak of memory in use, in bytes; what is in use now."""
    Path("/proc/self/clear_refs").write_text("5")
    return _peak()


def _peak() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) << 10
    raise AssertionError("no VmHWM")


# ---- kinds of folders, and what is changed of one ---------------------------------------------


@dataclass
class Parts:
    """The parts of a folder, to be changed.

    texts: other files; data are written as JSON. packed: the file of arrays as it is. files: what
    makes something of a path in place of a file.
    """

    facts: Any
    arrays: Arrays
    form: Any = FORMAT
    texts: dict[str, Any] = field(default_factory=dict)
    packed: bytes | None = None
    files: dict[str, Callable[[Path], object]] = field(default_factory=dict)


class Kind(NamedTuple):
    """A kind of folder.

    Args:
        parts: makes the parts of a right one.
        use: reads a folder and does all that can be done with it; the outcome.
        file: the name of the file of arrays.
        outcome: of a right one.
        is_whole: True if its facts and texts are damaged, too; others differ in arrays alone.
        seal: the facts as they are written, sums of parts included.
        megabytes: of memory, beyond those that are in use.
    """

    parts: Callable[[], Parts]
    use: Callable[[Path], str]
    file: str = WEIGHTS
    outcome: str = "parsed"
    is_whole: bool = True
    seal: Callable[[Parts], Any] = lambda parts: parts.facts
    megabytes: int = 100

    def write(self, parts: Parts, folder: Path) -> None:
        """Write a folder, all sums right."""
        for name, text in parts.texts.items():
            if not isinstance(text, str):
                parts.texts[name] = as_text(text)
        texts = {n: text.encode("utf-8", "surrogatepass") for n, text in parts.texts.items()}
        packed = parts.packed or pack(self.seal(parts), parts.arrays, form=parts.form)
        for name, content in (*texts.items(), (self.file, packed)):
            (folder / name).parent.mkdir(exist_ok=True)
            if name in parts.files:
                parts.files[name](folder / name)
            else:
                (folder / name).write_bytes(content)


class Entry(NamedTuple):
    """A hostile folder: what is changed of its parts, and what must become of it, if only that."""

    name: str
    kind: Kind
    change: Callable[[Parts], object]
    outcome: str = ""


def array(name: str, value: Any) -> Callable[[Parts], object]:
    """A change of an array. value: an array or Raw, or a function of the array that is there."""

    def change(parts: Parts) -> None:
        with np.errstate(over="ignore", invalid="ignore"):
            parts.arrays[name] = value(parts.arrays[name]) if callable(value) else value

    return change


def at(place: str, value: Any, text: str = "") -> Callable[[Parts], object]:
    """A change of data.

    Args:
        place: keys and numbers with slashes.
        value: the data, or a function of what is there; REMOVED for none.
        text: the name of the file, the facts without.
    """

    def change(parts: Parts) -> None:
        *above, last = place.split("/")
        holder = parts.texts[text] if text else parts.facts
        for key in above:
            holder = holder[int(key) if isinstance(holder, list) else key]
        key = int(last) if isinstance(holder, list) else last
        if value is REMOVED:
            del holder[key]
        else:
            known = holder[key] if isinstance(holder, list) else holder.get(key)
            holder[key] = value(known) if callable(value) else value

    return change


def other(name: str, value: Any) -> Callable[[Parts], object]:
    """A change of another part of `Parts`."""
    return lambda parts: setattr(parts, name, value)


def text(name: str, value: Any) -> Callable[[Parts], object]:
    """A change of a whole file."""
    return lambda parts: parts.texts.update({name: value})


# ---- damage ------------------------------------------------------------------------------------

REMOVED = object()


def raw(found: np.ndarray, **said: Any) -> Raw:
    """An array, of which the header says something else."""
    whole = {"dtype": _NAMES[found.dtype.str[1:]], "shape": list(found.shape)} | said
    return Raw(data=whole.pop("data", found.tobytes()), **whole)


def _ends(found: np.ndarray) -> np.iinfo | np.finfo:
    return np.finfo(found.dtype) if found.dtype.kind == "f" else np.iinfo(found.dtype)


SHAPES: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "no rows": lambda a: a[:0],
    "one row": lambda a: a[:1],
    "a line of rows": lambda a: a[:16],
    "half the rows": lambda a: a[: len(a) // 2],
    "one row less": lambda a: a[:-1],
    "a line less": lambda a: a[:-16],
    "one row more": lambda a: np.concatenate([a, a[:1]]),
    "a line more": lambda a: np.concatenate([a, a[:16]]),
    "twice the rows": lambda a: np.concatenate([a, a]),
    "one axis": lambda a: a.reshape(-1),
    "one axis more": lambda a: a[..., np.newaxis],
    "no axes": lambda a: a.reshape(-1)[:1].reshape(()) if a.size else a,
    "transposed": lambda a: np.ascontiguousarray(a.T),
    "one column more": lambda a: np.pad(a, [(0, 0)] * (a.ndim - 1) + [(0, 1)]),
    "a hundred columns": lambda a: np.tile(a, 100),
    "no columns": lambda a: a[..., :0],
    "smallest numbers": lambda a: np.full_like(a, _ends(a).min),
    "largest numbers": lambda a: np.full_like(a, _ends(a).max),
    "zeros": np.zeros_like,
    "ones": np.ones_like,
}
FLOATS = (np.nan, np.inf, -np.inf, 1e308, 3e38, -3e38, 1e-40, -1.0)
TYPES: dict[str, Callable[[np.ndarray], Any]] = {
    **{
        kind: lambda a, kind=kind: a.astype(kind)
        for kind in ("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f2", "f4", "f8", "b1")
    },
    "not a number": lambda a: np.full(a.shape, np.nan, np.float32),
    "infinity": lambda a: np.full(a.shape, np.inf, np.float64),
    "BF16": lambda a: raw(a, dtype="BF16"),
    "F8_E4M3": lambda a: raw(a, dtype="F8_E4M3", data=a.astype(np.int8).tobytes()),
    "F8_E5M2": lambda a: raw(a, dtype="F8_E5M2", data=a.astype(np.int8).tobytes()),
    "C64": lambda a: raw(a, dtype="C64", data=np.tile(a, (1, 4)).tobytes()),
    "unknown": lambda a: raw(a, dtype="I17"),
    "no text": lambda a: raw(a, dtype=16),
    "a list": lambda a: raw(a, dtype=["I16"]),
}
HEADERS: dict[str, Callable[[np.ndarray], Raw]] = {
    "2^40 rows, no columns": lambda a: raw(a, shape=[1 << 40, 0], data=b""),
    "2^62 rows, no columns": lambda a: raw(a, shape=[1 << 62, 0], data=b""),
    "2^63 rows": lambda a: raw(a, shape=[1 << 63, 1]),
    "a product that wraps": lambda a: raw(a, shape=[1 << 32, 1 << 32]),
    "a product that wraps to its size": lambda a: raw(a, shape=[(1 << 63) + len(a), 1]),
    "2^64 + 1 columns": lambda a: raw(a, shape=[len(a), (1 << 64) + 1]),
    "fewer than none": lambda a: raw(a, shape=[-len(a), -1]),
    "a fraction": lambda a: raw(a, shape=[float(len(a)), 1]),
    "a text": lambda a: raw(a, shape=[str(len(a)), 1]),
    "true": lambda a: raw(a, shape=[len(a), True]),
    "nested": lambda a: raw(a, shape=[[len(a)], 1]),
    "no list": lambda a: raw(a, shape=len(a)),
    "nothing": lambda a: raw(a, shape=None),
    "a thousand axes": lambda a: raw(a, shape=[len(a)] + [1] * 999),
    "65 axes": lambda a: raw(a, shape=[1] * 64 + [len(a)]),
    "digits without end": lambda a: raw(a, shape=[10**4000, 1]),
    "offsets reversed": lambda a: raw(a, offsets=[a.nbytes, 0]),
    "offsets below 0": lambda a: raw(a, offsets=[-a.nbytes, 0]),
    "offsets beyond": lambda a: raw(a, offsets=[a.nbytes, 2 * a.nbytes]),
    "offsets of 2^63": lambda a: raw(a, offsets=[1 << 63, (1 << 63) + a.nbytes]),
    "offsets of 2^64": lambda a: raw(a, offsets=[1 << 64, (1 << 64) + a.nbytes]),
    "a gap before": lambda a: raw(a, offsets=[2, a.nbytes + 2]),
    "fractions of bytes": lambda a: raw(a, offsets=[0.0, float(a.nbytes)]),
    "three offsets": lambda a: raw(a, offsets=[0, a.nbytes, a.nbytes]),
    "no offsets": lambda a: raw(a, offsets="none"),
    "bytes too many": lambda a: raw(a, data=a.tobytes() + b"xx"),
    "bytes too few": lambda a: raw(a, data=a.tobytes()[:-2]),
}
VALUES: dict[str, Any] = {
    "missing": REMOVED, "nothing": None, "true": True, "-1": -1, "0": 0, "1": 1, "33": 33,
    "1.0": 1.0, "0.0": 0.0, "-0.5": -0.5,
    "2^31": 1 << 31, "2^63": 1 << 63, "2^64": 1 << 64, "1e308": 1e308, "5e-324": 5e-324,
    "nan": float("nan"), "inf": float("inf"), "-inf": float("-inf"), "empty": "",
    "a text": "eisner\n", "a list": [1.0], "a table": {"a": 1}, "1e9": 1e9, "1.1e9": 1.1e9,
}  # fmt: skip
TEXTS: dict[str, str] = {
    repr(text)[:20]: text
    for text in (
        " ", "   ", "\u3000", "a|b", "a\tb", "a\nb", "a\n\n1\tb", "\n", "a\rb", "a\r\n", "a\0b",
        "\0", "\ud800", "\udfff x", "_", "a b", "#", "a|b=c", "a\u2028b", "\x1b[2J", "-", "1-2",
        "x" * 900, "x" * 1001, "x" * 1_000_000,
    )
}  # fmt: skip
LISTS: dict[str, Callable[[list], list]] = {
    "one less": lambda known: known[:-1],
    "one more": lambda known: [*known, "new"],
    "the first again": lambda known: [*known, *known[:1]],
    "twice the same": lambda known: [*known[:1], *known[:-1]],
    "reversed": lambda known: known[::-1],
    "700 more": lambda known: known + [f"+{i}" for i in range(700)],
    "70,000": lambda known: [str(i) for i in range(70_000)],
    "300,000": lambda known: [str(i) for i in range(300_000)],
    "nested": lambda known: [known],
}
TABLES: dict[str, Callable[[dict], dict]] = {
    "empty table": lambda known: {},
    "one missing": lambda known: dict(list(known.items())[1:]),
    **{
        f"{name!r} more": lambda known, name=name: known | {name: ["a"]}
        for name in ("lemma", "x", "feats.*", "author", "", "__class__", "\n\x1b[2J", "\ud800")
    },
    "200,000 more": lambda known: known | {f"feats.{i}": [] for i in range(200_000)},
    "all nothing": dict.fromkeys,
    "all numbers": lambda known: dict.fromkeys(known, 3),
    "all texts": lambda known: dict.fromkeys(known, "abc"),
    "all empty": lambda known: {name: [] for name in known},
}
YAMLS: dict[str, str] = {
    "empty": "", "a number": "7", "a list": "[]", "nul": "\0", "no YAML": "{",
    "a tag": "!!python/name:os.system",
    "aliases": "a: &a [x]\nb: [*a, *a]", "deep": "[" * 10_000, "2 MiB": "#" * (2 << 20),
    "1 MiB of a comment": "#" * ((1 << 20) - 1), "two documents": "a: 1\n---\nb: 2\n",
    "keys twice": "arc: []\narc: []\n", "control": "\x1b[2J",
    "escapes": '"\\e[2J": 1\n', "halves of characters": "\ud800",
}  # fmt: skip
JSONS: dict[str, str] = {
    "empty": "", "a number": "7", "a list": "[]", "nothing": "null", "nul": "\0", "no JSON": "{",
    "deep": "[" * 100_000, "deep tables": '{"a":' * 100_000, "not a number": "NaN",
    "a byte order mark": "\ufeff{}", "a number without end": "1" * 100_000,
    "5 million lists": "[" + "[]," * 5_000_000 + "[]]",
    "7 million values": '["",' + '"",' * 7_000_000 + '""]',
    "labels twice": '{"labels": [], "labels": [], "primary": null, "pos_column": 3, "values": {}}',
}  # fmt: skip
FACTS: dict[str, str] = {
    "empty": "", "{}": "{}", "a list": "[]", "a number": "7", "nothing": "null", "no JSON": "{",
    "deep": "[" * 200_000, "deep tables": '{"a":' * 100_000, "not a number": "NaN", "nul": "\0",
    "format alone": '{"format": 5}', "format twice": '{"format": 5, "format": 5}',
    "1 MB of blanks": " " * 1_000_000 + '{"format": 5}', "3 MB of blanks": " " * 3_000_000,
}  # fmt: skip


def _device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def _socket(path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as bound:
        before = os.getcwd()
        os.chdir(path.parent)  # names of sockets are short
        try:
            bound.bind(path.name)
        finally:
            os.chdir(before)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(8 << 30)


FILES: dict[str, Callable[[Path], object]] = {
    "missing": lambda path: None,
    "a folder": Path.mkdir,
    "a pipe": os.mkfifo,
    "a socket": _socket,
    "a link to a device": _device,
    "a link to a terminal": lambda path: path.symlink_to("/dev/tty"),
    "a link to itself": lambda path: path.symlink_to(path.name),
    "a link to nothing": lambda path: path.symlink_to("nowhere"),
    "a link to a folder": lambda path: path.symlink_to("/"),
    "a link to a pipe": lambda path: (os.mkfifo(f"{path}.pipe"), path.symlink_to(f"{path}.pipe")),
    "8 GB of nothing": _sparse,
    "no text": lambda path: path.write_bytes(b"\xff\xfe" * 100),
}


def header_of(content: bytes, size: int | None = None) -> bytes:
    """A weights file with this header; size: what it says of the header's length."""
    return (len(content) if size is None else size).to_bytes(8, "little") + content


PACKED: dict[str, bytes] = {
    "one byte": b"x", "7 bytes": b"\0" * 7, "no header": b"\0" * 8,
    "a huge header": header_of(b"{}", 1 << 40),
    "a header of 2^64 - 1": header_of(b"{}", (1 << 64) - 1), "a header of -1": b"\xff" * 8,
    "{}": header_of(b"{}"), "a list": header_of(b"[]"), "deep": header_of(b"[" * 100_000),
    "no JSON": header_of(b"{" * 9), "no UTF-8": header_of(b"\xff" * 9),
    "3 MB of blanks": header_of(b"{}" + b" " * 3_000_000),
    "a pickle": b"\x80\x04." * 50, "a zip file": b"PK\x03\x04" + b"x" * 100,
    "metadata is a list": header_of(b'{"__metadata__": ["gpuparse"]}'),
    "metadata is a number": header_of(b'{"__metadata__": {"gpuparse": 4}}'),
    "two metadata": header_of(b'{"__metadata__": {}, "__metadata__": {}}'),
}  # fmt: skip


def damages(found: Any) -> dict[str, Any]:
    """Other data in place of what was found, by name."""
    more = {str: TEXTS, list: LISTS, dict: TABLES}.get(type(found), {})
    return VALUES | dict(more)


def places(found: Any, above: str = "") -> Iterator[tuple[str, Any]]:
    """All keys of tables, and the middle of lists, with what is there."""
    keys = found if isinstance(found, dict) else ()
    if isinstance(found, list) and found:
        keys = [len(found) // 2]
    for key in keys:
        yield f"{above}{key}", found[key]
        yield from places(found[key], f"{above}{key}/")


def of_arrays(kind: Kind, parts: Parts) -> Iterator[Entry]:
    """Every array with every damage; what headers say, of the last one alone."""
    for name, found in parts.arrays.items():
        yield Entry(f"{name}: missing", kind, lambda p, name=name: p.arrays.pop(name))
        for what, value in (SHAPES | TYPES if kind.is_whole else SHAPES).items():
            yield Entry(f"{name}: {what}", kind, array(name, value))
        for number in FLOATS if found.dtype.kind == "f" else ():
            value = partial(np.full_like, fill_value=number)
            yield Entry(f"{name}: {number}", kind, array(name, value))
    if kind.is_whole:
        for what, value in HEADERS.items():
            yield Entry(f"{name}: {what}", kind, array(name, value), "refused")
        for name in ("bases", "", "weights2", "\n\x1b[2J"):
            change = array(name, np.zeros((3, 1), np.int16))
            yield Entry(f"an unknown array {name!r}", kind, change, "refused")
        yield Entry("no arrays", kind, lambda p: p.arrays.clear(), "refused")


def of_facts(kind: Kind, parts: Parts) -> Iterator[Entry]:
    """Every fact with every other value, facts as no JSON has them, and files that are none."""
    for place, found in places(parts.facts):
        for what, value in damages(found).items():
            yield Entry(f"{place}: {what}", kind, at(place, value))
    for name in ("author", "__class__", "arrays2", "\n\x1b[2J"):
        yield Entry(f"an unknown fact: {name!r}", kind, at(name, 1), "refused")
    forms = (0, parts.form - 1, parts.form + 1, float(parts.form), str(parts.form), None,
             [parts.form], True, 1 << 64)  # fmt: skip
    for form in forms:
        yield Entry(f"format: {form!r}", kind, other("form", form))
    for what in ("texts", "arrays"):
        for value in ({}, [], None, "x", {"arcs": 1}, {"config.yaml": None}):
            yield Entry(f"sums of {what}: {value!r}", kind, at(what, value))
    for what, content in FACTS.items():
        content = content.replace("5", str(parts.form))
        yield Entry(f"facts: {what}", kind, lambda p, content=content: setattr(
            p, "packed", pack(content, p.arrays)
        ), "refused")  # fmt: skip
    for what, content in PACKED.items():
        yield Entry(what, kind, other("packed", content), "refused")
    for name in (*parts.texts, kind.file):
        for what, make in FILES.items():
            yield Entry(f"{name} is {what}", kind, other("files", {name: make}))


def of_texts(kind: Kind, parts: Parts) -> Iterator[Entry]:
    """Everything in files of JSON or YAML with every other value, and files that are neither."""
    for name, found in parts.texts.items():
        for place, there in places(found):
            for what, value in damages(there).items():
                yield Entry(f"{name}/{place}: {what}", kind, at(place, value, name))
        for what, content in (JSONS if name.endswith(".json") else YAMLS).items():
            yield Entry(f"{name}: {what}", kind, text(name, content))


# ---- trying them -----------------------------------------------------------------------------


def entries(catalogue: str) -> Iterator[Entry]:
    """The entries of one of CATALOGUES: all damage of its kinds, and what it has beside that."""
    module = importlib.import_module(f"tests.hostile_{catalogue}")
    for name, kind in module.KINDS.items():
        parts = kind.parts()
        found = [Entry("unchanged", kind, lambda p: None, kind.outcome), *of_arrays(kind, parts)]
        if kind.is_whole:
            found += [*of_facts(kind, parts), *of_texts(kind, parts)]
        yield from (each._replace(name=f"{name}: {each.name}") for each in found)
    yield from module.others()


def try_entry(entry: Entry) -> str:
    """Write, read and use one hostile folder; the outcome. Raises: AssertionError: a wrong one."""
    kind, parts = entry.kind, entry.kind.parts()
    entry.change(parts)
    with tempfile.TemporaryDirectory() as top:
        folder = Path(top) / "model"
        folder.mkdir()
        kind.write(parts, folder)
        del parts
        with bounded(SECONDS, kind.megabytes):
            try:
                outcome = kind.use(folder)
            except (ModelError, ConfigError) as error:
                outcome = "refused"
                check_message(error, folder)
    assert entry.outcome in ("", outcome), outcome
    return outcome


def check_message(error: Exception, folder: Path) -> None:
    """AssertionError unless a refusal is a printable line that begins with the path.

    A ConfigError, of a state of another run, has a line for each difference.
    """
    message = str(error)
    is_line = not isinstance(error, ConfigError)
    lines = [message] if is_line else message.split("\n")
    assert all(line.isprintable() for line in lines), message
    assert not is_line or folder == Path() or message.startswith(str(folder)), message
    assert max(map(len, lines)) < 400 + 2 * len(str(folder)), message


def try_all(
    catalogue: str, words: Iterable[str] = (), step: int = 1
) -> tuple[Counter[str], list[str]]:
    """Try every `step`-th entry whose name has all the words: outcomes, and what failed."""
    counts: Counter[str] = Counter()
    failed = []
    for number, entry in enumerate(entries(catalogue)):
        if number % step or not all(word in entry.name for word in words):
            continue
        if "SHOW" in os.environ:
            print(entry.name, flush=True)
        try:
            counts[try_entry(entry)] += 1
        except Exception as error:
            counts["failed"] += 1
            failed.append(f"{entry.name}: {type(error).__name__}: {error}")
    return counts, failed


def main(words: list[str]) -> int:
    """The command."""
    torch.set_num_threads(1)
    every = []
    every_one = (*CATALOGUES, ENCODERS)
    chosen = [word for word in words if word in every_one]
    for catalogue in chosen or every_one:
        counts, failed = try_all(catalogue, set(words) - set(chosen))
        print(*failed, sep="\n")
        print(f"{catalogue}:", ", ".join(f"{count} {name}" for name, count in counts.items()))
        every += failed
    return 1 if every else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
