"""Scores of parsed files against gold files, which must have the same words."""

from typing import Literal

import numpy as np

from gpuparse import native
from gpuparse.data.columns import DEPREL, FORM
from gpuparse.data.graphs import (
    Graphs,
    check_graphs,
    missing_graphs,
    read_graphs,
    tree_graphs,
    with_tree_arcs,
)
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_trees
from gpuparse.data.vocabulary import Interner
from gpuparse.errors import DataError, option, plural
from gpuparse.evaluation.graphs import GraphScores, score_graphs
from gpuparse.evaluation.metrics import TreeScores, score_trees
from gpuparse.evaluation.reliability import (
    HEAD,
    LABEL,
    Reliability,
    measure_reliability,
    misc_probabilities,
)
from gpuparse.evaluation.significance import Comparison, compare_trees

GraphColumn = Literal["deps", "heads"]


def score_treebanks(
    gold: Treebank, system: Treebank, *, ignored: np.ndarray | None = None
) -> TreeScores:
    """Score a parsed file against the gold file.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        system: the same words and sentences, parsed.
        ignored: (W) bool, words to leave out of all counts; None scores all.
    Returns: The scores; `score_trees` says what each one counts.
    Raises: DataError: the files differ in words or sentence breaks, or a sentence is no tree.
    Cost: O(bytes of both files).
    """
    check_same_words(gold, system)
    for treebank in (gold, system):
        require_none(check_trees(treebank))
    (gold_labels, system_labels), names = relation_ids(gold, system)
    return score_trees(
        gold.word_starts,
        gold.heads,
        system.heads,
        gold_labels,
        system_labels,
        names,
        None if ignored is None else ~ignored,
    )


def compare_treebanks(
    gold: Treebank,
    first: Treebank,
    second: Treebank,
    *,
    ignored: np.ndarray | None = None,
    resamples: int = 10_000,
    seed: int = 0,
) -> Comparison:
    """Test whether two parsed files differ in how well they agree with the gold file.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        first, second: the same words and sentences, parsed.
        ignored: (W) bool, words to leave out of all counts; None counts all.
        resamples, seed: of the bootstrap.
    Returns: The comparison; `compare_trees` says what it holds.
    Raises:
        DataError: the files differ in words or sentence breaks, a sentence is no tree, or no word
            is left to compare.
    Cost: O(bytes of the files) and the bootstrap, 10 ns for each sentence of each resample.
    """
    for system in (first, second):
        check_same_words(gold, system)
    for treebank in (gold, first, second):
        require_none(check_trees(treebank))
    if not gold.n_words or (ignored is not None and ignored.all()):
        raise DataError(f"{gold.source}: no word to compare the systems on; give a longer text")
    (gold_labels, *labels), names = relation_ids(gold, first, second)
    return compare_trees(
        gold.word_starts,
        gold.heads,
        (first.heads, second.heads),
        gold_labels,
        (labels[0], labels[1]),
        names,
        None if ignored is None else ~ignored,
        resamples=resamples,
        seed=seed,
    )


def measure_reliability_of_treebanks(
    gold: Treebank, system: Treebank, *, ignored: np.ndarray | None = None
) -> dict[str, Reliability]:
    """Compare the probabilities in MISC of a parsed file with the gold file.

    - `heads`: HeadProb, against the head.
    - `relations`: LabelProb, against the whole relation, over words whose head is right, because it
      is the probability of the relation given the head.
    - `both`: their product, against head and whole relation.

    Words without a probability are not counted. A measure without words is left out.

    Args:
        gold: the gold file; every word has a head and the heads of a sentence form a tree.
        system: the same words and sentences, parsed, with probabilities.
        ignored: (W) bool, words to leave out of all counts; None counts all.
    Returns: The measures by the names above.
    Raises:
        DataError: the files differ in words or sentence breaks, a sentence is no tree, a
            probability cannot be read, or no word to count has a HeadProb.
    Cost: O(bytes of both files), some microseconds per word.
    """
    check_same_words(gold, system)
    for treebank in (gold, system):
        require_none(check_trees(treebank))
    of_head, of_label = (misc_probabilities(system, key) for key in (HEAD, LABEL))
    counted = ~np.isnan(of_head) if ignored is None else ~np.isnan(of_head) & ~ignored
    if not counted.any():
        raise DataError(
            f"{system.source}: no scored word has {HEAD} in MISC (column 10); parse the file with"
            f" {option('probabilities', True)}"
        )
    (gold_labels, system_labels), _ = relation_ids(gold, system)
    head_right = gold.heads == system.heads
    label_right = gold_labels == system_labels
    with_label = counted & ~np.isnan(of_label)
    parts = {
        "heads": (counted, of_head, head_right),
        "relations": (with_label & head_right, of_label, label_right),
        "both": (with_label, of_head * of_label, head_right & label_right),
    }
    return {
        name: measure_reliability(values[words], right[words])
        for name, (words, values, right) in parts.items()
        if words.any()
    }


def score_treebank_graphs(
    gold: Treebank,
    system: Treebank,
    system_graphs: GraphColumn,
    *,
    ignored: np.ndarray | None = None,
) -> GraphScores:
    """Score the graphs of a parsed file against those in the gold file's DEPS.

    Args:
        gold: the gold file. Its HEAD column has the primary heads; words may lack one.
        system: the same words and sentences, parsed.
        system_graphs: where the system's graphs are: in "deps", or in "heads", that is in HEAD and
            DEPREL, with one arc per word; DEPS is then not read.
        ignored: (W) bool, words to leave out with all arcs into them; None scores all.
    Returns: The scores; `score_graphs` says what each one counts, `deps_graphs` what an arc is.
    Raises:
        DataError: the files differ in words or sentence breaks, a DEPS to be read cannot be, or
            has no graphs, or a HEAD column has a cycle (or, under "heads", is no tree).
    Cost: O(bytes of both files).
    """
    check_same_words(gold, system)
    graphs = deps_graphs(gold)
    if system_graphs == "deps":
        found = deps_graphs(system)
    else:
        require_none(check_trees(system))
        found = tree_graphs(system)
    scored = None if ignored is None else ~ignored
    return score_graphs(graphs, found, gold.word_starts, gold.heads, system.heads, scored)


def deps_graphs(treebank: Treebank) -> Graphs:
    """The graphs of a file's DEPS, to be scored.

    A word whose DEPS is `_` has the arc from its HEAD, if it has one; a word whose DEPS names empty
    nodes only has none.

    Raises: DataError: an item of DEPS cannot be read, every DEPS is `_`, or the heads have a cycle.
    """
    require_none(check_trees(treebank, partial=True))
    require_none(check_graphs(treebank))
    missing = missing_graphs(treebank)
    if treebank.n_words and missing.all():
        raise DataError(
            f"{treebank.source}: DEPS (column 9) is _ in every word, so there are no graphs; give a"
            " file that has them, or compare the HEAD column of a parsed file"
            f" ({option('graphs', 'heads')})"
        )
    return with_tree_arcs(read_graphs(treebank), treebank, missing)


def require_none(faults: list[DataError]) -> None:
    """DataError for the first error; there is one per sentence."""
    if faults:
        more = f" (and {plural(len(faults) - 1, 'more such sentence')})" if len(faults) > 1 else ""
        raise DataError(f"{faults[0]}{more}")


def relation_ids(*treebanks: Treebank) -> tuple[list[np.ndarray], list[str]]:
    """Of each treebank (W,) ids of its relations, the same ids for all; and the relations."""
    return column_numbers(DEPREL, *treebanks)


def column_numbers(column: int, *treebanks: Treebank) -> tuple[list[np.ndarray], list[str]]:
    """Of each treebank (W,) ids of a column's strings, the same ids for all; and the strings."""
    interner = Interner()
    ids = []
    for treebank in treebanks:
        starts, ends = treebank.columns[:, column], treebank.columns[:, column + 1] - 1
        ids.append(interner.intern(treebank.data, starts, ends))
    names = [interner.string(i).decode("utf-8", "surrogateescape") for i in range(len(interner))]
    return ids, names


def check_same_words(gold: Treebank, system: Treebank) -> None:
    """Make sure that two files have the same words in the same sentences.

    Args: gold, system: the files.
    Raises: DataError: they do not; names the first line that differs, in both files.
    Cost: O(bytes of both files) in numpy.
    """
    difference = find_difference(gold, system)
    if difference:
        raise DataError(f"{difference}; both files need the same words and sentences")


def find_difference(gold: Treebank, system: Treebank) -> str:
    """The first line, in both files, where their words or sentences differ; "" without any.

    Cost: O(bytes of both files) in numpy.
    """
    n_words = min(gold.n_words, system.n_words)
    word = native.call(
        "first_difference", gold.data, gold.columns[:n_words], system.data,
        system.columns[:n_words], FORM,
    )  # fmt: skip
    word = n_words if word < 0 else word
    begins_gold, begins_system = _begins_sentence(gold), _begins_sentence(system)
    breaks = np.flatnonzero(begins_gold[:n_words] != begins_system[:n_words])
    if len(breaks) and breaks[0] <= word:
        w = int(breaks[0])
        begins, goes_on = (gold, system) if begins_gold[w] else (system, gold)
        return (
            f"{word_place(begins, w)}a sentence begins here, but at {_line(goes_on, w)} the"
            " sentence before goes on"
        )
    if word < n_words:
        return (
            f"{word_place(system, word)}the word is {system.column(word, FORM)!r}, but at"
            f" {_line(gold, word)} it is {gold.column(word, FORM)!r}"
        )
    if gold.n_words != system.n_words:
        longer, shorter = (gold, system) if gold.n_words > system.n_words else (system, gold)
        return (
            f"{word_place(longer, n_words)}{shorter.source} ends before this word;"
            f" it has {plural(shorter.n_words, 'word')}, {longer.source} has {longer.n_words}"
        )
    return ""


def _line(treebank: Treebank, w: int) -> str:
    return f"{treebank.source}:{treebank.lines[w]}"


def _begins_sentence(treebank: Treebank) -> np.ndarray:
    begins = np.zeros(treebank.n_words + 1, bool)
    begins[treebank.word_starts] = True
    return begins[:-1]
