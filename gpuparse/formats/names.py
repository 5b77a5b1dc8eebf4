"""Formats of inputs and outputs: their names, and what the name or the beginning of a file says."""

import os

from gpuparse.errors import ConfigError

CONLLU, PARQUET, ARROW = FORMATS = "conllu", "parquet", "arrow"
AUTO, TEXT, VERTICAL = "auto", "text", "vertical"
INPUTS = (AUTO, TEXT, VERTICAL, *FORMATS)
SUFFIXES = {
    ".txt": TEXT,
    ".parquet": PARQUET, ".pq": PARQUET, ".arrow": ARROW, ".arrows": ARROW, ".feather": ARROW,
    ".ipc": ARROW,
}  # fmt: skip


def format_of(path: str, asked: str = AUTO) -> str:
    """The format of an input: the one asked for, or what its suffix says, CONLLU for others.

    Args: asked: one of INPUTS.
    Raises: ConfigError: another one.
    """
    if asked not in INPUTS:
        raise ConfigError(f"input: expected {', '.join(INPUTS)}, and not {asked!r}")
    return SUFFIXES.get(os.path.splitext(path)[1].lower(), CONLLU) if asked == AUTO else asked


def output_name(name: str, kind: str) -> str:
    """The name of the output of a file in a folder: that of the file, if it has its format.

    Text and vertical text become CoNLL-U: `.conllu` follows the name, or takes the place of `.txt`.

    Args: name: of the file. kind: its format.
    """
    if kind not in (TEXT, VERTICAL) or name.lower().endswith(f".{CONLLU}"):
        return name
    stem, suffix = os.path.splitext(name)
    return f"{stem if SUFFIXES.get(suffix.lower()) == TEXT else name}.{CONLLU}"


def check_output_name(path: str, kind: str) -> None:
    """Make sure that the suffix of an output names no other format than it gets.

    Args: kind: the format of the input.
    Raises: ConfigError: it does.
    """
    suffix = os.path.splitext(path)[1].lower()
    said = CONLLU if suffix in (".conllu", ".conll") else SUFFIXES.get(suffix, TEXT)
    has = kind if is_table(kind) else CONLLU
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
