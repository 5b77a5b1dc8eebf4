"""Formats of inputs and outputs: their names, and what the name or the beginning of a file says."""

import os
import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from gpuparse.errors import ConfigError, option, plural
from gpuparse.files import files_below

CONLLU, PARQUET, ARROW, JSONL = FORMATS = "conllu", "parquet", "arrow", "jsonl"
AUTO, TEXT, LINES, VERTICAL = "auto", "text", "lines", "vertical"
INPUTS = (AUTO, TEXT, LINES, VERTICAL, *FORMATS)
OUTPUTS = CONLLU, JSONL  # that an input of another format can have
RAW = (TEXT, LINES)  # what a tokeniser splits into words
WORDS_ALONE = (*RAW, VERTICAL)  # inputs without columns
SUFFIXES = {
    ".txt": TEXT, ".conllu": CONLLU, ".conll": CONLLU, ".conllx": CONLLU,
    ".jsonl": JSONL, ".ndjson": JSONL,
    ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".arrows": ARROW, ".feather": ARROW,
    ".ipc": ARROW,
}  # fmt: skip
# Suffixes of formats that nothing is written in.
OTHERS = (
    ".bz2", ".csv", ".docx", ".htm", ".html", ".json", ".md", ".pdf", ".svg", ".tex", ".xlsx",
    ".xml", ".xz", ".yaml", ".yml", ".zip",
)  # fmt: skip
_COMMENT = re.compile(rb"#[ \t]*(?:[\w.:-]+[ \t]*=|new(?:doc|par)\b)")  # of CoNLL-U
_NAMED = 3  # files that a message lists
GZIP, ZSTD = COMPRESSED = ".gz", ".zst"


def compression_of(path: str) -> str:
    """GZIP, ZSTD, or "" for a file that is not compressed, by its suffix."""
    suffix = os.path.splitext(path)[1].lower()
    return suffix if suffix in COMPRESSED else ""


def without_compression(path: str) -> str:
    """The name of the content of a compressed file; of another file, its own."""
    return os.path.splitext(path)[0] if compression_of(path) else path


def format_of(path: str, asked: str = AUTO) -> str:
    """The format of an input: the one asked for, or what its suffix says, CONLLU for others.

    Args: asked: one of INPUTS.
    Raises: ConfigError: another one; a compressed table.
    """
    if asked not in INPUTS:
        raise ConfigError(f"input: expected {', '.join(INPUTS)}, and not {asked!r}")
    kind = SUFFIXES.get(suffix_of(path), CONLLU) if asked == AUTO else asked
    if is_table(kind) and compression_of(path):
        raise ConfigError(
            f"{path}: a table that is compressed as a whole cannot be read; decompress it"
        )
    return kind


def suffix_of(path: str) -> str:
    """The suffix of a file, in small letters; of a compressed file that of its content."""
    return os.path.splitext(without_compression(path))[1].lower()


def output_format(kind: str, path: str = "", asked: str = AUTO) -> str:
    """The format of an output: the one asked for, or that of its suffix, or that of its input.

    Args: kind: the format of the input. path: of the output; "": its suffix is that of the input.
        asked: one of OUTPUTS, or AUTO.
    Raises: ConfigError: the input cannot be written in that format, or the suffix names another.
    """
    own = kind if is_table(kind) or kind == JSONL else CONLLU
    can = (own, JSONL) if is_table(kind) else OUTPUTS
    suffix = suffix_of(path)
    said = SUFFIXES.get(suffix)
    form = asked if asked != AUTO else said if said in can else own
    if form not in can:
        raise ConfigError(
            f"{option('format', form)}: an input of {kind} can be written as {' or '.join(can)}"
        )
    if said not in (form, None) or suffix in OTHERS:
        formats = can if asked == AUTO else (form,)
        ends = [next(each for each in SUFFIXES if SUFFIXES[each] == name) for name in formats]
        raise ConfigError(
            f"{path}: the output is {' or '.join(formats)}, and {suffix} says otherwise; a name"
            f" that works ends in {' or '.join(ends)}"
        )
    if is_table(form) and (compression := compression_of(path)):
        raise ConfigError(
            f"{path}: a table is compressed by its own format; name it without {compression}"
        )
    return form


def output_name(name: str, kind: str, form: str) -> str:
    """The name of the output of a file in a folder: that of the file, if it has its format.

    Otherwise the suffix of the format follows the name, or takes the place of a suffix that says
    what the input is. The output of a compressed file is compressed.

    Args: name: of the file. kind: its format. form: that of the output.
    """
    whole, compression = without_compression(name), compression_of(name)
    suffix = suffix_of(name)
    said = SUFFIXES.get(suffix)
    if said == form or (form == kind and said is None and suffix not in OTHERS):
        return name
    stem = os.path.splitext(whole)[0] if said in (kind, TEXT) else whole
    return f"{stem}.{form}{name[len(whole) :] if compression else ''}"


def inputs_below(folder: str | os.PathLike[str], asked: str = AUTO) -> tuple[list[str], str]:
    """The names of the files of a folder that are read, as `files_below` gives them.

    Args: asked: the format of all files; AUTO: those whose suffix says none are passed over.
    Returns: the names, and a line about the files that are passed over, "" without any.
    Raises: ConfigError: no file is left.
    """
    names = files_below(folder)
    if asked != AUTO:
        return names, ""
    others = [name for name in names if suffix_of(name) not in SUFFIXES]
    if not others:
        return names, ""
    more = f" and {len(others) - _NAMED} more" if len(others) > _NAMED else ""
    said = (
        f"{folder}: {plural(len(others), 'file')} with unknown suffixes passed over:"
        f" {', '.join(others[:_NAMED])}{more}"
    )
    if len(others) == len(names):
        raise ConfigError(f"{said}; name them, or give {option('input')}")
    return [name for name in names if suffix_of(name) in SUFFIXES], said


def check_output_folder(target: str | os.PathLike[str], source: str | os.PathLike[str]) -> None:
    """Make sure that the outputs of the files of a folder are not in it.

    Raises: ConfigError: they are.
    """
    if Path(target).resolve().is_relative_to(Path(source).resolve()):
        raise ConfigError(f"{target}: is in {source}; name another folder for the output")


def outputs_of(
    files: Sequence[str], names: Iterable[str], target: str | os.PathLike[str],
    kinds: Iterable[str], asked: str = AUTO,
) -> list[Path]:  # fmt: skip
    """The outputs of files in a folder, where they have their names but for the suffix.

    Args:
        names: of the files in the folder. target: the folder. kinds: the formats of the files.
        asked: see `output_format`.
    Raises: ConfigError: two files would have the same output; as `output_format`.
    """
    inputs: dict[Path, str] = {}
    for file, name, kind in zip(files, names, kinds, strict=True):
        output = Path(target) / output_name(name, kind, output_format(kind, asked=asked))
        if output in inputs:
            raise ConfigError(f"{inputs[output]} and {file} would both be written as {output}")
        inputs[output] = file
    return list(inputs)


def is_raw_text(begin: bytes) -> bool:
    """True if a stream that begins so is raw text: its first line but comments has no tab.

    Where all lines begin with #, it is raw text unless one is a comment such as `# key = value`.

    Args: begin: the first line that is not blank and no comment, and those before it.
    """
    lines = begin.removeprefix(b"\xef\xbb\xbf").splitlines()
    others = [line for line in lines if line.strip() and not line.startswith(b"#")]
    if others:
        return b"\t" not in others[0]
    return any(map(bytes.strip, lines)) and not any(map(_COMMENT.match, lines))


def is_table(kind: str) -> bool:
    """True if a format has rows of sentences."""
    return kind in (PARQUET, ARROW)
