"""`text`: the raw text of a treebank."""

import argparse
from collections.abc import Sequence

from gpuparse.commands.console import exit_codes, output_file
from gpuparse.data.conll import stream_treebanks
from gpuparse.files import input_file
from gpuparse.jobs.progress import program
from gpuparse.text.conllu import text_pieces


def main(arguments: Sequence[str]) -> int:
    """Write the raw text of a CoNLL-U file.

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
    with input_file(options.file) as file:
        pieces = text_pieces(stream_treebanks(file, file.name))
        with output_file(options.output, force=options.force) as output:
            output.writelines(piece.encode() for piece in pieces)
    return 0
