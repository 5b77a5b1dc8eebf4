"""`reliability`: compare the probabilities in a parsed file with the share of correct words."""

import argparse
from collections.abc import Sequence
from dataclasses import asdict

from gpuparse.commands.console import exit_codes, print_json, whole_number
from gpuparse.commands.evaluate import add_punctuation_options, check_standard_input, ignored_words
from gpuparse.data.conll import read_treebank
from gpuparse.errors import plural
from gpuparse.evaluation.reliability import HEAD, Reliability, reliability_svg
from gpuparse.evaluation.treebanks import measure_reliability_of_treebanks
from gpuparse.files import replace_file
from gpuparse.jobs.progress import program, say

_TITLES = {
    "heads": "heads",
    "relations": "relations, where the head is right",
    "both": "heads and relations",
}


def main(arguments: Sequence[str]) -> int:
    """Compare the probabilities in a parsed file with the gold file; print tables, draw diagrams.

    Args:
        arguments: `GOLD SYSTEM [--bins N] [--equal-counts] [--json] [--plot FILE [--force]]
            [--ignore-punct | --punct-tags TAG...]`.
    Returns: 0.
    Raises:
        ConfigError: both files are standard input, or the plot would replace a file.
        DataError: a file cannot be used, has no probabilities, or the two differ in their words.
    """
    options = _parser().parse_args(arguments)
    check_standard_input([options.gold, options.system])
    gold, system = read_treebank(options.gold), read_treebank(options.system)
    ignored = ignored_words(gold, options)
    found = measure_reliability_of_treebanks(
        gold, system, ignored=ignored, bins=options.bins, equal_counts=options.equal_counts
    )
    without = gold.n_words - found["heads"].count - (0 if ignored is None else int(ignored.sum()))
    if without:
        say(
            f"{options.system}: {plural(without, 'word')} without {HEAD}"
            f" {'is' if without == 1 else 'are'} not counted"
        )
    if options.plot:
        drawing = reliability_svg({_TITLES[name]: part for name, part in found.items()})
        with replace_file(options.plot, force=options.force) as file:
            file.write(drawing.encode())
    if options.json:
        print_json({name: asdict(part) for name, part in found.items()})
    else:
        tables = [_as_text(_TITLES[name], part) for name, part in found.items()]
        print("\n\n".join("\n".join(table) for table in tables))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("reliability"),
        description="Compare the probabilities that a parsed file has in MISC (HeadProb, LabelProb)"
        " with the share of correct words: a reliability table, the expected calibration error, and"
        " how well low probabilities find errors. docs/probabilities.md defines the measures.",
        epilog=exit_codes(0, 2, 3),
    )
    parser.add_argument("gold", help="CoNLL-X or CoNLL-U file with the right trees, or -")
    parser.add_argument("system", help="the same words, parsed with --probabilities, or -")
    parser.add_argument(
        "--bins",
        type=whole_number(1),
        default=10,
        metavar="N",
        help="rows of the reliability table (default 10)",
    )
    parser.add_argument(
        "--equal-counts",
        action="store_true",
        help="bins with about equal counts of words instead of equal width",
    )
    parser.add_argument("--json", action="store_true", help="write JSON instead of tables")
    parser.add_argument("--plot", metavar="FILE", help="draw reliability diagrams, as SVG")
    parser.add_argument("--force", action="store_true", help="replace that file if it exists")
    add_punctuation_options(parser)
    return parser


def _as_text(title: str, found: Reliability) -> list[str]:
    expected, right = 100 * found.mean, 100 * found.right
    lines = [
        f"{title}: {plural(found.count, 'word')}, {right:.2f} % right, {expected:.2f} % expected",
        "",
        "probability            words  expected   right    right - expected",
    ]
    for row in found.bins:
        values = (
            f"{100 * row.mean:9.2f} {100 * row.right:7.2f} {100 * (row.right - row.mean):+z9.2f}"
        )
        lines.append(f"{row.least:.4f} to {row.most:.4f} {row.count:>9} {values}")
    auc = "-" if found.auc is None else f"{found.auc:.4f}"
    lines += [
        "",
        f"expected calibration error  {100 * found.ece:.2f} %",
        f"Brier score                 {found.brier:.4f}",
        f"log loss                    {found.log_loss:.4f}",
        f"AUC                         {auc}",
    ]
    for percent, share in found.errors_found.items():
        if share is not None:
            lines.append(
                f"least certain {percent:>2} % of words  {100 * share:.2f} % of the errors"
            )
    return lines
