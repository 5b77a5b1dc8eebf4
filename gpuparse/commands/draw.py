"""`draw`: the trees and graphs of a CoNLL file as pictures."""

import argparse
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import exit_codes, output_file
from gpuparse.commands.evaluate import check_standard_input
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError
from gpuparse.evaluation.treebanks import check_same_words
from gpuparse.jobs.drawing import (
    GRAPHS,
    HTML,
    TAGS,
    TEXT,
    WRITERS,
    chosen_sentences,
    drawn_sentences,
    format_of_suffix,
    has_graphs,
    tree_texts,
)
from gpuparse.jobs.progress import program

_WIDTH = 100  # characters of a line of text that is not for a terminal


def main(arguments: Sequence[str]) -> int:
    """Draw the sentences of a file.

    Raises:
        ConfigError: no such sentence or format; the output exists; both files are standard input.
        DataError: a file cannot be used, or the two have other words.
    """
    options = _parser().parse_args(arguments)
    form = _format(options.format, options.output)
    check_standard_input([options.file, *filter(None, [options.against])])
    treebank = read_treebank(options.file)
    gold = read_treebank(options.against) if options.against else None
    if gold is not None:
        check_same_words(gold, treebank)
    chosen = chosen_sentences(options.sentences, treebank)
    if form == TEXT:
        if options.graphs == "deps":
            raise ConfigError("--graphs deps: text has trees alone; choose --format html")
        in_terminal = not options.output and sys.stdout.isatty()
        width = shutil.get_terminal_size().columns if in_terminal else _WIDTH
        text = tree_texts(treebank, gold, chosen, width)
    else:
        with_graphs = has_graphs(treebank, gold, options.graphs)
        pictures = drawn_sentences(
            treebank, gold, chosen, with_graphs=with_graphs, tags=TAGS[options.tags]
        )
        text = WRITERS[form](pictures, treebank.source)
    with output_file(options.output, force=options.force) as file:
        file.writelines(piece.encode() for piece in text)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("draw"),
        description="Draw the trees of a CoNLL-X or CoNLL-U file as HTML, SVG or TikZ: arcs above"
        " the words, further arcs of graphs (DEPS) below. Probabilities in MISC (HeadProb,"
        " LabelProb) are shown as shade. As text, one word per line, draw the trees alone."
        " docs/draw-and-explain.md shows examples.",
        epilog=exit_codes(0, 2, 3),
    )
    parser.add_argument("file", help="CoNLL-X or CoNLL-U file, or -")
    parser.add_argument(
        "--against", metavar="GOLD", help="the same words with the right trees: colour differences"
    )
    parser.add_argument(
        "--sentences",
        metavar="LIST",
        help="which: numbers from 1 or sent_ids, as in 3,7-9,20-,news-12; default all",
    )
    parser.add_argument(
        "--format",
        choices=(*WRITERS, TEXT),
        help="default: by the suffix of --output (.html, .svg, .tex, .tikz, .txt); without it,"
        " text in a terminal, else html",
    )
    parser.add_argument(
        "-o", "--output", metavar="FILE", help="write a file instead of standard output"
    )
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    parser.add_argument(
        "--graphs",
        choices=GRAPHS,
        help="draw the graphs in DEPS too, or HEAD alone; default: deps where DEPS has graphs",
    )
    parser.add_argument(
        "--tags", choices=tuple(TAGS), default="upos", help="below the words; default upos"
    )
    return parser


def _format(name: str | None, output: str | None) -> str:
    if name:
        return name
    if not output:
        return TEXT if sys.stdout.isatty() else HTML
    return format_of_suffix(Path(output), ", or --format")
