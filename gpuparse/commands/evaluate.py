"""`evaluate`: score a parsed file against the gold file."""

import argparse
from collections.abc import Sequence

import numpy as np

from gpuparse.commands.console import exit_codes, print_json
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, plural
from gpuparse.evaluation.metrics import punctuation_by_category, punctuation_by_tag
from gpuparse.evaluation.reports import (
    OF_TAGS_TITLE,
    graph_scores_as_json,
    graph_scores_as_text,
    hits_as_json,
    hits_as_text,
    scores_as_json,
    scores_as_text,
)
from gpuparse.evaluation.treebanks import find_difference, score_treebank_graphs, score_treebanks
from gpuparse.evaluation.words import Hits, has_heads, has_same_tags, score_words
from gpuparse.jobs.progress import program, say

OVER_ALIGNED = "the measures are those of the CoNLL 2018 shared task, over aligned words"
_OF_TAGS = ("upos", "xpos", "ufeats", "alltags", "lemmas", "clas", "mlas", "blex")


def main(arguments: Sequence[str]) -> int:
    """Score one file against another and print the scores.

    Files of the same words get the scores of trees, and with other tags or lemmas those too. Files
    of the same text with other words or sentences, or without any heads, get the scores of the
    CoNLL 2018 shared task.

    Args:
        arguments: `GOLD SYSTEM [--graphs {deps,heads}] [--json] [--ignore-punct |
            --punct-tags TAG...]`.
    Returns: 0.
    Raises:
        ConfigError: both files are standard input, or punctuation is to be left out of the scores
            of the shared task.
        DataError: a file cannot be used, or the two differ in their text.
    """
    options = _parser().parse_args(arguments)
    check_standard_input([options.gold, options.system])
    gold, system = read_treebank(options.gold), read_treebank(options.system)
    if options.graphs:
        graphs = score_treebank_graphs(
            gold, system, options.graphs, ignored=ignored_words(gold, options)
        )
        as_json, as_text = graph_scores_as_json(graphs), graph_scores_as_text(graphs)
    elif obstacle := obstacle_to_trees([gold, system]):
        refuse_punctuation_options(options, obstacle)
        hits = score_words(gold, system)
        say(f"{obstacle}: {OVER_ALIGNED}")
        as_json, as_text = {"conll18": hits_as_json(hits)}, hits_as_text(hits)
    else:
        scores = score_treebanks(gold, system, ignored=ignored_words(gold, options))
        as_json, as_text = scores_as_json(scores), scores_as_text(scores)
        for hits in tag_hits(gold, [system]):
            as_json["conll18"] = hits_as_json(hits)
            as_text += f"\n{OF_TAGS_TITLE}\n" + hits_as_text(hits)
    for treebank in [gold] if options.graphs else [gold, system]:
        if several := count_of_several_roots(treebank):
            have = "has" if several == 1 else "have"
            of_all = f"{several:,} of {plural(len(treebank), 'sentence')}"
            say(f"{treebank.source}: {of_all} {have} several roots")
    if options.json:
        print_json(as_json)
    else:
        print(as_text, end="")
    return 0


def count_of_several_roots(treebank: Treebank) -> int:
    """The number of sentences with more than one word whose head is the root."""
    is_root = np.append(treebank.heads == 0, False)
    roots = np.add.reduceat(is_root, treebank.word_starts[:-1], dtype=np.int64)
    return int((roots[np.diff(treebank.word_starts) > 0] > 1).sum())


def obstacle_to_trees(treebanks: Sequence[Treebank]) -> str:
    """Why files are to be scored over aligned words, and not as trees of the same words.

    Returns: the first difference of words or sentences from the first file, or the first file
        without heads; "" if the trees can be scored.
    """
    gold, *systems = treebanks
    differences = (find_difference(gold, system) for system in systems)
    without = (
        f"{each.source}: no word has a HEAD"
        for each in treebanks
        if each.n_words and not has_heads(each)
    )
    return next(filter(None, differences), "") or next(without, "")


def tag_hits(gold: Treebank, systems: Sequence[Treebank]) -> list[dict[str, Hits]]:
    """The measures of tags and lemmas of files with the same words; none if these are gold."""
    if all(has_same_tags(gold, system) for system in systems):
        return []
    found = [score_words(gold, system, same_words=True) for system in systems]
    return [{name: hits[name] for name in _OF_TAGS} for hits in found]


def refuse_punctuation_options(options: argparse.Namespace, obstacle: str) -> None:
    """ConfigError if an option leaves out words of files that are scored over aligned words."""
    if options.ignore_punct or options.punct_tags:
        option = "--ignore-punct" if options.ignore_punct else "--punct-tags"
        raise ConfigError(
            f"{obstacle}: {option} needs trees over the same words and sentences; leave it out to"
            " score aligned words"
        )


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
    parser.add_argument("gold", help="CoNLL-X or CoNLL-U file with the right trees, or -")
    parser.add_argument("system", help="the same text, parsed, or -")
    parser.add_argument(
        "--graphs",
        choices=("deps", "heads"),
        help="score graphs instead of trees: precision, recall and F over the arcs of the gold"
        " file's DEPS; the system's arcs are in its DEPS (deps) or in its HEAD column (heads), for"
        " parsers of trees, whose DEPS is empty",
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


def ignored_words(gold: Treebank, options: argparse.Namespace) -> np.ndarray | None:
    """(W,) bool, the words that these options leave out; None without them."""
    if options.punct_tags:
        return punctuation_by_tag(gold, options.punct_tags)
    return punctuation_by_category(gold) if options.ignore_punct else None
