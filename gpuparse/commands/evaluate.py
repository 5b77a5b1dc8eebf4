"""`evaluate`: score a parsed file against the gold file."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuparse.commands.console import exit_codes
from gpuparse.commands.kernels import compilation_announced
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError
from gpuparse.evaluation.metrics import ArcCounts, Share, TreeScores
from gpuparse.evaluation.punctuation import punctuation_by_category, punctuation_by_tag
from gpuparse.evaluation.treebanks import score_treebanks

# What the text calls a share, its key in JSON (which is its attribute), and what it counts.
_SHARES = (
    ("UAS", "uas", "right head"),
    ("LAS", "las", "right head and relation, up to its first ':'"),
    ("LAS, whole relation", "las_full", "right head and whole relation"),
    ("label accuracy", "label_accuracy", "right relation, whatever the head"),
    ("complete", "complete", "sentences with every head right"),
    ("complete, labelled", "complete_labelled", "sentences with every head and relation right"),
)
_ARC_SETS = (("root", "root"), ("non-projective arcs", "nonprojective"))


def main(arguments: Sequence[str]) -> int:
    """Score one file against another and print the scores.

    Args:
        arguments: `GOLD SYSTEM [--json] [--ignore-punct | --punct-tags TAG...]`.
    Returns:
        0.
    Raises:
        ConfigError: both files are standard input.
        DataError: a file cannot be used, or the two differ in more than heads and relations.
    """
    options = _parser().parse_args(arguments)
    if options.gold == options.system == "-":
        raise ConfigError("standard input (-) can be read once only; name one of the files")
    with compilation_announced():
        gold, system = read_treebank(options.gold), read_treebank(options.system)
        scores = score_treebanks(gold, system, ignored=_ignored(gold, options))
    if options.json:
        json.dump(scores_as_json(scores), sys.stdout, indent=2, ensure_ascii=False)
        print()
    else:
        print(scores_as_text(scores), end="")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m gpuparse evaluate",
        description="Score a parsed file against the gold file: UAS, LAS, label accuracy, complete"
        " sentences, root, non-projective arcs, every relation. All words count, punctuation too,"
        " unless it is left out. What each measure counts: docs/conventions.md.",
        epilog=exit_codes(0, 2, 3),
    )
    parser.add_argument("gold", help="CoNLL-X or CoNLL-U file with the right trees, or -")
    parser.add_argument("system", help="the same words, parsed, or -")
    parser.add_argument("--json", action="store_true", help="write JSON instead of a table")
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
    return parser


def _ignored(gold: Treebank, options: argparse.Namespace) -> np.ndarray | None:
    if options.punct_tags:
        return punctuation_by_tag(gold, options.punct_tags)
    return punctuation_by_category(gold) if options.ignore_punct else None


def scores_as_text(scores: TreeScores, *, labelled: bool = True) -> str:
    """The scores as a table to read, in percent with two decimals.

    Args:
        scores: the scores.
        labelled: whether to show what depends on relations.
    Returns:
        Lines; "-" where there was nothing to count.
    """
    lines = [f"{scores.uas.total} words, {scores.complete.total} sentences", ""]
    for title, name, meaning in _SHARES:
        if not labelled and "relation" in meaning:
            continue
        share: Share = getattr(scores, name)
        lines.append(
            f"{title:<20} {_percent(share.percent)}  {share.correct:>8} of {share.total:<8}"
            f" {meaning}"
        )
    counts = [(title, getattr(scores, name)) for title, name in _ARC_SETS]
    relations = list(scores.relations.items()) if labelled else []
    width = max([20, *(len(title) for title, _ in counts + relations)])
    header = f"{'':<{width}} precision  recall       F      gold    system"
    lines += ["", header, *(_arc_line(title, arcs, width) for title, arcs in counts)]
    lines += ["", "relations, labelled"] if labelled else []
    lines += [_arc_line(title, arcs, width) for title, arcs in relations]
    return "\n".join(lines) + "\n"


def _arc_line(title: str, arcs: ArcCounts, width: int) -> str:
    return (
        f"{title:<{width}}    {_percent(arcs.precision)}  {_percent(arcs.recall)}"
        f"  {_percent(arcs.f)}  {arcs.gold:>8}  {arcs.system:>8}"
    )


def _percent(value: float | None) -> str:
    return f"{'-':>6}" if value is None else f"{value:6.2f}"


def scores_as_json(scores: TreeScores) -> dict[str, Any]:
    """The scores as plain data: percentages, unrounded, and the counts behind them.

    Args:
        scores: the scores.
    Returns:
        Per share `percent, correct, total`; per set of arcs `precision, recall, f, gold, system`;
        null where there was nothing to count.
    """
    result: dict[str, Any] = {}
    for _, name, _ in _SHARES:
        share: Share = getattr(scores, name)
        result[name] = {"percent": share.percent, "correct": share.correct, "total": share.total}
    for _, name in _ARC_SETS:
        result[name] = _arcs_as_json(getattr(scores, name))
    result["relations"] = {name: _arcs_as_json(arcs) for name, arcs in scores.relations.items()}
    return result


def _arcs_as_json(arcs: ArcCounts) -> dict[str, float | int | None]:
    return {
        "precision": arcs.precision,
        "recall": arcs.recall,
        "f": arcs.f,
        "gold": arcs.gold,
        "system": arcs.system,
    }
