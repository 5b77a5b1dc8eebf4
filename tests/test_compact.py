"""Arrays that are mostly zeros, in fewer bytes and back."""

import io
from pathlib import Path

import numpy as np
import pytest

from gpuparse import native
from gpuparse.data import array_file
from gpuparse.data.compact import BITS, VALUES, compacted, expanded
from gpuparse.errors import ModelError
from gpuparse.limits import MAX_COMPACT_BYTES

PATH = Path("arrays.safetensors")
TYPES = ("i1", "i2", "i4", "i8", "u1")


def sparse(dtype, size, share, seed=0, largest=100):
    rng = np.random.default_rng(seed)
    values = rng.integers(1 if dtype == "u1" else -largest, largest, size)
    return np.where(rng.random(size) < share, values, 0).astype(dtype)


def cases():
    for dtype in TYPES:
        for size in (0, 1, 4095, 8192, 30001):
            for share in (0.0, 0.001, 0.1, 0.5, 1.0):
                yield sparse(dtype, size, share, seed=size)
    yield sparse("i2", 90_000, 0.2, largest=30_000).reshape(300, 3, 100)
    yield sparse("i8", 90_000, 0.9, largest=30_000)
    yield np.array([np.iinfo("i8").min, np.iinfo("i8").max] * 4000)
    yield np.zeros(100_000, np.float32)


@pytest.mark.parametrize(
    "array", list(cases()), ids=lambda a: f"{a.dtype} {a.shape} {np.count_nonzero(a)}"
)
def test_nothing_is_lost(array):
    stored, changed = compacted({"a": array, "b": np.arange(3)})
    found = expanded(stored, changed)
    assert set(found) == {"a", "b"}
    assert found["a"].dtype == array.dtype
    np.testing.assert_array_equal(found["a"], array)
    assert sum(each.nbytes for each in stored.values()) <= array.nbytes + 24


@pytest.mark.parametrize(("share", "most"), [(0.2, 0.27), (0.002, 0.01), (0.0, 0.008), (1.0, 0.51)])
def test_zeros_and_small_numbers_take_few_bytes(share, most):
    array = sparse("i2", 1 << 17, share)
    stored, _ = compacted({"a": array})
    assert sum(each.nbytes for each in stored.values()) <= most * array.nbytes


def test_arrays_begin_with_a_cache_line():
    array = sparse("i2", 100_000, 0.1)
    found = expanded(*compacted({"a": array, "b": sparse("i8", 9_999, 1.0)}))
    assert all(each.ctypes.data % 64 == 0 for each in found.values())


def test_arrays_that_lie_side_by_side_are_apart():
    arrays = {str(k): array for k, array in enumerate(cases())}
    before = {name: array.copy() for name, array in arrays.items()}
    found = expanded(*compacted(arrays))
    for array in found.values():
        array += 1
    for name, array in before.items():
        np.testing.assert_array_equal(found[name], array + array.dtype.type(1))


def test_a_file_gives_the_same_arrays_in_both_forms():
    arrays = {
        "sparse": sparse("i2", 100_000, 0.1), "narrow": sparse("i8", 9_999, 1.0),
        "real": np.linspace(0, 1, 5_000, dtype=np.float32), "small": np.arange(5),
    }  # fmt: skip
    whole = array_file.pack({"k": 1}, arrays, form=3)
    small = array_file.packed_again(io.BytesIO(whole), PATH, is_compact=True)
    assert small == array_file.pack({"k": 1}, arrays, form=3, is_compact=True)
    assert len(small) < len(whole) / 3
    assert array_file.packed_again(io.BytesIO(small), PATH, is_compact=False) == whole
    facts, found = array_file.read_open(io.BytesIO(small), PATH, form=3, what="test")
    assert facts == {"k": 1}
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype
        np.testing.assert_array_equal(found[name], array)


def damaged():
    array = sparse("i2", 10_001, 0.1)
    stored, changed = compacted({"a": array})
    more = stored | {f"a{BITS}": np.full(1251, 255, np.uint8)}
    beyond = stored[f"a{BITS}"].copy()
    beyond[-1] |= 128
    yield "too many ones", more, changed
    yield "a one beyond the end", stored | {f"a{BITS}": beyond}, changed
    yield "few bits", stored | {f"a{BITS}": stored[f"a{BITS}"][:-1]}, changed
    yield "other bits", stored | {f"a{BITS}": stored[f"a{BITS}"].astype("i2")}, changed
    yield "few values", stored | {f"a{VALUES}": stored[f"a{VALUES}"][:-1]}, changed
    yield "real values", stored | {f"a{VALUES}": stored[f"a{VALUES}"].astype("f4")}, changed
    yield "no values", {f"a{BITS}": stored[f"a{BITS}"]}, changed
    yield "wide values", stored | {f"a{VALUES}": stored[f"a{VALUES}"].astype("i8")}, changed
    yield "two axes", stored | {f"a{VALUES}": stored[f"a{VALUES}"][None]}, changed
    yield "no table", stored, [1]
    for form in ([1], ["<i2"], ["<i2", 5], ["<f4", [10_001]], ["<i2", [-1]], ["<i2", [1.0]],
                 ["<i2", [MAX_COMPACT_BYTES]], ["<i2", [1, 1, 1, 1, 10_001]], None,
                 ["<i2", [1 << 14, 1 << 14, 1 << 14]], [["<i2"], [10_001]]):  # fmt: skip
        yield str(form), stored, {"a": form}
    yield "another array", stored, changed | {"b": ["<i2", [5]]}
    yield "narrow of another size", {"a": np.zeros(5, "i1")}, {"a": ["<i2", [6]]}
    yield "wide", {"a": np.zeros(5, "i8")}, {"a": ["<i2", [5]]}
    yield "unsigned", {"a": np.zeros(5, "u1")}, {"a": ["<i2", [5]]}


@pytest.mark.parametrize(("stored", "changed"), [
    pytest.param(stored, changed, id=name) for name, stored, changed in damaged()
])  # fmt: skip
def test_damaged_forms_are_errors(stored, changed):
    with pytest.raises((KeyError, TypeError, ValueError)):
        expanded(stored, changed)
    content = array_file.pack({"compact": changed}, stored, form=1)
    with pytest.raises(ModelError):
        array_file.read_open(io.BytesIO(content), PATH, form=1, what="test")


def test_native_code_checks_types_and_sizes():
    bits = np.array([3], np.uint8)
    out = np.zeros(8, np.int16)
    native.call("expand_values", bits, np.array([5, -6], np.int8), out)
    assert out.tolist() == [5, -6, 0, 0, 0, 0, 0, 0]
    with pytest.raises(ValueError, match="expand_values"):
        native.call("expand_values", bits, np.array([5], np.int8), out)
    for values in (np.zeros(2, "u1"), np.zeros(2, "f4"), np.zeros(2, "i4")):
        with pytest.raises(TypeError):
            native.call("expand_values", bits, values, out)
