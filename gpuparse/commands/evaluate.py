"""`evaluate`: score a parsed file against the gold file."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, plural
from gpuparse.evaluation.metrics import measure_reliability_of_treebanks
from gpuparse.evaluation.reliability import HEAD
from gpuparse.evaluation.reports import reliability_as_text
from gpuparse.jobs.progress import program, say, visible
from gpuparse.jobs.scoring import Punctuation, scored


def main(arguments: Sequence[str]) -> int:
    """Score one file against another and print the scores.

    Files of the same words get the scores of trees, and with other tags or lemmas those too. Files
    of the same text with other words or sentences, or without any heads, get the scores of the
    CoNLL 2018 shared task. With --probabilities, the probabilities in the second file are compared
    with the share of correct words instead.

    Raises:
        ConfigError: both files are standard input, or punctuation is to be left out of the scores
            of the shared task.
        DataError: a file cannot be used, has no probabilities, or the two differ in their text.
    """
    options = _parser().parse_args(arguments)
    check_standard_input([options.gold, options.system])
    gold, system = read_treebank(options.gold), read_treebank(options.system)
    if options.probabilities:
        return _print_reliability(gold, system, options)
    found = scored(gold, system, options.graphs, punctuation_of(options))
    for note in found.notes:
        say(note)
    if options.json:
        print_json(found.as_json)
    else:
        print(visible(found.as_text), end="")
    return 0


def _print_reliability(gold: Treebank, system: Treebank, options: argparse.Namespace) -> int:
    ignored = punctuation_of(options).words_of(gold)
    found = measure_reliability_of_treebanks(gold, system, ignored=ignored)
    without = gold.n_words - found["heads"].count - (0 if ignored is None else int(ignored.sum()))
    if without:
        are = "is" if without == 1 else "are"
        say(f"{options.system}: {plural(without, 'word')} without {HEAD} {are} not counted")
    if options.json:
        print_json({name: asdict(part) for name, part in found.items()})
    else:
        print(reliability_as_text(found), end="")
    return 0


def check_standard_input(files: Sequence[str]) -> None:
    """ConfigError if standard input (-) is named twice."""
    if files.count("-") > 1:
        raise ConfigError("standard input (-) can be read once only; name one of the files")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("evaluate"),
        description="Score a parsed file against the gold file, HEAD and DEPREL of both, or DEPS"
        " with --graphs: UAS, LAS, label accuracy, complete"
        " sentences, root, non-projective arcs, all relations; where tags or lemmas differ, those"
        " too. Files of the same text with other words or sentences, or without any heads, get the"
        " measures of the CoNLL 2018 shared task. All words are scored, punctuation included,"
        " unless an option leaves it out. docs/evaluating.md defines the measures.",
        epilog=exit_codes(0, 2, 3),
    )
    kind = parser.add_mutually_exclusive_group()
    parser.add_argument("gold", help="CoNLL-X or CoNLL-U file with the right trees, or -")
    parser.add_argument("system", help="the same text, parsed, or -")
    kind.add_argument(
        "--graphs",
        choices=("deps", "heads"),
        help="score graphs instead of trees: precision, recall and F over the arcs of the gold"
        " file's DEPS; the system's arcs are in its DEPS (deps) or in its HEAD column (heads), for"
        " parsers of trees, whose DEPS is empty",
    )
    kind.add_argument(
        "--probabilities",
        action="store_true",
        help="compare the probabilities in the parsed file, HeadProb and LabelProb in MISC, with"
        " the share of correct words: reliability tables, the expected calibration error, and how"
        " well low probabilities find errors",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
    add_punctuation_options(parser)
    return parser


def add_punctuation_options(parser: argparse.ArgumentParser) -> None:
    """Add the options that leave out punctuation."""
    punctuation = parser.add_mutually_exclusive_group()
    punctuation.add_argument(
        "--ignore-punct",
        action="store_true",
        help="leave out words whose characters are all punctuation in Unicode",
    )
    punctuation.add_argument(
        "--punct-tags",
        nargs="+",
        metavar="TAG",
        help="leave out words whose coarse or fine POS tag in the gold file is one of these",
    )


def punctuation_of(options: argparse.Namespace) -> Punctuation:
    """The words that these options leave out."""
    return Punctuation(options.ignore_punct, options.punct_tags)
