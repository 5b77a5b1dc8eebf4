"""Calls of the compiled library with wrong shapes, types and numbers; a crash is told by its name.

    python -m tests.hostile_calls [TRIALS [FUNCTION ...]]

Every function is called in a process of its own, with arguments drawn at random by its declaration,
sizes that agree and sizes that do not, types out of place, numbers out of range, arrays missing; or
with a small model or text of which one to three things are damaged (tests/damaged_models.py). It
may return, or refuse by TypeError, ValueError, OverflowError or MemoryError; it may not crash or go
on forever. Ends with 1 if one does. `python -m tests.sanitize` runs it with sanitizers.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import zlib
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from tests.damaged_models import arguments_of, damage

REFUSALS = (TypeError, ValueError, OverflowError, MemoryError)
SECONDS = 20
# Structs that no random drawing makes, and functions that refuse most drawings: they are called
# with valid arguments, whole and damaged.
MADE = {
    "Sentences", "ConllTable", "ConllColumns", "StringTable", "HigherPlan", "HigherOrderScores",
    "VectorStep", "SequenceModel", "SequenceTemplates", "TextView", "TextTokenizer",
    "Encoder", "ByteLabels", "ByteArcs", "ByteLinear",
}  # fmt: skip
ALSO_MADE = {
    "count_deps",
    "set_columns",
    "scan_deps",
    "scan_misc_numbers",
    "first_difference",
    "number_rows",
    "choose_acyclic_arcs",
    "view_text",
    "find_form_keys",
    "classify_counts",
    "join_words_with_upos",
    "join_lists",
}
DTYPES = list(native._DTYPES.values())


def has_valid_arguments(name: str) -> bool:
    """True if tests/damaged_models.py makes valid arguments of a function."""
    _, arguments = native.library().declarations.functions[name]
    return name in ALSO_MADE or any(argument.type in MADE for argument in arguments)


class Drawing(NamedTuple):
    """The drawing of the arguments of one call."""

    random: np.random.Generator
    n: int  # the size that most axes have
    float_type: type  # what `any` is, mostly
    hostility: float  # 0: sizes agree as far as can be guessed, types do


def draw_array(drawing: Drawing, kind: str, rank: int) -> Any:
    """An array of an argument's type, mostly of sizes that others have."""
    random, n, float_type, hostility = drawing
    if random.random() < hostility / 2:
        return None
    sizes = []
    for axis in range(rank):
        usual = [n] if axis == 0 or rank > 2 else [n, n**2, n**3, n**4]
        unusual = [0, 1, 2, 3, 5, 7, n + 1, n * n]
        sizes.append(int(random.choice(unusual if random.random() < hostility else usual)))
    while int(np.prod(sizes)) > 20_000:
        sizes[int(np.argmax(sizes))] = 1
    dtype = np.dtype(native._DTYPES[kind] if kind != "any" else float_type)
    if kind == "any" and random.random() < hostility:
        dtype = np.dtype(random.choice(DTYPES))
    if dtype.kind == "f":
        values = random.integers(-9, 9, sizes).astype(dtype)
        if random.random() < 0.2:
            values[random.random(sizes) < 0.2] = -np.inf
        if random.random() < hostility:
            values[random.random(sizes) < 0.2] = np.nan
        return values
    if dtype.kind == "b":
        return random.random(sizes) < 0.5
    if random.random() < hostility:
        information = np.iinfo(dtype)
        return random.integers(information.min, information.max, sizes, dtype=dtype, endpoint=True)
    low = 0 if dtype.kind == "u" else int(random.choice([-2, -1, 0, 0, 0]))
    return random.integers(low, n + int(random.random() < hostility), sizes).astype(dtype)


def draw(drawing: Drawing, argument: native.Argument) -> Any:
    """A value for an argument. A struct that is missing is the caller's mistake, and not drawn."""
    random, n = drawing.random, drawing.n
    structs = native.library().declarations.structs
    if argument.type in structs:
        fields = structs[argument.type]
        return SimpleNamespace(**{f.name: draw(drawing, f) for f in fields})
    if argument.type == "bool":
        return bool(random.random() < 0.5)
    if argument.type == "double":
        return float(random.choice([0.0, 1.0, -1.0, 0.5, np.inf, -np.inf, np.nan]))
    if argument.type in ("int64_t", "uint64_t"):
        large = random.random() < drawing.hostility / 2
        return int(random.choice([2**62, -(2**62)] if large else [-1, 0, 1, 2, n, n]))
    match = re.fullmatch(r"(?:out_)?(\w+?)_([1-4])", argument.type)
    assert match
    return draw_array(drawing, match[1], int(match[2]))


def try_function(name: str, trials: int) -> tuple[int, int]:
    """Call a function many times; how many calls it accepted, and how many it refused."""
    _, arguments = native.library().declarations.functions[name]
    accepted = refused = 0
    for trial in range(trials):
        random = np.random.default_rng([zlib.crc32(name.encode()), trial])
        n = int(random.integers(1, 6))
        float_type = np.float32 if random.random() < 0.3 else np.float64
        drawing = Drawing(random, n, float_type, float(random.choice([0, 0, 0.1, 0.5])))
        if has_valid_arguments(name):
            values = arguments_of(name, random)
            values = damage(values, random) if drawing.hostility or trial % 2 else values
        else:
            values = [draw(drawing, argument) for argument in arguments]
        if os.environ.get("SHOW") == str(trial):
            print(name, *zip(arguments, values, strict=True), sep="\n", flush=True)
        try:
            native.call(name, *values)
            accepted += 1
        except REFUSALS:
            refused += 1
    return accepted, refused


def main(arguments: list[str]) -> int:
    """The command."""
    trials = int(arguments[0]) if arguments else 300
    names = arguments[1:] or sorted(native.library().declarations.functions)
    failed = []
    for name in names:
        child = os.fork()
        if child == 0:
            signal.alarm(SECONDS)
            accepted, refused = try_function(name, trials)
            print(f"{name}: accepted {accepted}, refused {refused}", flush=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:
            failed.append(name)
            print(f"{name}: failed with status {status}", flush=True)
    if failed:
        print("failed:", *failed)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
