"""Files of arrays as no training writes them, with sums that are right if nothing else is.

And how a catalogue of them is tried.
"""

import json
import os
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data import array_file
from gpuparse.data.array_file import sha256
from gpuparse.model.folder import FORMAT, WEIGHTS

PATIENCE = 60  # seconds of an entry that hangs
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


def _sum_of(array: "np.ndarray | Raw") -> str:
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
    signal.alarm(PATIENCE)
    try:
        yield
    finally:
        signal.alarm(0)
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


def try_entries(
    entries: Iterable[tuple[str, Callable[[], str]]], words: list[str], step: int
) -> tuple[Counter[str], list[str]]:
    """Try every `step`-th entry whose name has all the words: outcomes, and what failed.

    Args: entries: names, and what tries an entry and returns its outcome.
    """
    counts: Counter[str] = Counter()
    failed = []
    for number, (name, attempt) in enumerate(entries):
        if number % step or not all(each in name for each in words):
            continue
        if "SHOW" in os.environ:
            print(name, flush=True)
        try:
            counts[attempt()] += 1
        except Exception as error:
            counts["failed"] += 1
            failed.append(f"{name}: {type(error).__name__}: {error}")
    return counts, failed


def print_outcomes(what: str, counts: Counter[str], failed: list[str]) -> int:
    """Print what `try_entries` returned; the exit code."""
    print(*failed, sep="\n")
    print(f"hostile {what}:", ", ".join(f"{count} {name}" for name, count in counts.items()))
    return 1 if failed else 0
