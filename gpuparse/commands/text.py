"""`text`: the raw text of a treebank."""

import argparse
import sys
from collections.abc import Sequence
from typing import BinaryIO

from gpuparse.commands.console import exit_codes
from gpuparse.data.conll import stream_treebanks
from gpuparse.errors import DataError
from gpuparse.files import replace_file, standard_input, unchanged
from gpuparse.jobs.progress import program
from gpuparse.text.conllu import text_pieces


def main(arguments: Sequence[str]) -> int:
    """Write the raw text of a CoNLL-U file.

    Args: arguments: `FILE [--output FILE [--force]]`.
    Returns: 0.
    Raises: ConfigError: the output exists. DataError: the file cannot be used.
    """
    parser = argparse.ArgumentParser(
        prog=program("text"),
        description="Write the raw text of a CoNLL-U file: tokens with the spaces that MISC tells"
        " (SpaceAfter=No, SpacesAfter), an empty line between paragraphs (# newpar, # newdoc)."
        " docs/raw-text.md says more.",
        epilog=exit_codes(0, 2, 3),
    )
    parser.add_argument("file", help="CoNLL-U file, or -")
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a file instead of standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    options = parser.parse_args(arguments)
    with _opened(options.file) as file, unchanged(file, file.name):
        pieces = text_pieces(stream_treebanks(file, file.name))
        if options.output:
            with replace_file(options.output, force=options.force) as output:
                output.writelines(piece.encode() for piece in pieces)
        else:
            sys.stdout.buffer.writelines(piece.encode() for piece in pieces)
            sys.stdout.buffer.flush()
    return 0


def _opened(path: str) -> BinaryIO:
    """The file, or standard input.

    Raises: DataError.
    """
    if path == "-":
        return standard_input()
    try:
        return open(path, "rb")
    except OSError as error:
        raise DataError(f"{path}: cannot be read: {error.strerror}; check the path") from error
