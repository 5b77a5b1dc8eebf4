"""`compare`: scores of several parsed files, and tests whether they differ."""

import argparse
from collections.abc import Sequence

from gpuparse.commands.console import add_number, exit_codes, print_json
from gpuparse.commands.evaluate import (
    add_punctuation_options,
    check_standard_input,
    punctuation_of,
)
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError
from gpuparse.jobs.progress import program, say, visible
from gpuparse.jobs.scoring import RESAMPLES, compared


def main(arguments: Sequence[str]) -> int:
    """Score files against the gold file and test each against the first.

    Raises:
        ConfigError: standard input is named twice, there are more systems than letters, or
            punctuation is to be left out of the scores of the shared task.
        DataError: a file cannot be used, or differs from gold in its text.
    """
    options = _parser().parse_args(arguments)
    names = options.systems
    if len(names) < 2:
        raise ConfigError(
            f"expected the gold file and two parsed files or more: {program('compare')} GOLD A B;"
            f" one is scored by {program('evaluate')} GOLD A"
        )
    check_standard_input([options.gold, *names])
    gold, *systems = (read_treebank(file) for file in (options.gold, *names))
    found = compared(
        gold, systems, names, punctuation_of(options),
        resamples=options.resamples, seed=options.seed,
    )  # fmt: skip
    for note in found.notes:
        say(note)
    if options.json:
        print_json(found.as_json)
    else:
        print(visible(found.as_text), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("compare"),
        usage=f"{program('compare')} [options] GOLD A B [C ...]",
        description="Score parsed files of the same text, and test each against the first:"
        " McNemar's test on the words that only one of the two has right, and a paired bootstrap"
        " over sentences. The measures are those of `evaluate`: of trees where all files have"
        " the same words, else of the CoNLL 2018 shared task. docs/evaluating.md describes the"
        " measures and tests.",
        epilog=exit_codes(0, 2, 3),
    )
    parser.add_argument(
        "gold", metavar="GOLD", nargs="?", help="CoNLL-X or CoNLL-U file with the right trees, or -"
    )
    parser.add_argument(
        "systems",
        metavar="A B",
        nargs="*",
        help="the same text, parsed by two or more systems, or -; all are tested against A",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    add_punctuation_options(parser)
    add_number(
        parser, "--resamples", 1, "resamples of the bootstrap (default 10000)", default=RESAMPLES
    )
    add_number(parser, "--seed", 0, "seed (default 0)", default=0)
    return parser
