"""`compare`: scores of several parsed files, and tests whether they differ."""

import argparse
from collections.abc import Sequence
from string import ascii_uppercase
from typing import Any

from gpuparse.commands.console import exit_codes, print_json, whole_number
from gpuparse.commands.evaluate import (
    OVER_ALIGNED,
    add_punctuation_options,
    check_standard_input,
    ignored_words,
    obstacle_to_trees,
    refuse_punctuation_options,
    tag_hits,
)
from gpuparse.data.conll import read_treebank
from gpuparse.errors import ConfigError, plural
from gpuparse.evaluation.reports import (
    OF_TAGS_TITLE,
)
from gpuparse.evaluation.treebanks import compare_treebanks, score_treebanks
from gpuparse.evaluation.words import compare_words, score_words
from gpuparse.jobs.progress import program, say
from gpuparse.lab.comparing import add_trees, add_words, letters, trees_as_text, words_as_text


def main(arguments: Sequence[str]) -> int:
    """Score files against the gold file and test each against the first.

    Args:
        arguments: `GOLD A B [C ...] [--json] [--ignore-punct | --punct-tags TAG...]
            [--resamples N] [--seed N]`.
    Returns: 0.
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
    if len(names) > len(ascii_uppercase):
        raise ConfigError(f"{len(names)} systems; at most {len(ascii_uppercase)} can be compared")
    gold, *systems = (read_treebank(file) for file in (options.gold, *names))
    resampling = {"resamples": options.resamples, "seed": options.seed}
    drawn = f"{options.resamples:,} resamples of the sentences, seed {options.seed}"
    result: dict[str, Any] = {
        **resampling,
        "systems": [{"file": name} for name in names],
        "comparisons": [{"file": name, "against": names[0]} for name in names[1:]],
    }
    lines: list[str] = []
    if obstacle := obstacle_to_trees([gold, *systems]):
        refuse_punctuation_options(options, obstacle)
        hits = [score_words(gold, system) for system in systems]
        say(f"{obstacle}: {OVER_ALIGNED}")
        lines = [
            f"{plural(gold.n_words, 'gold word')}, {plural(len(gold), 'gold sentence')}",
            *letters(names),
        ]
    else:
        ignored = ignored_words(gold, options)
        scores = [score_treebanks(gold, system, ignored=ignored) for system in systems]
        first, *rest = systems
        comparisons = [
            compare_treebanks(gold, first, system, ignored=ignored, **resampling) for system in rest
        ]
        add_trees(result, scores, comparisons)
        lines = trees_as_text(names, scores, comparisons, drawn)
        hits = tag_hits(gold, systems)
        if hits:
            lines += ["", OF_TAGS_TITLE]
    if hits:
        tests = [compare_words(gold, hits[0], other, **resampling) for other in hits[1:]]
        add_words(result, hits, tests)
        lines += ["", *words_as_text(hits, tests, drawn)]
    if options.json:
        print_json(result)
    else:
        print("\n".join(lines))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=program("compare"),
        usage=f"{program('compare')} [options] GOLD A B [C ...]",
        description="Score parsed files of the same text, and test each against the first:"
        " McNemar's test on the words that only one of the two has right, and a paired bootstrap"
        " over sentences. The measures are those of evaluate: of trees where all files have the"
        " same words, else those of the CoNLL 2018 shared task. docs/evaluating.md describes the"
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
    parser.add_argument(
        "--resamples",
        type=whole_number(1),
        default=10_000,
        metavar="N",
        help="resamples of the bootstrap (default 10000)",
    )
    parser.add_argument(
        "--seed", type=whole_number(0), default=0, metavar="N", help="seed (default 0)"
    )
    return parser
