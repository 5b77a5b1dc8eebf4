"""Parsed files beside gold files: checks that they have the same words, and shared numbers."""

import numpy as np

from gpuparse import native
from gpuparse.data.columns import DEPREL, FORM
from gpuparse.data.treebank import Treebank, word_place
from gpuparse.data.trees import check_trees
from gpuparse.data.vocabulary import Interner, column_ids
from gpuparse.errors import DataError, plural


def require_none(faults: list[DataError]) -> None:
    """DataError for the first error; there is one per sentence."""
    if faults:
        more = f" (and {plural(len(faults) - 1, 'more such sentence')})" if len(faults) > 1 else ""
        raise DataError(f"{faults[0]}{more}")


def check_parsed(gold: Treebank, *systems: Treebank) -> None:
    """DataError unless the files have the same words and sentences, which are all trees."""
    for system in systems:
        check_same_words(gold, system)
    for treebank in (gold, *systems):
        require_none(check_trees(treebank))


def has_relations(treebank: Treebank) -> bool:
    """False if every word has `_` in DEPREL."""
    return column_ids(treebank, DEPREL)[1] != ["_"]


def can_score_relations(gold: Treebank, system: Treebank) -> bool:
    """False if the system has no relation, as a parser of heads, where the gold file has some."""
    return has_relations(system) or not has_relations(gold)


def column_numbers(column: int, *treebanks: Treebank) -> tuple[list[np.ndarray], list[str]]:
    """The ids (W,) of a column's strings in each treebank, shared by all; the strings."""
    interner = Interner()
    ids = []
    for treebank in treebanks:
        starts, ends = treebank.columns[:, column], treebank.columns[:, column + 1] - 1
        ids.append(interner.intern(treebank.data, starts, ends))
    return ids, interner.strings()


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
