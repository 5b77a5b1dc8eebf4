"""Formats of inputs and outputs: their names, and what the name or the beginning of a file says."""

import os
from collections.abc import Iterable
from pathlib import Path

from gpuparse.errors import ConfigError

CONLLU, PARQUET, ARROW = FORMATS = "conllu", "parquet", "arrow"
AUTO, TEXT, LINES, VERTICAL = "auto", "text", "lines", "vertical"
INPUTS = (AUTO, TEXT, LINES, VERTICAL, *FORMATS)
RAW = (TEXT, LINES)  # what a tokeniser splits into words
WORDS_ALONE = (*RAW, VERTICAL)  # inputs without columns
SUFFIXES = {
    ".txt": TEXT,
    ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".arrows": ARROW, ".feather": ARROW,
    ".ipc": ARROW,
}  # fmt: skip
GZIP, ZSTD = COMPRESSED = ".gz", ".zst"


def compression_of(path: str) -> str:
    """GZIP, ZSTD, or "" for a file that is not compressed, by its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in COMPRESSED else ""


def without_compression(path: str) -> str:
    """The name of what a compressed file holds; of another file, its own."""
    return os.path.splitext(path)[0] if compression_of(path) else path


def format_of(path: str, asked: str = AUTO) -> str:
    """The format of an input: the one asked for, or what its suffix says, CONLLU for others.

    Args: asked: one of INPUTS.
    Raises: ConfigError: another one; a compressed table.
    """
    if asked not in INPUTS:
        raise ConfigError(f"input: expected {', '.join(INPUTS)}, and not {asked!r}")
    suffix = os.path.splitext(without_compression(path))[1].lower()
    kind = SUFFIXES.get(suffix, CONLLU) if asked == AUTO else asked
    if is_table(kind) and compression_of(path):
        raise ConfigError(
            f"{path}: a table that is compressed as a whole cannot be read; decompress it"
        )
    return kind


def output_name(name: str, kind: str) -> str:
    """The name of the output of a file in a folder: that of the file, if it has its format.

    Text and vertical text become CoNLL-U: `.conllu` follows the name, or takes the place of `.txt`.
    The output of a compressed file is compressed.

    Args: name: of the file. kind: its format.
    """
    whole, compression = without_compression(name), compression_of(name)
    if kind not in WORDS_ALONE or whole.lower().endswith(f".{CONLLU}"):
        return name
    stem, suffix = os.path.splitext(whole)
    stem = stem if SUFFIXES.get(suffix.lower()) == TEXT else whole
    return f"{stem}.{CONLLU}{name[len(whole) :] if compression else ''}"


def check_output_folder(target: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Make sure that the outputs of the files of a folder are not in it.

    Raises: ConfigError: they are.
    """
    if Path(target).resolve().is_relative_to(Path(source).resolve()):
        raise ConfigError(f"{target}: is in {source}; name another folder for the output")


def outputs_of(
    files: Iterable[str],
    names: Iterable[str],
    target: str | os.PathLike[str],
    asked: str = AUTO,
) -> list[Path]:
    """The outputs of files in a folder, where they have their names but for the suffix.

    Args: names: of the files in the folder. target: the folder. asked: see `format_of`.
    Raises: ConfigError: two files would have the same output.
    """
    inputs: dict[Path, str] = {}
    for file, name in zip(files, names, strict=True):
        output = Path(target) / output_name(name, format_of(file, asked))
        if output in inputs:
            raise ConfigError(f"{inputs[output]} and {file} would both be written as {output}")
        inputs[output] = file
    return list(inputs)


def check_output_name(path: str, kind: str) -> None:
    """Make sure that the suffix of an output names no other format than it gets.

    Args: kind: the format of the input.
    Raises: ConfigError: it does.
    """
    suffix = os.path.splitext(without_compression(path))[1].lower()
    said = CONLLU if suffix in (".conllu", ".conll") else SUFFIXES.get(suffix, TEXT)
    has = kind if is_table(kind) else CONLLU
    if is_table(kind) and (compression := compression_of(path)):
        raise ConfigError(
            f"{path}: a table is compressed by its own format; name it without {compression}"
        )
    if said not in (has, TEXT):
        raise ConfigError(f"{path}: the output of {kind} is {has}; name it without {suffix}")


def is_raw_text(begin: bytes) -> bool:
    """Whether a stream that begins so is raw text: its first line has no tab and is no comment.

    Args: begin: the first line that is not blank, and the blank ones before it.
    """
    text = begin.removeprefix(b"\xef\xbb\xbf").strip()
    return bool(text) and b"\t" not in begin and not text.startswith(b"#")


def is_table(kind: str) -> bool:
    """Whether a format has rows of sentences."""
    return kind in (PARQUET, ARROW)
