"""Calls of compiled code: declarations are read, arguments checked, statuses raised."""

import importlib.util
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from gpuparse import native
from gpuparse.errors import NativeError
from tests.hostile_calls import copied, is_accepted, recorded, takes_struct

ROOT = Path(__file__).parents[1]

HEADER = """
#include "types.h"
// struct Commented { int64_t a; };
#define SOMETHING(a) \\
    struct Macro { a; };
struct Inner { f64_2 values; int64_t scale; };
struct Outer { i64_1 counts; const Inner* inner;  // the inner one
               bool doubled; double shift; };
GPUPARSE(double) sum_outer(const Outer* outer);
GPUPARSE(int64_t) code_of(any_1 values,
                          out_any_2 other);
GPUPARSE(void) fill(out_f32_3 target, double value);
GPUPARSE(int64_t) give_back(int64_t status);
GPUPARSE(double) give_back_double(double value);
GPUPARSE(int64_t) rows_of(i64_2 records);
GPUPARSE(int64_t) count_true(b8_1 values);
GPUPARSE(int64_t) sum_large(f64_4 values, b8_2 flags, int64_t scale, u64_1 last);
"""
SOURCE = """
#include "header.h"
GPUPARSE(double) sum_outer(const Outer* outer) {
    double sum = outer->shift;
    for (int64_t i = 0; i < outer->counts.n0; ++i) sum += outer->counts.data[i];
    if (outer->inner)
        for (int64_t i = 0; i < outer->inner->values.n0 * outer->inner->values.n1; ++i)
            sum += outer->inner->values.data[i] * outer->inner->scale;
    return outer->doubled ? 2 * sum : sum;
}
GPUPARSE(int64_t) code_of(any_1 values, out_any_2 other) {
    return values.dtype * 10000 + other.dtype * 100 + values.n0 * 10 + other.n0 * other.n1;
}
GPUPARSE(void) fill(out_f32_3 target, double value) {
    for (int64_t i = 0; i < target.n0 * target.n1 * target.n2; ++i) target.data[i] = (float)value;
}
GPUPARSE(int64_t) give_back(int64_t status) { return status; }
GPUPARSE(double) give_back_double(double value) { return value; }
GPUPARSE(int64_t) rows_of(i64_2 records) {
    return records.n0 * 1000 + records.n1 * 100 + (records.n0 ? records.data[records.n1] : 0);
}
GPUPARSE(int64_t) count_true(b8_1 values) {
    int64_t count = 0;
    for (int64_t i = 0; i < values.n0; ++i) count += values.data[i] != 0;
    return count;
}
GPUPARSE(int64_t) sum_large(f64_4 values, b8_2 flags, int64_t scale, u64_1 last) {
    return (values.n0 + values.n1 + values.n2 + values.n3 + flags.n0 + flags.n1) * scale + last.n0 +
           (values.data == NULL) * 1000;
}
"""


class Inner(NamedTuple):
    values: np.ndarray
    scale: int


@dataclass
class Outer:
    counts: np.ndarray | None
    inner: Any
    doubled: bool
    shift: float


def load_build() -> Any:
    """native/build.py as a module."""
    spec = importlib.util.spec_from_file_location("native_build", ROOT / "native" / "build.py")
    assert spec
    assert spec.loader
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def compiler_for_tests(build: Any) -> list[str]:
    """The C++ compiler; without one, as after a build with a package's, a test is left out."""
    try:
        found: list[str] = build.find_compiler()
    except build.BuildError as error:
        pytest.skip(str(error))
    return found


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A library of a few functions that say what they were given."""
    build, folder = load_build(), tmp_path_factory.mktemp("small")
    (folder / "api").mkdir()
    (folder / "api" / "types.h").write_text((ROOT / "native" / "api" / "types.h").read_text())
    (folder / "api" / "header.h").write_text(HEADER)
    (folder / "api" / "small.cpp").write_text(SOURCE)
    compiler = compiler_for_tests(build)
    path = folder / "libsmall.so"
    flags = [*build.compile_flags(compiler, "", False), *build.link_flags(compiler, False)]
    subprocess.run([*compiler, folder / "api" / "small.cpp", *flags, "-o", path], check=True)
    return native.Library(path, native.read_declarations([HEADER]))


def test_the_library_fits():
    assert native.call("processor_fits") == 1
    assert native.call("compiled_level") <= native.call("processor_level")


def test_all_functions_that_are_declared_are_defined():
    assert native.library().missing == []


def test_an_array_is_passed(small):
    assert small.count_true(np.array([True, False, True])) == 2
    assert small.count_true(np.zeros(0, dtype=bool)) == 0
    assert small.count_true(None) == 0


def test_large_arrays_by_value_arrive(small):
    values, flags = np.zeros((2, 3, 4, 5)), np.zeros((6, 7), dtype=bool)
    assert small.sum_large(values, flags, 3, np.zeros(8, dtype=np.uint64)) == 27 * 3 + 8
    assert small.sum_large(None, None, np.int32(3), None) == 1000
    assert small.sum_large(np.zeros((2, 0, 4, 5)), None, 1, None) == 1011


def test_structs_are_passed(small):
    inner = Inner(np.array([[1.0, 2.0], [3.0, 4.0]]), 10)
    outer = Outer(np.array([5, 6]), inner, np.bool_(True), np.float32(0.5))
    assert small.sum_outer(outer) == 2 * (0.5 + 11 + 100)
    assert small.sum_outer(Outer(None, None, False, 1)) == 1
    ready = small.struct("Outer", outer)
    assert small.sum_outer(ready) == 223
    inner.values[0, 0] = 2.0
    assert small.sum_outer(ready) == 243, "changed values are seen"
    outer.inner = small.struct("Inner", inner)
    assert small.sum_outer(outer) == 243


def test_a_struct_keeps_its_arrays(small):
    ready = small.struct("Outer", Outer(np.full(1000, 7), Inner(np.ones((9, 9)), 2), False, 0.0))
    for _ in range(3):
        np.full(1000, 9)  # would take the memory of an array that is gone
        assert small.sum_outer(ready) == 7162


@pytest.mark.parametrize(("code", "dtype"), enumerate(
    ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
     "bool"), start=1,
))  # fmt: skip
def test_any_knows_its_type(small, dtype, code):
    values = np.zeros(3, dtype=dtype)
    assert small.code_of(values, np.zeros((2, 2), np.float32)) == code * 10000 + 900 + 34
    assert small.code_of(None, None) == 0


def test_outputs_are_written(small):
    target = np.zeros((2, 3, 4), dtype=np.float32)
    assert small.fill(target, 2.5) is None
    assert (target == 2.5).all()


def test_other_statuses_are_given_back(small):
    for value in (0, 5, -1, -999, -1003, np.int64(-(2**63))):
        assert small.give_back(value) == value
    assert small.give_back_double(-1001.0) == -1001.0


def test_records_of_int64_are_rows(small):
    records = np.zeros(3, dtype=[("a", np.int64), ("b", np.int64)])
    records["a"][1] = 42
    assert small.rows_of(records) == 3242


def odd_addresses() -> np.ndarray:
    """Numbers of 8 bytes that begin beside multiples of 8."""
    odd = np.frombuffer(bytearray(9), dtype=np.uint8)[1:].view(np.uint64)
    return odd if not odd.flags.aligned else np.frombuffer(bytearray(10), np.uint8)[2:].view("u8")


def read_only() -> np.ndarray:
    target = np.zeros((2, 3, 4), dtype=np.float32)
    target.flags.writeable = False
    return target


IS_NO_ARRAY = "count_true: values: a C-contiguous array of 1 axes of bool"
INNER = Inner(np.ones((2, 2)), 10)
REFUSED: list[tuple[type[Exception], str, str, Any]] = [
    (TypeError, IS_NO_ARRAY, "count_true", [np.zeros(3, dtype=np.uint8)]),
    (ValueError, IS_NO_ARRAY, "count_true", [np.zeros((3, 2), dtype=bool)]),
    (ValueError, IS_NO_ARRAY, "count_true", [np.zeros(6, dtype=bool)[::2]]),
    (TypeError, IS_NO_ARRAY, "count_true", [[True, False]]),
    (TypeError, IS_NO_ARRAY, "count_true", [1]),
    (TypeError, "float64", "sum_large", [np.zeros((1, 1, 1, 1), dtype=">f8"), None, 1, None]),
    (ValueError, "copy", "sum_large", [None, None, 1, odd_addresses()]),
    (TypeError, r"count_true\(values\) takes 1 arguments, not 2", "count_true", [None, None]),
    (AttributeError, "no_such", "no_such", []),
    (TypeError, "int has no attribute 'counts', a field of Outer", "sum_outer", [3]),
    (TypeError, r"Inner\.values: a C-contiguous array", "sum_outer",
     [Outer(None, Inner([1], 1), False, 0.0)]),
    (TypeError, "no struct Nothing", "struct", ["Nothing", None]),
    (TypeError, "numbers is needed, not of float16", "code_of", [np.zeros(3, np.float16), None]),
    (ValueError, "fill: target: a C-contiguous and writable array", "fill", [read_only(), 1.0]),
    (TypeError, "int64", "rows_of", [np.zeros(3, dtype=[("a", np.int64), ("b", np.int32)])]),
    (MemoryError, "give_back: out of memory", "give_back", [-1000]),
    (ValueError, "sizes of arrays do not agree", "give_back", [-1001]),
    (TypeError, "does not accept", "give_back", [-1002]),
    (OverflowError, "status", "give_back", [2**63]),
    (AttributeError, "'float'", "give_back", [1.5]),
]  # fmt: skip


@pytest.mark.parametrize(("error", "said", "name", "given"), REFUSED, ids=[r[1] for r in REFUSED])
def test_what_is_refused(small, error, said, name, given):
    with pytest.raises(error, match=said):
        getattr(small, name)(*given)


def test_a_struct_of_another_kind_and_an_unknown_function_are_refused(small):
    with pytest.raises(TypeError, match=r"a struct Outer is needed, not Inner"):
        small.sum_outer(small.struct("Inner", INNER))
    with pytest.raises(AttributeError, match="no function 'no_such'"):
        native.call("no_such")


@pytest.mark.parametrize(
    "text",
    [
        "GPUPARSE(int) f();",
        "GPUPARSE(void) f(int64_t);",
        "GPUPARSE(void) f(int64_t a); GPUPARSE(void) f(int64_t b);",
        "struct A { int64_t a; }; struct A { int64_t b; };",
    ],
)
def test_declarations_that_cannot_be_read_are_refused(text):
    with pytest.raises(NativeError):
        native.read_declarations([text])


def test_the_digest_is_the_one_of_the_build_script():
    assert native._source_digest() == load_build().source_digest()


def start(code: str, **environment: str) -> subprocess.CompletedProcess:
    return subprocess.run(
        [sys.executable, "-c", code],
        cwd=ROOT,
        env={"PATH": "", "PYTHONPATH": str(ROOT), **environment},
        capture_output=True,
        text=True,
        check=False,
    )


def test_a_library_that_is_named_and_missing_is_said():
    done = start(
        "from gpuparse import native; native.library()", GPUPARSE_NATIVE_LIBRARY="/no/such/library"
    )
    assert done.returncode != 0
    assert "/no/such/library: no such library, named by GPUPARSE_NATIVE_LIBRARY" in done.stderr


def test_a_library_older_than_its_sources_is_said(monkeypatch):
    monkeypatch.setattr(native, "_source_digest", lambda: "another")
    with pytest.raises(NativeError, match=r"older than its sources: run `python native/build\.py`"):
        native._read_fresh_headers(native.library().path)


def test_the_module_is_light():
    code = "import sys, gpuparse.native; print(sorted({'torch'} & set(sys.modules)))"
    assert start(code).stdout == "[]\n"


def test_the_recorded_calls_of_all_functions_with_structs_are_accepted():
    for name in filter(takes_struct, native.library().declarations.functions):
        assert recorded().get(name), name
        assert all(is_accepted(name, arguments) for arguments in recorded()[name]), name


@pytest.mark.parametrize("name", ["hill_climb_batch", "multi_parent_batch"])
def test_searches_refuse_starts_that_are_no_trees_and_gains_below_0(name):
    *_, limits, heads, _, _ = arguments = copied(recorded()[name][0])
    limits.min_gain = -1.0
    assert not is_accepted(name, arguments)
    limits.min_gain = 0.0
    assert is_accepted(name, arguments)
    heads[0, 1] = 1 << 40
    assert not is_accepted(name, arguments)


def test_marginals_of_sentences_without_words_are_none():
    for arguments in recorded()["find_marginals_batch"]:
        sentences, *others, log_partitions = copied(arguments)
        sentences.lengths[:] = 0
        native.call("find_marginals_batch", sentences, *others, log_partitions)
        assert not log_partitions.any()


def test_a_network_whose_sums_do_not_fit_is_refused():
    calls = map(copied, recorded()["read_words"])
    arguments = next(each for each in calls if each[0].network is not None)
    arguments[0].network.bias[0] = np.iinfo(np.int32).max
    assert not is_accepted("read_words", arguments)
