"""Calls of the compiled library with wrong shapes, types and numbers; a crash is told by its name.

    python -m tests.hostile_calls [TRIALS [FUNCTION ...]]

Every function is called in a process of its own, with arguments drawn at random by its declaration,
sizes that agree and sizes that do not, types out of place, numbers out of range, arrays missing; or
with the arguments of a call that was recorded while small models were learned and used, of which
one to three things are damaged. It may return, or refuse by TypeError, ValueError, OverflowError or
MemoryError; it may not crash or go on forever. Ends with 1 if one does. `python -m tests.sanitize`
runs it with sanitizers.
"""

from __future__ import annotations

import os
import re
import signal
import sys
import zlib
from collections import defaultdict
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import torch

from gpuparse import inference, native
from gpuparse.data.columns import as_key, scan_numbers
from gpuparse.data.formats.text import text_chunk
from gpuparse.evaluation.treebanks import find_difference
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.confidence import find_k_best_trees
from gpuparse.model.explain import explain
from gpuparse.model.pipeline import TOKENIZER, unpack_stage
from gpuparse.model.self_test import TESTED_DECODERS, native_difference
from tests import hostile_stages
from tests.encoders import arcs_of_bytes, encoder_of, labels_of, sequences_of
from tests.hostile_models import BASES, TEST, check_model, train
from tests.hostile_stages import check_stage

REFUSALS = (TypeError, ValueError, OverflowError, MemoryError)
SECONDS = 20  # of the processor, for all calls of a function
KEPT, MOST_BYTES = 9, 16 << 20  # calls of a function that are kept, and of the arrays of one
DTYPES = list(native._DTYPES.values())


# ---- calls that are recorded -----------------------------------------------------------------


def takes_struct(name: str) -> bool:
    """True if no random drawing makes arguments of a function that it mostly accepts."""
    _, arguments = native.library().declarations.functions[name]
    return any(argument.is_pointer for argument in arguments)


def as_plain(value: Any, kind: str) -> Any:
    """A struct as an object whose fields can be set, its structs too."""
    fields = native.library().declarations.structs.get(kind)
    if value is None or fields is None:
        return value
    if isinstance(value, native.Struct):
        values = value.value._kept[0]
    else:
        values = [getattr(value, field.name) for field in fields]
    return SimpleNamespace(
        **{f.name: as_plain(each, f.type) for f, each in zip(fields, values, strict=True)}
    )


@cache
def recorded() -> dict[str, list[list[Any]]]:
    """Arguments of some calls of each function, while small models are learned and used."""
    library, found, seen = native.library(), defaultdict(list), defaultdict(int)
    draw = np.random.default_rng(1)

    def recording(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
        kinds = [argument.type for argument in library.declarations.functions[name][1]]

        def call(*values: Any) -> Any:
            seen[name] += 1
            at = int(draw.integers(seen[name])) if seen[name] > KEPT else len(found[name])
            if at < KEPT:  # all calls are kept with the same probability
                plain = [as_plain(v, kind) for v, kind in zip(values, kinds, strict=True)]
                if size_of(plain) < MOST_BYTES:
                    found[name][at : at + 1] = [copied(plain)]
            return function(*values)

        return call

    functions = {name: getattr(library, name) for name in library.declarations.functions}
    try:
        for name, function in functions.items():
            setattr(library, name, recording(name, function))
        use_models()
        use_encoders()
    finally:
        for name, function in functions.items():
            setattr(library, name, function)
    for name, derive in DERIVED.items():
        derived = (copied(derive(*given)) for of in alike(name) for given in found[of])
        found[name] = list(islice(filter(partial(is_accepted, name), derived), KEPT))
    return dict(found)


def copied(value: Any, copies: dict[tuple[int, int], np.ndarray] | None = None) -> Any:
    """A copy of plain values, in which arrays with the same memory have the same memory."""
    copies = {} if copies is None else copies
    if isinstance(value, list):
        return [copied(each, copies) for each in value]
    if isinstance(value, SimpleNamespace):
        return SimpleNamespace(**{k: copied(each, copies) for k, each in vars(value).items()})
    if not isinstance(value, np.ndarray):
        return value
    place = value.ctypes.data, value.nbytes
    copy = copies.setdefault(place, value.reshape(-1).copy())
    return copy.reshape(value.shape) if copy.dtype == value.dtype else value.copy()


def size_of(value: Any) -> int:
    """The bytes of the arrays of plain values."""
    if isinstance(value, SimpleNamespace):
        value = list(vars(value).values())
    if isinstance(value, list):
        return sum(map(size_of, value))
    return value.nbytes if isinstance(value, np.ndarray) else 0


def is_accepted(name: str, arguments: list[Any]) -> bool:
    """True if a function takes arguments, which are left as they are."""
    try:
        native.call(name, *copied(arguments))
    except REFUSALS:
        return False
    return True


def alike(name: str) -> list[str]:
    """The functions whose first two arguments are of the same structs."""
    functions = native.library().declarations.functions
    first = [argument.type for argument in functions[name][1][:2]]
    return [n for n, (_, given) in functions.items() if [a.type for a in given[:2]] == first]


# Arguments of functions that the package itself does not call, from those of others that begin
# with the same structs.
DERIVED: dict[str, Callable[..., list[Any]]] = {
    "score_arcs_batch": lambda *given: _scored(given, "bnn"),
    "score_guides_batch": lambda *given: _scored(given, "bnn"),
    "score_siblings_batch": lambda *given: _scored(given, "bnnn", "bnn"),
    "score_labels_batch": lambda *given: _scored(given, "bnnl"),
}  # fmt: skip


def _scored(given: Sequence[Any], *axes: str) -> list[Any]:
    """The sentences and scorer of a search, and scores to be filled."""
    sentences, scorer = given[:2]
    sizes = {"b": len(sentences.lengths), "n": int(sentences.lengths.max()) + 1,
             "l": scorer.joint.width if scorer.joint else 1}  # fmt: skip
    dtype = np.float32 if scorer.weights.dtype == np.float32 else np.float64
    return [sentences, scorer, *(np.zeros([sizes[a] for a in each], dtype) for each in axes)]


def use_models() -> None:
    """Learn small models and stages of all kinds; parse, explain and annotate with them."""
    for base in BASES:
        model = train(base, batch_size=4 if "joint" in base else 1)
        check_model(model)
        guides = np.full(TEST.n_words, -1) if model.linear.templates.guide else None
        if DECODERS[model.decoder].has("k_best", "native"):
            find_k_best_trees(model, TEST, 3, guides=guides, probabilities=True)
        if not DECODERS[model.decoder].gives_graphs:
            explain(model, TEST, 1, 1, guides=guides)
    for name in hostile_stages.FILES:
        stage = unpack_stage(hostile_stages.learned.__wrapped__(name), Path(), name)
        check_stage(stage, name)
        if name == TOKENIZER:
            stage.split(text_chunk("Le 10 000 l\u00e0, du (D\u00e9'x).\n\nNo!".encode(), "text"))
    for decoder in TESTED_DECODERS:
        native_difference(decoder)
    for search in (inference.hill_climb, inference.multi_parent):
        search(torch.ones(2, 5, 5), torch.ones(2, 5, 5, 5), torch.tensor([4, 2]))
    trees = inference.NonProjectiveTrees(torch.ones(2, 5, 5).double())
    trees.sample(3)
    inference.matrix_tree_marginals(torch.ones(2, 5, 5).double(), torch.tensor([4, 2]))


def use_encoders() -> None:
    """Score with the layers of a small encoder."""
    encoder, states = encoder_of(), np.ones((20, 16), np.float32)
    encoder.hidden(*sequences_of(encoder, [5, 0, 40]), np.ones(encoder.layers + 1, np.float32))
    arcs_of_bytes(16, 5).scores(states, np.array([0, 5, 11]), np.array([4, 5, 8]))
    labels = labels_of(16, 5, 3)
    labels.scores(3, states, np.arange(0, 84, 4), np.ones((80, 16), np.float32))
    labels.heads.of_rows(states, 5)
    find_difference(TEST, TEST)
    scan_numbers(TEST.data, TEST.columns, as_key("x"))


def arguments_of(name: str, random: np.random.Generator) -> list[Any]:
    """The arguments of one of the recorded calls of a function; plain structs, to be changed."""
    calls = recorded()[name]
    return copied(calls[random.integers(len(calls))])


# ---- damage ---------------------------------------------------------------------------------


def damage(arguments: list[Any], random: np.random.Generator) -> None:
    """Change one to three numbers, arrays or sizes of arguments."""
    for _ in range(int(random.integers(1, 4))):
        places: list[tuple[Any, Any]] = []
        for index in range(len(arguments)):
            find_places(arguments, index, places)
        holder, key = places[random.integers(len(places))]
        is_list = isinstance(holder, list)
        value = damaged(holder[key] if is_list else getattr(holder, key), random)
        if is_list:
            holder[key] = value
        else:
            setattr(holder, key, value)


def find_places(holder: Any, key: Any, places: list[tuple[Any, Any]]) -> None:
    """Where a value and the values in it are kept."""
    value = holder[key] if isinstance(holder, list) else getattr(holder, key)
    if isinstance(value, SimpleNamespace):
        for field in vars(value):
            find_places(value, field, places)
        if not isinstance(holder, list):
            places.append((holder, key))  # a struct that is missing
    else:
        places.append((holder, key))


def damaged(value: Any, random: np.random.Generator) -> Any:
    """Another value in the place of one."""
    numbers = [-(2**62), -(2**31), -100, -1, 0, 1, 2, 7, 16, 100, 5000, 2**31 - 1, 2**32, 2**62]
    number = int(random.choice(numbers))
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | np.integer):
        return number
    if isinstance(value, float):
        return float(random.choice([0.0, -1.0, np.inf, -np.inf, np.nan]))
    if not isinstance(value, np.ndarray) or value.size == 0 or random.random() < 0.05:
        return None
    if random.random() < 0.2:  # another size
        return np.ascontiguousarray(value[: random.integers(len(value))])
    if value.dtype.names:
        whole = value.view(np.int64)
        whole[random.integers(whole.size)] = number
    elif value.dtype.kind == "f":
        value.reshape(-1)[random.random(value.size) < 0.1] = random.choice(
            [np.nan, np.inf, -np.inf]
        )
    elif value.dtype.kind == "b":
        value[:] = ~value
    else:
        ends = np.iinfo(value.dtype)
        value.reshape(-1)[random.integers(value.size)] = min(max(number, ends.min), ends.max)
    return value


# ---- drawings -------------------------------------------------------------------------------


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
        if name in recorded() and (takes_struct(name) or trial % 2):
            values = arguments_of(name, random)
            damage(values, random)
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
    recorded()  # before processes are forked
    names = arguments[1:] or sorted(native.library().declarations.functions)
    failed = []
    for name in names:
        child = os.fork()
        if child == 0:
            signal.setitimer(signal.ITIMER_PROF, SECONDS)
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
