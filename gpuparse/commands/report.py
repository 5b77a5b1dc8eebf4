"""`report`: one HTML page about what a parser gets right and wrong, or two of them."""

import argparse
import os
from collections.abc import Sequence
from pathlib import Path

from gpuparse.commands.console import add_number, exit_codes
from gpuparse.commands.evaluate import add_punctuation_options, punctuation_of
from gpuparse.files import check_new_file, write_file
from gpuparse.jobs.progress import program, say
from gpuparse.jobs.report import Report, gold_of, model_of, page, system_of

PAGE = "report.html"


def main(arguments: Sequence[str]) -> int:
    """Write the page.

    Raises:
        ConfigError: the gold file is not known, or the page exists.
        DataError: a file cannot be used, or differs from gold in more than heads and relations.
        ModelError: a model cannot be used.
    Cost: parsing the gold file by each model.
    """
    options = _parser().parse_args(arguments)
    runs = [options.run] if options.other is None else [options.run, options.other]
    for run in runs:
        model_of(run)
    output = options.output or (Path(options.run) / PAGE if os.path.isdir(options.run) else PAGE)
    check_new_file(output, force=options.force)
    gold, part = gold_of(runs, options.gold)
    punctuation = punctuation_of(options)
    systems = [
        system_of(run, gold, part, punctuation=punctuation, threads=options.threads) for run in runs
    ]
    text = page(Report(gold, systems, punctuation, options.sentences))
    write_file(output, text.encode(), force=options.force)
    say(f"{output}: written")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("report"),
        description="Write an HTML page about a run: scores, errors by relation,"
        " part of speech, length, depth and projectivity, confusions of relations, reliability of"
        " probabilities, and the sentences with the most errors; or about two runs side by side,"
        " with tests whether they differ. Trees come from HEAD and DEPREL; DEPS is read for"
        " models of graphs alone. docs/evaluating.md describes it.",
        epilog=exit_codes(0, 2, 3, 4, 5),
    )
    what = "folder or name of a model, which parses the gold file; or the gold file parsed by any"
    parser.add_argument("run", metavar="RUN", help=f"{what} parser")
    parser.add_argument("other", metavar="OTHER", nargs="?", help="another one, to compare with")
    parser.add_argument(
        "--gold",
        metavar="FILE",
        help="file with the right trees; the default is data.test of the model's training, or"
        " data.dev without it",
    )
    parser.add_argument(
        "-o",
        "--output",
        metavar="FILE",
        help=f"the page; the default is {PAGE} in the folder RUN, or in the working directory",
    )
    parser.add_argument("--force", action="store_true", help="replace the page if it exists")
    add_number(parser, "--sentences", 0, "how many sentences to draw (default 10)", default=10)
    add_number(
        parser,
        "--threads",
        0,
        "threads to parse with; 0: one per available processor (default)",
        default=0,
    )
    add_punctuation_options(parser)
    return parser
