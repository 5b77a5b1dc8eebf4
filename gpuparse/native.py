"""The compiled library: found, checked and called by the declarations of its headers.

The library's headers (native/api, copied beside the library when it is built) declare all functions
and structs that cross the border. They are read here once and become ctypes signatures, so that no
second table exists. A call checks each argument against its declaration:

    changed = np.empty(batch, dtype=np.int64)
    native.call("hill_climb_batch", arcs, siblings, ends, lengths, limits, heads, totals, changed)

- `f64_2` takes a C-contiguous array of float64 of two axes, `out_f64_2` one that is writable too,
  `any_1` any type of number. None is an empty array; an array without elements has
  the address NULL. An array is never converted or copied.
- `i64_2` takes also an array of records whose fields all are int64: one row per record.
- `const Plan* plan` takes an object with attributes named as the struct's fields (a named tuple,
  a dataclass), None, or what `struct("Plan", object)` made of one, which is converted only once.
- `int64_t`, `double` and `bool` take numbers of Python and NumPy.

A call takes about a microsecond and one more an array. Other threads of Python run meanwhile.
Each tenth of a second a long call lets Python handle signals, and asks the check of
`cancelled_when`; where that raises, the call ends with the exception, and what it has written is of
no use.
"""

import ctypes
import hashlib
import os
import re
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar, copy_context
from itertools import repeat
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np

from gpuparse.errors import Cancelled, NativeError

if TYPE_CHECKING:
    from concurrent.futures import Executor

Item = TypeVar("Item")
Result = TypeVar("Result")

ENVIRONMENT = "GPUPARSE_NATIVE_LIBRARY"  # names a library to use in place of the package's own

OK = 0
NO_MEMORY = -1000
BAD_SHAPE = -1001
BAD_TYPE = -1002

_FOLDER = Path(__file__).resolve().parent / "_native"
_SOURCES = Path(__file__).resolve().parent.parent / "native"
_SUFFIX = ".dylib" if sys.platform == "darwin" else ".so"
# As native/build.py names them.
_LEVELS = {5: "avx512-vnni", 4: "avx512", 3: "avx2", 2: "baseline"}

_DTYPES = {
    "i8": np.int8,
    "i16": np.int16,
    "i32": np.int32,
    "i64": np.int64,
    "u8": np.uint8,
    "u16": np.uint16,
    "u32": np.uint32,
    "u64": np.uint64,
    "f32": np.float32,
    "f64": np.float64,
    "b8": np.bool_,
}
# The codes of native/api/types.h, in its order.
_CODES = {np.dtype(dtype): code for code, dtype in enumerate(_DTYPES.values(), start=1)}
_SCALARS: dict[str, tuple[Any, tuple[float, float] | None]] = {
    "int64_t": (ctypes.c_int64, (-(2**63), 2**63 - 1)),
    "uint64_t": (ctypes.c_uint64, (0, 2**64 - 1)),
    "double": (ctypes.c_double, None),
    "bool": (ctypes.c_bool, None),
}
# What native/interrupts.h needs, in its order.
_PYTHON = (
    "PyGILState_Ensure",
    "PyGILState_Release",
    "PyObject_CallNoArgs",
    "Py_DecRef",
    "PyErr_Fetch",
    "PyErr_Restore",
)
_STEPS, _SECONDS = 1 << 20, 0.1  # between two looks at the clock, and two questions
_RESULTS: dict[str, Any] = {"int64_t": ctypes.c_int64, "double": ctypes.c_double, "void": None}

_Convert = Callable[[Any], Any]


class Argument(NamedTuple):
    """One argument of a function, or one field of a struct, as declared."""

    type: str  # without const and *
    is_pointer: bool
    name: str


class Declarations(NamedTuple):
    """The declarations of headers: fields of each struct; result and arguments of each function."""

    structs: dict[str, list[Argument]]
    functions: dict[str, tuple[str, list[Argument]]]


class Struct:
    """A struct of the library, made of an object once and passed many times.

    It keeps the arrays alive and sees changes of their values; what is assigned to the object's
    attributes afterwards it does not see.
    """

    __slots__ = ("name", "reference", "value")

    def __init__(self, name: str, value: Any) -> None:
        self.name = name
        self.value = value
        self.reference = ctypes.byref(value)


class Library:
    """A loaded library; each of its functions is an attribute, made when it is first asked for."""

    def __init__(self, path: Path, declarations: Declarations) -> None:
        """Load `path`, whose functions and structs are as declared."""
        self.path = path
        self.declarations = declarations
        try:
            self._loaded = ctypes.CDLL(str(path))
        except OSError as error:
            raise NativeError(f"{path}: cannot be loaded: {error}") from error
        self._structs: dict[str, tuple[Any, _Convert]] = {}
        self._with_lock = ctypes.PyDLL(str(path))  # raises exceptions that its functions set

    def ask(self, steps: int, seconds: float, question: Callable[[], None]) -> None:
        """Let long calls ask a question; what it, or a handler of a signal, raises ends them.

        Args:
            steps: nanoseconds, about, until a call looks at the clock.
            seconds: between two questions.
            question: a function that lives as long as the library.
        """
        addresses = [_address_of_function(name) for name in _PYTHON]
        ask_python = self._with_lock.ask_python
        ask_python.argtypes = [ctypes.c_void_p, ctypes.c_int64, ctypes.c_double, ctypes.c_void_p]
        ask_python.restype = None
        given = np.array([*addresses, id(question)], np.uint64)
        ask_python(given.ctypes.data, steps, seconds, ctypes.addressof(_ended))

    def __getattr__(self, name: str) -> Any:  # only where there is no such attribute yet
        if name not in self.declarations.functions:
            raise AttributeError(f"the library {self.path} has no function {name!r}")
        result, arguments = self.declarations.functions[name]
        try:
            function = self._loaded[name]
        except AttributeError:
            raise AttributeError(
                f"the library {self.path} declares, but does not define {name!r}"
            ) from None
        call = self._wrap(name, function, result, arguments)
        setattr(self, name, call)
        return call

    @property
    def missing(self) -> list[str]:
        """The functions that are declared and not defined."""
        return [name for name in self.declarations.functions if not hasattr(self._loaded, name)]

    def struct(self, name: str, value: Any) -> Struct:
        """Convert an object once; see `Struct`."""
        if name not in self.declarations.structs:
            raise TypeError(f"the library has no struct {name}")
        return Struct(name, self._struct(name)[1](value))

    def _struct(self, name: str, within: tuple[str, ...] = ()) -> tuple[Any, _Convert]:
        """The ctypes type of a struct, and what converts an object to it.

        within: the structs that it is a field of.
        """
        if name in within:
            raise NativeError(f"struct {within[-1]}: {name} contains itself")
        if name not in self._structs:
            # Threads may make it at once: the first one is used by all.
            self._structs.setdefault(name, self._made_struct(name, (*within, name)))
        return self._structs[name]

    def _made_struct(self, name: str, within: tuple[str, ...]) -> tuple[Any, _Convert]:
        fields: list[tuple[str, Any]] = []
        converters: list[_Convert] = []
        for argument in self.declarations.structs[name]:
            kind, convert = self._type(argument, f"{name}.{argument.name}", within)
            fields.append((argument.name, kind))
            converters.append(convert)
        made = type(name, (ctypes.Structure,), {"_fields_": fields})
        names = [field for field, _ in fields]

        def convert_all(value: Any) -> Any:
            try:
                attributes = list(map(getattr, repeat(value), names))
            except AttributeError as error:
                raise TypeError(
                    f"{type(value).__name__} has no attribute {error.name!r}, a field of {name}"
                ) from None
            values = [convert(each) for convert, each in zip(converters, attributes, strict=True)]
            struct = made(*values)
            struct._kept = attributes, values  # alive as long as their addresses are used
            return struct

        return made, convert_all

    def _type(
        self, argument: Argument, where: str, within: tuple[str, ...] = ()
    ) -> tuple[Any, _Convert]:
        """The ctypes type of an argument, and what converts a Python value to it.

        within: the structs that it is a field of.
        """
        if argument.type in _SCALARS and not argument.is_pointer:
            kind, limits = _SCALARS[argument.type]
            return kind, _scalar_converter(argument.type, limits, where)
        if argument.type in self.declarations.structs and argument.is_pointer:
            kind, make = self._struct(argument.type, within)
            if not within:
                # byref costs less than a pointer, and a function takes both.
                return ctypes.c_void_p, _reference_converter(argument.type, make, where)
            pointer = ctypes.POINTER(kind)
            return pointer, _pointer_converter(argument.type, make, pointer, where)
        match = re.fullmatch(r"(out_)?(\w+?)_([1-4])", argument.type)
        if not match or argument.is_pointer or match[2] not in {*_DTYPES, "any"}:
            star = "*" if argument.is_pointer else ""
            raise NativeError(f"{where}: unknown type {argument.type}{star}")
        return _array_type(match[2], int(match[3]), bool(match[1]), where)

    def _wrap(
        self, name: str, function: Any, result: str, arguments: list[Argument]
    ) -> Callable[..., Any]:
        """The Python function that checks and converts arguments, calls, and raises by status."""
        types, converters = [], []
        for argument in arguments:
            kind, convert = self._type(argument, f"{name}: {argument.name}")
            types.append(kind)
            converters.append(convert)
        function.argtypes = types
        function.restype = _RESULTS[result]
        names = ", ".join(argument.name for argument in arguments)
        count, has_status = len(converters), result == "int64_t"
        with_lock = self._with_lock

        def call(*values: Any) -> Any:
            if len(values) != count:
                raise TypeError(f"{name}({names}) takes {count} arguments, not {len(values)}")
            if _check.get() is not None:  # many short calls are asked, too
                _ask()
            try:
                outcome = function(*[c(v) for c, v in zip(converters, values)])  # noqa: B905 (counted)
            finally:  # also where a handler raises as soon as the call is over
                if _ended.value:
                    with_lock.set_exception()
            if has_status and BAD_TYPE <= outcome <= NO_MEMORY:
                _raise_status(name, outcome)
            return outcome

        call.__name__ = call.__qualname__ = name
        call.__doc__ = f"{name}({names}) of the compiled library."
        return call


_ended = ctypes.c_int64()  # calls that have ended so and whose exceptions have not been raised
_check: ContextVar[Callable[[], bool] | None] = ContextVar("check", default=None)


@contextmanager
def cancelled_when(check: Callable[[], bool]) -> Iterator[None]:
    """Let native calls in the body end with `Cancelled` soon after `check()` has become true.

    It holds in this thread, and in threads that run in a copy of its context, as those of
    `mapped` do.

    Args: check: is called before each native call, and about each tenth of a second during a long
        one, in the thread that works. What it raises ends the call, too.
    Raises: Cancelled: by native calls in the body, and so by the body.
    """
    outer = _check.get()
    token = _check.set(check if outer is None else lambda: check() or outer())
    try:
        yield
    finally:
        _check.reset(token)


def _ask() -> None:
    """Raise what is to end the call: Python runs handlers of signals while it is in here."""
    check = _check.get()
    if check is not None and check():
        raise Cancelled("the work was cancelled")


def _address_of_function(name: str) -> int:
    """The address of a function of Python's C interface."""
    return ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0


def call(name: str, *values: Any) -> Any:
    """Call a function of the library.

    Args:
        name: as native/api declares it.
        values: its arguments; arrays are used as they are, never copied.
    Returns: What the function returns: an int, a float or None.
    Raises:
        NativeError: as `library`.
        TypeError, ValueError: an argument is not what the declaration says, or the function
            refuses a type or sizes that do not agree.
        MemoryError: the function had no memory left for its work.
        Cancelled: see `cancelled_when`.
        Whatever the handler of a signal raises, as KeyboardInterrupt: the call has been ended.
    """
    return getattr(library(), name)(*values)


def struct(name: str, value: Any) -> Struct:
    """Convert an object with the attributes of a struct once, to be passed again and again."""
    return library().struct(name, value)


def library() -> Library:
    """The library, looked for and loaded at the first call.

    Raises:
        NativeError: it is missing, older than its sources, or made for another processor; the text
            says what to do.
    """
    if _loaded:
        return _loaded[0]
    # Without a lock, which a fork could leave held: threads that load it at once get one library.
    made = _load()
    made.ask(_STEPS, _SECONDS, _ask)
    _loaded.append(made)
    return _loaded[0]


def read_declarations(texts: list[str]) -> Declarations:
    """Read what headers declare.

    Args: texts: the headers' contents.
    Raises: NativeError: something is declared twice, or in a form that is not known.
    """
    found = Declarations({}, {})
    for text in texts:
        text = re.sub(r"//[^\n]*", "", text)
        text = re.sub(r"^\s*#(?:[^\n]*\\\n)*[^\n]*$", "", text, flags=re.MULTILINE)
        for match in re.finditer(r"\bstruct\s+(\w+)\s*\{([^{}]*)\}\s*;", text):
            if match[1] in found.structs:
                raise NativeError(f"struct {match[1]} is declared twice")
            fields = [part.strip() for part in match[2].split(";") if part.strip()]
            found.structs[match[1]] = [f for part in fields for f in _read_fields(part)]
        for match in re.finditer(r"\bGPUPARSE\((\w+)\)\s*(\w+)\s*\(([^()]*)\)\s*;", text):
            if match[2] in found.functions:
                raise NativeError(f"function {match[2]} is declared twice")
            if match[1] not in _RESULTS:
                raise NativeError(f"function {match[2]} returns {match[1]}")
            parts = [part.strip() for part in match[3].split(",") if part.strip()]
            found.functions[match[2]] = (
                match[1],
                [a for part in parts for a in _read_fields(part)],
            )
    return found


_BUILD = "run `python native/build.py`"
_MISSING = (
    f"the compiled library is missing: {_BUILD} in the checkout, or install the package where a C++"
    " compiler or the package ziglang is at hand"
)
_loaded: list[Library] = []  # the first is used


def _load() -> Library:
    """Find, check and load the library: that beside this file, or of the installed package."""
    named = os.environ.get(ENVIRONMENT)
    if named:
        if not Path(named).is_file():
            raise NativeError(f"{named}: no such library, named by {ENVIRONMENT}")
        return Library(Path(named), _read_headers(Path(named).parent / "api"))
    found = _load_from(_FOLDER)
    if found is None and (_SOURCES / "api" / "types.h").is_file():
        # A checkout hides the package that `pip install .` has installed from it.
        found = _load_from(_installed_folder())
    if found is None:
        raise NativeError(_MISSING)
    return found


def _installed_folder() -> Path:
    """The path of the installed package's library, if it is installed."""
    from importlib.metadata import PackageNotFoundError, distribution  # slow, and seldom needed

    try:
        return Path(str(distribution("gpuparse").locate_file("gpuparse/_native")))
    except PackageNotFoundError:
        return _FOLDER


def _load_from(folder: Path) -> Library | None:
    """The library in a folder, None where there is none."""
    path = folder / f"libgpuparse{_SUFFIX}"
    if path.is_file():
        loaded = Library(path, _read_fresh_headers(path))
        if not loaded.processor_fits():
            raise NativeError(
                f"{path}: compiled for a processor with more instructions than this one: {_BUILD}"
            )
        return loaded
    levels = {level: folder / f"libgpuparse-{name}{_SUFFIX}" for level, name in _LEVELS.items()}
    if levels[2].is_file():
        loaded = Library(levels[2], _read_fresh_headers(levels[2]))
        if not loaded.processor_fits():
            raise NativeError(f"{levels[2]}: made for a newer processor than this one: {_BUILD}")
        level = loaded.processor_level()
        best = max((have for have in levels if have <= level and levels[have].is_file()), default=2)
        return loaded if best == 2 else Library(levels[best], loaded.declarations)
    return None


def _read_fresh_headers(path: Path) -> Declarations:
    """The headers beside a library, if it is as new as the sources of the checkout."""
    if (_SOURCES / "api" / "types.h").is_file():
        digest = Path(f"{path}.digest")
        if not digest.is_file() or digest.read_text().strip() != _source_digest():
            raise NativeError(f"{path}: older than its sources: {_BUILD} in the checkout")
    return _read_headers(path.parent / "api")


def _read_headers(folder: Path) -> Declarations:
    """The declarations of all headers of a folder."""
    headers = sorted(path for path in folder.glob("*.h") if path.name != "types.h")
    if not headers:
        raise NativeError(f"{folder}: the library's headers are missing: {_BUILD}")
    return read_declarations([path.read_text() for path in headers])


def _source_digest() -> str:
    """The same as `source_digest` of native/build.py."""
    digest = hashlib.sha256()
    for path in sorted([*_SOURCES.rglob("*.h"), *_SOURCES.rglob("*.cpp")]):
        digest.update(path.relative_to(_SOURCES).as_posix().encode() + b"\0")
        digest.update(path.read_bytes() + b"\0")
    return digest.hexdigest()


def _read_fields(text: str) -> list[Argument]:
    """One declaration `[const] type[*] name[, name...]`."""
    match = re.fullmatch(
        r"(?:const\s+)?(?:struct\s+)?(\w+)(\s*\*\s*|\s+)(\w+(?:\s*,\s*\w+)*)", text
    )
    is_pointer = match is not None and "*" in match[2]
    if not match or (is_pointer and "," in match[3]):
        raise NativeError(f"cannot read the declaration {' '.join(text.split())!r}")
    return [Argument(match[1], is_pointer, name.strip()) for name in match[3].split(",")]


def _raise_status(name: str, status: int) -> None:
    """Raise what a status of native/api/types.h stands for."""
    if status == NO_MEMORY:
        raise MemoryError(f"{name}: out of memory")
    if status == BAD_SHAPE:
        raise ValueError(f"{name}: sizes of arrays do not agree, or an index is out of range")
    raise TypeError(f"{name}: an array has a type that the function does not accept")


def _reference_converter(name: str, make: _Convert, where: str) -> _Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return None
        if type(value) is not Struct:
            return ctypes.byref(make(value))
        if value.name != name:
            raise TypeError(f"{where}: a struct {name} is needed, not {value.name}")
        return value.reference

    return convert


def _pointer_converter(name: str, make: _Convert, pointer: Any, where: str) -> _Convert:
    def convert(value: Any) -> Any:
        if value is None:
            return pointer()
        if type(value) is not Struct:
            return pointer(make(value))
        if value.name != name:
            raise TypeError(f"{where}: a struct {name} is needed, not {value.name}")
        return pointer(value.value)

    return convert


def _scalar_converter(name: str, limits: tuple[float, float] | None, where: str) -> _Convert:
    if name == "double":
        return float
    if limits is None:
        return bool
    low, high = limits

    def convert(value: Any) -> int:
        number = value.__index__()
        if not low <= number <= high:
            raise OverflowError(f"{where}: {number} does not fit in {name}")
        return int(number)

    return convert


def _are_all(record: np.dtype, wanted: np.dtype | None) -> bool:
    """True if a record is values of one type side by side."""
    assert record.fields is not None
    size = 0 if wanted is None else len(record.fields) * wanted.itemsize
    return record.itemsize == size and all(kind == wanted for kind, *_ in record.fields.values())


_arrays: dict[tuple[bool, int], Any] = {}  # the ctypes structs of arrays, by has-dtype and rank


def _array_type(name: str, rank: int, is_output: bool, where: str) -> tuple[Any, _Convert]:
    """The ctypes struct of an array argument, and what makes it of a NumPy array."""
    is_any = name == "any"
    made = _arrays.get((is_any, rank))
    if made is None:
        fields: list[tuple[str, Any]] = [("data", ctypes.c_void_p)]
        fields += [("dtype", ctypes.c_int64)] if is_any else []
        fields += [(f"n{axis}", ctypes.c_int64) for axis in range(rank)]
        made = type(f"array_{rank}", (ctypes.Structure,), {"_fields_": fields})
        made = _arrays.setdefault((is_any, rank), made)
    wanted = None if is_any else np.dtype(_DTYPES[name])
    numbers = "numbers" if is_any else _DTYPES[name].__name__  # NumPy's text of a dtype takes long
    # A missing array has type code 0: the function sees that there is no data.
    access = " and writable" if is_output else ""
    needed = f"a C-contiguous{access} array of {rank} axes of {numbers} is needed"
    missing = made()

    def convert(value: Any) -> Any:
        # What nearly all arrays are takes few steps.
        if type(value) is np.ndarray and value.dtype is wanted and value.ndim == rank:
            flags = value.flags
            if flags.carray or (not is_output and flags.c_contiguous and flags.aligned):
                address = _address(value) if value.size else None
                return made(address, len(value)) if rank == 1 else made(address, *value.shape)
        return convert_any(value)

    def convert_any(value: Any) -> Any:
        if value is None:
            return missing
        if not isinstance(value, np.ndarray):
            raise TypeError(f"{where}: {needed}, not {type(value).__name__}")
        dtype, shape = value.dtype, value.shape
        if dtype.names and rank == len(shape) + 1 and _are_all(dtype, wanted):
            shape, dtype = (*shape, len(dtype.names)), wanted
        if (dtype is not wanted and dtype != wanted) if wanted is not None else dtype not in _CODES:
            raise TypeError(f"{where}: {needed}, not of {value.dtype}")
        if len(shape) != rank:
            raise ValueError(f"{where}: {needed}, not of shape {value.shape}")
        flags = value.flags
        if not (flags.carray if is_output else flags.c_contiguous and flags.aligned):
            raise ValueError(f"{where}: {needed}; copy it with numpy.ascontiguousarray")
        address = _address(value) if value.size else None
        if wanted is None:
            return made(address, _CODES[dtype], *shape)
        return made(address, *shape)

    return made, convert


_pointer_at = ctypes.c_void_p.from_address
_HEADER = object.__basicsize__


def _address_of_struct(array: np.ndarray) -> int | None:
    """The first field after the object's header in NumPy's C interface: the address of the data."""
    return _pointer_at(id(array) + _HEADER).value


def _address_of_attribute(array: np.ndarray) -> int | None:
    return array.ctypes.data


def _pick_address() -> Callable[[np.ndarray], int | None]:
    """The faster of two ways to an array's address, if it is right."""
    probe = np.zeros(3)[1:]
    is_right = _address_of_struct(probe) == probe.ctypes.data
    return _address_of_struct if is_right else _address_of_attribute


_address = _pick_address()


def mapped(work: Callable[[Item], Result], items: Sequence[Item], threads: int) -> Iterator[Result]:
    """The results of some work on every item, in order; one item or thread needs no new thread.

    Threads take over the check of `cancelled_when`. After an error, an interruption
    or a result that is the last one wanted, native calls in all of them end, too.
    """
    return map(work, items) if threads < 2 or len(items) < 2 else _in_threads(work, items, threads)


def _in_threads(
    work: Callable[[Item], Result], items: Sequence[Item], threads: int
) -> Iterator[Result]:
    try:
        from concurrent.futures import ThreadPoolExecutor  # and logging with it: a slow import
    except RuntimeError as error:
        require_ending(error)
        yield from map(work, items)
        return
    with ThreadPoolExecutor(threads) as pool:
        yield from mapped_in(pool, work, items)


def require_ending(error: RuntimeError) -> None:
    """Raise the error unless it says that Python is ending and starts no thread any more.

    A daemon thread may still work then: without threads of its own it does until the process ends.
    """
    if "shutdown" not in str(error):
        raise error


def mapped_in(
    pool: "Executor", work: Callable[[Item], Result], items: Iterable[Item]
) -> Iterator[Result]:
    """As `mapped`, in the threads of a pool; all work has ended when this has."""
    stopped = threading.Event()

    def run(item: Item) -> Result:
        with cancelled_when(stopped.is_set):
            return work(item)

    items = list(items)
    try:
        futures = [pool.submit(copy_context().run, run, item) for item in items]
    except RuntimeError as error:
        require_ending(error)
        yield from map(work, items)
        return
    try:
        for future in futures:
            yield future.result()
    finally:
        stopped.set()
        for future in futures:
            future.cancel()
        for future in futures:
            if not future.cancelled():
                future.exception()  # waits
