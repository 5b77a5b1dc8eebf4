"""A network that scores tags beside templates, by vectors of the words around a position.

A form has a vector, the sum of rows of a table: one for the form, for its beginnings and endings,
for its n-grams of characters, for its shape, for the tags that words like it were seen with. The
vectors of the words up to three before and after a position give its hidden numbers, and these a
score of each part of a tag (Botha et al. 2017; the parts are those of the templates). Rows that
training does not have are left out, so that a new word has the vector of its affixes.

All numbers are whole, see native/api/tagging.h: the scores do not depend on the machine.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.array_file import check_names
from gpuparse.data.cached import cached_property
from gpuparse.scorers.whole_numbers import MAX_SHIFT
from gpuparse.text.sequences.model import Output
from gpuparse.text.tagging.fields import N_EDGES, as_bytes, value_of

FIELDS = (
    "form", "lower", "lower[:1]", "lower[:2]", "lower[:3]", "lower[:4]", "lower[-1:]",
    "lower[-2:]", "lower[-3:]", "lower[-4:]", "lower[-5:]", "shape", "case", "seen", "seen[:-1]",
    "seen[:-2]", "seen.last",
)  # fmt: skip
NGRAMS = (3, 4)  # characters
OFFSET = 64  # of the numbers of stored vectors
LARGEST = {"vector": 63, "share": 4095, "hidden": 127, "weight": 127, "scale": 255}
MULTIPLE = 64  # of sizes
MOST_OFFSETS = 7
MOST_NGRAMS = 60  # of a form
MOST_ROWS, MOST_NUMBERS = 1 << 22, 1 << 12  # of the table, of a row and of hidden numbers
MOST_SHIFT, MOST_CONSTANT = 30, 1 << 24
ARRAYS = (
    "keys", "table", "scales", "window", "bias", "hidden_shifts", "hidden_units",
)  # fmt: skip
_FACTS = ("fields", "ngrams", "vector_shift", "window_shift", "vector_unit", "outputs")


class NetworkArrays(NamedTuple):
    """TagNetwork of native/api/tagging.h."""

    table: np.ndarray
    scales: np.ndarray
    vector_shift: int
    window: np.ndarray
    bases: np.ndarray
    runs: np.ndarray
    window_shift: int
    bias: np.ndarray
    hidden_shifts: np.ndarray


class TagNetwork:
    """A network in whole numbers; many threads may use it at once.

    Args:
        keys: (R - 2,) uint32, ascending, of the rows behind those of the edges of sentences.
        table: (R, D) int8. scales: (R,) uint8. window: (O, D / 4, H, 4) int8. bias: (H,) int32.
        hidden_shifts: (H,) int32.
        outputs: of each model that it adds to, `pairs` and perhaps `feats`.
        vector_unit: what 1 of a vector is as learned; hidden_units: (H,) float32 of hidden numbers.
        fields: that have rows. ngrams: sizes of those that have.
    """

    def __init__(
        self, keys: np.ndarray, arrays: NetworkArrays, outputs: Mapping[str, Output],
        vector_unit: float, hidden_units: np.ndarray, fields: Sequence[str], ngrams: Sequence[int],
    ) -> None:  # fmt: skip
        self.keys, self.arrays, self.outputs = keys, arrays, dict(outputs)
        self.vector_unit, self.hidden_units = vector_unit, hidden_units
        self.fields, self.ngrams = tuple(fields), tuple(ngrams)

    @property
    def size(self) -> int:
        """D: numbers of a vector."""
        return self.arrays.table.shape[1]

    @property
    def sizes(self) -> tuple[int, int, int]:
        """Words that it looks at to either side, D, and H."""
        return len(self.arrays.window) // 2, self.size, len(self.arrays.bias)

    @cached_property
    def _struct(self) -> native.Struct:
        return native.struct("TagNetwork", self.arrays)

    def vectors(self, values: np.ndarray, lowers: str) -> np.ndarray:
        """The vectors of forms, (F, D) uint8, as `WordForms` has them.

        Args:
            values: (F, fields) uint32, those of `fields`.
            lowers: the forms in lower case, a line each.
        Cost: some microseconds per form.
        """
        owners, keys = keys_of(values, lowers, self.fields, self.ngrams)
        rows = np.searchsorted(self.keys, keys)
        rows[rows == len(self.keys)] = 0
        is_known = self.keys[rows] == keys if len(self.keys) else np.zeros(len(keys), np.bool_)
        starts = np.zeros(len(values) + 1, np.int64)
        np.bincount(owners[is_known], minlength=len(values)).cumsum(out=starts[1:])
        return self._vectors_of(starts, rows[is_known].astype(np.int32) + N_EDGES)

    def edges(self) -> np.ndarray:
        """The vectors of the places before and behind a sentence, (2, D) uint8."""
        return self._vectors_of(np.arange(N_EDGES + 1), np.arange(N_EDGES, dtype=np.int32))

    def _vectors_of(self, starts: np.ndarray, rows: np.ndarray) -> np.ndarray:
        found = np.empty((len(starts) - 1, self.size), np.uint8)
        native.call("find_form_vectors", self._struct, starts, rows, found)
        return found

    def packed(self) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
        """Facts and arrays, from which `unpacked` makes the network again."""
        arrays = self.arrays
        facts = {
            "fields": list(self.fields), "ngrams": list(self.ngrams),
            "vector_shift": arrays.vector_shift, "window_shift": arrays.window_shift,
            "vector_unit": self.vector_unit,
            "outputs": {name: list(each[2:]) for name, each in self.outputs.items()},
        }  # fmt: skip
        tables = {
            "keys": self.keys.view(np.int32), "table": arrays.table, "scales": arrays.scales,
            "window": arrays.window, "bias": arrays.bias, "hidden_shifts": arrays.hidden_shifts,
            "hidden_units": self.hidden_units,
        }  # fmt: skip
        for name, output in self.outputs.items():
            tables |= {name: output.rows, f"{name}_constants": output.constants}
        return facts, tables


def bases_of(window: np.ndarray) -> np.ndarray:
    """(O, H) int32: OFFSET times the sum of the numbers that a hidden one is multiplied with."""
    sums = window.sum((1, 3), dtype=np.int64)
    return (OFFSET * sums).astype(np.int32)


def runs_of(window: np.ndarray) -> np.ndarray:
    """(H / MULTIPLE, 2) int32: which groups of four numbers of vectors count for hidden numbers.

    The first one of those whose window is not 0, and the one behind the last; 0, 0 for none.
    Networks that are learned one after the other have blocks of their own, and zeros beside them.
    """
    n_offsets, n_fours, hidden, _ = window.shape
    blocks = window.reshape(n_offsets, n_fours, hidden // MULTIPLE, -1)
    is_used = np.logical_or.reduce(blocks, axis=(0, 3))
    ends = n_fours - is_used[::-1].argmax(0)
    return np.stack([is_used.argmax(0), np.where(is_used.any(0), ends, 0)], 1).astype(np.int32)


def keys_of(
    values: np.ndarray, lowers: str, fields: Sequence[str], ngrams: Sequence[int]
) -> tuple[np.ndarray, np.ndarray]:
    """The keys of a form's rows: values of fields, and n-grams of the form between < and >.

    Args: as in `TagNetwork.vectors`; a value of 0 is none.
    Returns: (K,) int64 the number of the form, ascending, and (K,) uint32 the key.
    """
    names = np.array([value_of(field) for field in fields], np.uint32)
    keys = np.empty((len(values), len(fields) + MOST_NGRAMS), np.uint32)
    counts = np.empty(len(values), np.int64)
    native.call(
        "find_form_keys", np.ascontiguousarray(values), names, as_bytes(lowers),
        np.array(ngrams, np.int64), value_of("ngram"), keys, counts,
    )  # fmt: skip
    is_key = np.arange(keys.shape[1]) < counts[:, None]
    return np.arange(len(values)).repeat(counts), keys[is_key]


def mixed(values: np.ndarray, names: np.ndarray | np.uint32) -> np.ndarray:
    """Hashes of values together with what they are values of."""
    keys = (values ^ names) * np.uint32(0x85EBCA6B)
    keys ^= keys >> np.uint32(13)
    keys = keys * np.uint32(0xC2B2AE35)
    return keys ^ (keys >> np.uint32(16))


def unpacked(
    facts: Mapping[str, Any], arrays: Mapping[str, np.ndarray], parts: Mapping[str, int],
    is_field: Callable[[str], bool],
) -> TagNetwork:  # fmt: skip
    """The network of `packed`, checked.

    Args: parts: how many rows the outputs of each model must have.
    Raises: ValueError, TypeError, KeyError: it is no such network.
    """
    check_names(facts, _FACTS)
    fields, ngrams, outputs = facts["fields"], facts["ngrams"], facts["outputs"]
    if not isinstance(fields, list) or not all(isinstance(f, str) and is_field(f) for f in fields):
        raise ValueError("network: fields of words are expected")
    if len(set(fields)) < len(fields) or not {"form", "lower", "seen"} <= set(fields):
        raise ValueError("network: a field is missing, or twice there")
    if not isinstance(ngrams, list) or not all(type(n) is int and 1 <= n <= 9 for n in ngrams):
        raise ValueError("network: sizes of n-grams from 1 to 9 are expected")
    if not isinstance(outputs, dict) or outputs.keys() != parts.keys():
        raise ValueError("network: outputs that do not fit the models")
    check_names(arrays, [*ARRAYS, *outputs, *(f"{name}_constants" for name in outputs)])
    types = {
        "table": np.int8, "scales": np.uint8, "window": np.int8, "hidden_units": np.float32,
    } | dict.fromkeys(outputs, np.int8)  # fmt: skip
    for name, array in arrays.items():
        if array.dtype != types.get(name, np.int32):
            raise TypeError(f"network: {name} of another type")
    table, window = arrays["table"], arrays["window"]
    if table.ndim != 2 or window.ndim != 4:
        raise ValueError("network: arrays of other axes")
    (rows, size), (offsets, _, hidden, _) = table.shape, window.shape
    shapes = {
        "keys": (rows - N_EDGES,), "scales": (rows,), "window": (offsets, size // 4, hidden, 4),
        "bias": (hidden,), "hidden_shifts": (hidden,), "hidden_units": (hidden,),
    }  # fmt: skip
    for name, count in parts.items():
        shapes |= {name: (count, hidden), f"{name}_constants": (count,)}
    if any(arrays[name].shape != shape for name, shape in shapes.items()) or not (
        N_EDGES <= rows <= MOST_ROWS and offsets in range(1, MOST_OFFSETS + 1, 2)
        and size in range(MULTIPLE, MOST_NUMBERS + 1, MULTIPLE)
        and hidden in range(MULTIPLE, MOST_NUMBERS + 1, MULTIPLE)
    ):  # fmt: skip
        raise ValueError("network: sizes that do not fit")
    keys, shifts = arrays["keys"].view(np.uint32), arrays["hidden_shifts"]
    if not (keys[1:] > keys[:-1]).all() or not (0 <= shifts.min() <= shifts.max() <= MOST_SHIFT):
        raise ValueError("network: keys that do not ascend, or shifts out of range")
    for name in ("vector_shift", "window_shift"):
        if type(facts[name]) is not int or not 0 <= facts[name] <= MOST_SHIFT:
            raise ValueError(f"network: {name} from 0 to {MOST_SHIFT} is expected")
    for name in ("bias", *(f"{name}_constants" for name in outputs)):
        if np.abs(arrays[name].astype(np.int64)).max() > MOST_CONSTANT:
            raise ValueError(f"network: {name} out of range")
    units = arrays["hidden_units"]
    if type(facts["vector_unit"]) is not float or not 0 < facts["vector_unit"] < np.inf:
        raise ValueError("network: a unit above 0 is expected")
    if not (np.isfinite(units).all() and units.min() > 0):
        raise ValueError("network: units above 0 are expected")
    found = {}
    for name, unit in outputs.items():
        if not isinstance(unit, list) or list(map(type, unit)) != [int, int, float]:
            raise ValueError("network: a multiplier, a shift and a unit are expected")
        if not (0 <= unit[0] < 1 << 31 and 0 <= unit[1] <= MAX_SHIFT and 0 < unit[2] < np.inf):
            raise ValueError("network: a multiplier, a shift or a unit out of range")
        found[name] = Output(arrays[name], arrays[f"{name}_constants"], *unit)
    made = NetworkArrays(
        table, arrays["scales"], facts["vector_shift"], window, bases_of(window),
        runs_of(window), facts["window_shift"], arrays["bias"], shifts,
    )  # fmt: skip
    return TagNetwork(keys, made, found, facts["vector_unit"], units, fields, ngrams)
