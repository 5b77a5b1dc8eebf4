"""Errors of the package, each with the exit code of commands, and parts of their texts."""

import importlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar


class GpuparseError(Exception):
    """Any error that this package raises on purpose; its text says what is wrong and what to do."""

    exit_code = 1


class ConfigError(GpuparseError):
    """A wrong command line or configuration."""

    exit_code = 2


class MissingPackageError(ConfigError, ImportError):
    """A package is missing that an extra installs."""


class DataError(GpuparseError):
    """Input that cannot be used; the text begins with file:line."""

    exit_code = 3


class ModelError(GpuparseError):
    """A model folder that is missing, damaged, or of another program."""

    exit_code = 4


class ResourceError(GpuparseError):
    """Out of memory, disk space or device memory."""

    exit_code = 5


class ScoreError(GpuparseError, ValueError):
    """Score tensors with a wrong shape, type or value."""

    exit_code = 3


class NoTreeError(GpuparseError, ValueError):
    """Forbidden arcs leave a sentence without any tree."""

    exit_code = 3


class SelfTestError(GpuparseError):
    """A device, or native code, gives wrong results or none."""

    exit_code = 7


class Cancelled(Exception):
    """Work that `gpuparse.native.cancelled_when` has ended."""


class NativeError(GpuparseError):
    """The compiled library is missing, older than its sources, or made for another processor."""

    exit_code = 6


def _argument(name: str, *values: object) -> str:
    """An option as an argument in Python, such as `kbest` and `keep="tags"`."""
    quoted = (f'"{value}"' if isinstance(value, str) else repr(value) for value in values)
    return f"{name}={' or '.join(quoted)}" if values else name


_naming: ContextVar[Callable[..., str]] = ContextVar("naming", default=_argument)


def option(name: str, *values: object) -> str:
    """An option in a message: an argument in Python, or an option of the command.

    values: that the option may have; True for one that is only given or not.
    """
    return _naming.get()(name, *values)


@contextmanager
def options_named(naming: Callable[..., str]) -> Iterator[None]:
    """Let a door's messages name options so; naming: takes what `option` takes.

    Other threads have Python's names, unless they run in a copy of this context.
    """
    token = _naming.set(naming)
    try:
        yield
    finally:
        _naming.reset(token)


def plural(count: int, noun: str, nouns: str | None = None) -> str:
    """A number and what is counted, as `1 sentence` and `4,000 sentences`.

    nouns: for any other number than 1; the noun with an s if None.
    """
    return f"{count:,} {noun if count == 1 else nouns or f'{noun}s'}"


def near_names(word: str, names: Iterable[str], *, n: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names that a word was probably meant to be, at most n, the most similar one first.

    cutoff: how similar a name must be, from 0 to 1; see `difflib`.
    """
    import difflib  # for an error only

    return difflib.get_close_matches(word, list(names), n=n, cutoff=cutoff)


def did_you_mean(names: Sequence[str]) -> str:
    """The question about the names of `near_names`; "" without any."""
    return f"did you mean {' or '.join(names)}?" if names else ""


def one_line(message: object) -> str:
    """An error or a text in one line of characters that can be printed, cut where it is long."""
    text = " ".join(str(message).split())[:300]
    return "".join(character if character.isprintable() else "?" for character in text)


# Package -> the extra of pyproject.toml that installs it.
EXTRAS = {
    "torch": "torch",
    "matplotlib": "plots",
    "pyarrow": "arrow",
    "pandas": "arrow",
    "spacy": "spacy",
    "prometheus_client": "serve",
    "starlette": "serve",
    "tokenizers": "accurate",
    "transformers": "encoder",
    "uvicorn": "serve",
    "zstandard": "zstd",
}


def require(what: str, *modules: str) -> None:
    """Import modules of optional packages.

    Args:
        what: what needs them, as the error says it.
        modules: of the packages in `EXTRAS`, such as "pyarrow.parquet".
    Raises: MissingPackageError: one cannot be imported.
    """
    for module in modules:
        package = module.partition(".")[0]
        try:
            importlib.import_module(module)
        except ImportError as error:
            missing = error.name if isinstance(error, ModuleNotFoundError) else None
            is_missing = missing is not None and missing.partition(".")[0] == package
            why = "" if is_missing else f", which cannot be imported ({one_line(error)})"
            install = f"pip install 'gpuparse[{EXTRAS[package]}]'"
            raise MissingPackageError(f"{what} needs {package}{why}: {install}") from error
