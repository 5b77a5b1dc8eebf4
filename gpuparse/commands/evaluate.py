"""`evaluate`: score a parsed file against the gold file."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gpuparse.commands.console import exit_codes, print_json, program, say
from gpuparse.data.conll import read_treebank
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ConfigError, plural
from gpuparse.evaluation.graphs import GraphScores
from gpuparse.evaluation.metrics import (
    ArcCounts,
    Share,
    TreeScores,
    punctuation_by_category,
    punctuation_by_tag,
)
from gpuparse.evaluation.treebanks import (
    find_difference,
    score_treebank_graphs,
    score_treebanks,
)
from gpuparse.evaluation.words import Hits, has_heads, has_same_tags, score_words

# Title of a share, its key in JSON (and attribute), and its meaning.
SHARES = (
    ("UAS", "uas", "right head"),
    ("LAS", "las", "right head and relation, up to its first ':'"),
    ("LAS, whole relation", "las_full", "right head and whole relation"),
    ("label accuracy", "label_accuracy", "right relation, whatever the head"),
    ("complete", "complete", "sentences with all heads right"),
    ("complete, labelled", "complete_labelled", "sentences with all heads and relations right"),
)
ARC_SETS = (("root", "root"), ("non-projective arcs", "nonprojective"))
PROJECTIVE_TOO = (
    "recall counts a non-projective gold arc also where no other arc of the system's tree"
    " crosses it"
)

# The same for graphs.
GRAPH_SHARES = (
    ("complete", "complete", "sentences with exactly the gold arcs"),
    ("complete, labelled", "complete_labelled", "and have the gold relations"),
)
GRAPH_ARC_SETS = (
    ("arcs", "unlabelled"),
    ("arcs, relation up to its first ':'", "labelled_universal"),
    ("arcs, whole relation", "labelled"),
    ("secondary arcs", "secondary"),
    ("secondary arcs, whole relation", "secondary_labelled"),
)

# The same for measures over aligned words.
WORD_MEASURES = (
    ("Tokens", "tokens"),
    ("Sentences", "sentences"),
    ("Words", "words"),
    ("UPOS", "upos"),
    ("XPOS", "xpos"),
    ("UFeats", "ufeats"),
    ("AllTags", "alltags"),
    ("Lemmas", "lemmas"),
    ("UAS", "uas"),
    ("LAS", "las"),
    ("CLAS", "clas"),
    ("MLAS", "mlas"),
    ("BLEX", "blex"),
)
OVER_ALIGNED = "the measures are those of the CoNLL 2018 shared task, over aligned words"
OF_TAGS_TITLE = "tags and lemmas, all words"
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


def whole_number(least: int) -> Callable[[str], int]:
    """The type of an option whose value is a whole number of at least `least`."""

    def read(text: str) -> int:
        if not text.isascii() or not text.isdigit() or int(text) < least:
            raise argparse.ArgumentTypeError(f"{text!r} is not a whole number of at least {least}")
        return int(text)

    return read


def ignored_words(gold: Treebank, options: argparse.Namespace) -> np.ndarray | None:
    """(W,) bool, the words that these options leave out; None without them."""
    if options.punct_tags:
        return punctuation_by_tag(gold, options.punct_tags)
    return punctuation_by_category(gold) if options.ignore_punct else None


def scores_as_text(scores: TreeScores, *, labelled: bool = True) -> str:
    """The scores as a table, in percent with two decimals.

    Args:
        scores: the scores.
        labelled: whether to show measures of relations.
    Returns: The table; "-" where there is nothing to count.
    """
    lines = [f"{plural(scores.uas.total, 'word')}, {plural(scores.complete.total, 'sentence')}", ""]
    for title, name, meaning in SHARES:
        if labelled or "relation" not in meaning:
            lines.append(_share_line(title, getattr(scores, name), meaning))
    counts = [(title, getattr(scores, name)) for title, name in ARC_SETS]
    crossing = scores.nonprojective
    note = PROJECTIVE_TOO if crossing.found != crossing.right else ""
    lines += _arc_table(counts, scores.relations if labelled else None, note)
    return "\n".join(lines) + "\n"


def graph_scores_as_text(scores: GraphScores, *, labelled: bool = True) -> str:
    """The scores of graphs as a table, as `scores_as_text` of trees."""
    lines = [f"{plural(scores.words, 'word')}, {plural(scores.complete.total, 'sentence')}", ""]
    for title, name, meaning in GRAPH_SHARES:
        if labelled or "relation" not in meaning:
            lines.append(_share_line(title, getattr(scores, name), meaning))
    counts = [
        (title, getattr(scores, name))
        for title, name in GRAPH_ARC_SETS
        if labelled or "relation" not in title
    ]
    lines += _arc_table(counts, scores.relations if labelled else None)
    return "\n".join(lines) + "\n"


def _share_line(title: str, share: Share, meaning: str) -> str:
    counts = f"{share.correct:>8} of {share.total:<8}"
    return f"{title:<20} {percent_text(share.percent)}  {counts} {meaning}"


def _arc_table(
    counts: list[tuple[str, ArcCounts]], relations: dict[str, ArcCounts] | None, note: str = ""
) -> list[str]:
    """Rows of the sets of arcs with a note about them, and of each relation."""
    titles = [title for title, _ in counts] + list(relations or ())
    width = max([20, *map(len, titles)])
    lines = ["", f"{'':<{width}} precision  recall       F      gold    system"]
    lines += [_arc_line(title, arcs, width) for title, arcs in counts]
    if note:
        lines.append(note)
    if relations is not None:
        lines += ["", "relations, labelled"]
        lines += [_arc_line(title, arcs, width) for title, arcs in relations.items()]
    return lines


def _arc_line(title: str, arcs: ArcCounts, width: int) -> str:
    return (
        f"{title:<{width}}    {percent_text(arcs.precision)}  {percent_text(arcs.recall)}"
        f"  {percent_text(arcs.f)}  {arcs.gold:>8}  {arcs.system:>8}"
    )


def percent_text(value: float | None) -> str:
    """Six characters, two decimals; "-" without a value."""
    return f"{'-':>6}" if value is None else f"{value:6.2f}"


def scores_as_json(scores: TreeScores) -> dict[str, Any]:
    """The scores as plain data: unrounded percentages and their counts.

    Args: scores: the scores.
    Returns: For each share `percent, correct, total`; for each set of arcs `precision, recall, f,
        gold, system`; null where there is nothing to count.
    """
    result: dict[str, Any] = {}
    for _, name, _ in SHARES:
        result[name] = _share_as_json(getattr(scores, name))
    for _, name in ARC_SETS:
        result[name] = _arcs_as_json(getattr(scores, name))
    result["relations"] = {name: _arcs_as_json(arcs) for name, arcs in scores.relations.items()}
    return result


def graph_scores_as_json(scores: GraphScores) -> dict[str, Any]:
    """The scores of graphs, as `scores_as_json` of trees, and the number of scored words."""
    result: dict[str, Any] = {"words": scores.words}
    for _, name, _ in GRAPH_SHARES:
        result[name] = _share_as_json(getattr(scores, name))
    for _, name in GRAPH_ARC_SETS:
        result[name] = _arcs_as_json(getattr(scores, name))
    result["relations"] = {name: _arcs_as_json(arcs) for name, arcs in scores.relations.items()}
    return result


def hits_as_text(hits: dict[str, Hits]) -> str:
    """Measures over aligned words as a table, in percent with two decimals."""
    lines = [f"{'':<20} precision  recall       F   aligned      gold    system"]
    for title, name in WORD_MEASURES:
        if name in hits:
            of = hits[name]
            counts = of.counts
            lines.append(
                f"{title:<20}    {percent_text(counts.precision)}  {percent_text(counts.recall)}"
                f"  {percent_text(counts.f)}    {percent_text(of.aligned_accuracy)}"
                f"  {counts.gold:>8}  {counts.system:>8}"
            )
    if {"words", "upos"} <= hits.keys():
        lines.append("aligned: accuracy over the aligned words")
    return "\n".join(lines) + "\n"


def hits_as_json(hits: dict[str, Hits]) -> dict[str, Any]:
    """Measures over aligned words as plain data.

    Returns: For each measure `precision, recall, f, gold, system` as for sets of arcs; `correct`;
        `aligned_accuracy` and `aligned`, null where nothing is aligned.
    """
    return {
        name: {
            **_arcs_as_json(of.counts),
            "correct": of.counts.right,
            "aligned_accuracy": of.aligned_accuracy,
            "aligned": of.aligned,
        }
        for name, of in hits.items()
    }


@dataclass(frozen=True)
class Measures:
    """What a parser is scored on: relations, and graphs in DEPS, or not."""

    labelled: bool
    graphs: bool


def treebank_scores(gold: Treebank, system: Treebank, measures: Measures) -> dict[str, Any]:
    """The scores of a parsed treebank as plain data, as `evaluate --json` writes them.

    A parser of heads leaves DEPREL unchanged, so that scores of relations would be misleading.
    """
    scores = scores_as_json(score_treebanks(gold, system))
    if not measures.labelled:
        for name in ["relations", *(n for _, n, meaning in SHARES if "relation" in meaning)]:
            del scores[name]
    if measures.graphs:
        scores["graphs"] = graph_scores_as_json(score_treebank_graphs(gold, system, "deps"))
    return {"sentences": len(gold), "words": gold.n_words} | scores


def _share_as_json(share: Share) -> dict[str, float | int | None]:
    return {"percent": share.percent, "correct": share.correct, "total": share.total}


def _arcs_as_json(arcs: ArcCounts) -> dict[str, float | int | None]:
    return {
        "precision": arcs.precision,
        "recall": arcs.recall,
        "f": arcs.f,
        "gold": arcs.gold,
        "system": arcs.system,
    }
