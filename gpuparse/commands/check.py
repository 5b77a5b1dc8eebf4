"""`check`: all faults of a treebank at once, and the words whose annotation a parser doubts."""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import fields

import numpy as np

from gpuparse.commands.console import add_number, exit_codes, print_json
from gpuparse.commands.evaluate import check_standard_input
from gpuparse.data.columns import UPOS
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, DataError
from gpuparse.files import check_new_file, replace_file
from gpuparse.jobs.checking import Asked, Checked, as_text, check_files
from gpuparse.jobs.drawing import HTML, WRITERS, drawn_sentences
from gpuparse.jobs.progress import Progress, program, say


def main(arguments: Sequence[str]) -> int:
    """Print all that is wrong with treebanks.

    Returns: 0 without errors, warnings or not; 3 with errors.
    Raises:
        ConfigError: options do not fit each other; the HTML file exists; the model has no
            probabilities. DataError: a file cannot be read, or has other words than the treebank.
        ModelError: the model cannot be used.
    """
    options = _parser().parse_args(arguments)
    check_standard_input([*options.treebanks, *filter(None, [options.predicted])])
    has_parser = options.model is not None or options.predicted is not None
    if options.html:
        if not has_parser or len(options.treebanks) > 1:
            raise ConfigError("--html: needs one treebank, and --model or --predicted")
        check_new_file(options.html, force=options.force)
    asked = Asked(**{field.name: getattr(options, field.name) for field in fields(Asked)})
    with Progress("parsing", quiet=options.model is None) as progress:
        checked, pairs = check_files(options.treebanks, asked, progress=progress.advance)
    if checked.errors and options.predicted:
        say("doubts are not listed: --predicted has other words until the errors are corrected")
    elif has_parser and checked.errors:
        say("sentences with errors are not parsed")
    if options.html and checked.doubts is not None:
        with replace_file(options.html, force=options.force) as file:
            file.writelines(_page(checked, pairs))
    if options.json:
        print_json(checked.to_dict())
    else:
        print(as_text(checked, show_all=options.all))
    return DataError.exit_code if checked.errors else 0


def _page(checked: Checked, pairs: Sequence[tuple[Treebank, Treebank]]) -> Iterator[bytes]:
    """The sentences of the most doubtful words, in their order."""
    for gold, parsed in pairs:
        lines = [doubt.line for doubt in checked.doubts or ()]
        words = np.searchsorted(gold.lines, lines)
        sentences = np.searchsorted(gold.word_starts, words, side="right") - 1
        chosen = list(dict.fromkeys(sentences.tolist()))
        pictures = drawn_sentences(parsed, gold, chosen, with_graphs=False, tags=UPOS)
        yield from (piece.encode() for piece in WRITERS[HTML](pictures, gold.source))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("check"),
        description="Print everything that is wrong with treebanks: all faults of the format and of"
        " the trees, which training refuses (errors), and what is unusual (warnings). With a"
        " parser, list the words for which it prefers another head or relation, the least probable"
        " annotation first. docs/evaluating.md says more.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    parser.add_argument(
        "treebanks", nargs="+", metavar="TREEBANK", help="CoNLL-X or CoNLL-U file, or -"
    )
    parser.add_argument(
        "--partial",
        action="store_true",
        help="words may lack a head, as with data.partial=true",
    )
    parser.add_argument(
        "--model",
        metavar="MODEL",
        help="folder or name of a model that did not learn from TREEBANK",
    )
    parser.add_argument(
        "--predicted",
        metavar="FILE",
        help="in place of a model: TREEBANK as `crossval --probabilities` parsed it; words whose"
        " head or relation was changed since then are not ranked",
    )
    parser.add_argument(
        "--guide", metavar="SOURCE", help="heads that another parser proposes, as for parse"
    )
    add_number(parser, "--most", 1, "list at most N doubtful words (20)", default=20)
    parser.add_argument(
        "--all", action="store_true", help="list more than 20 warnings of the same kind"
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of text")
    parser.add_argument(
        "--html", metavar="FILE", help="also draw the sentences of the doubtful words, as `draw`"
        " with --against TREEBANK",
    )  # fmt: skip
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    add_number(parser, "--threads", 0, "0: all processors", default=0)
    return parser
