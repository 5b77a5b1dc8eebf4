"""Checks of gold trees before training and evaluation."""

import numpy as np

from gpuparse.data import plain
from gpuparse.data.fault_codes import TreeFault
from gpuparse.data.scanner import NO_HEAD
from gpuparse.data.treebank import Treebank, place
from gpuparse.errors import DataError

SHOWN = 12  # most words that a message lists


def check_sentences(
    heads: np.ndarray, word_starts: np.ndarray, single_root: bool, partial: bool
) -> tuple[np.ndarray, np.ndarray]:
    """The first fault of every sentence, (S,) int32, and its word, (S,) int32, from 1.

    Args:
        heads: int32 (W,). word_starts: int64 (S + 1,).
        single_root, partial: as in `check_trees`.
    """
    n_sentences = len(word_starts) - 1
    faults, words = np.empty(n_sentences, np.int32), np.empty(n_sentences, np.int32)
    plain.call("check_sentences", heads, word_starts, single_root, partial, faults, words)
    return faults, words


def check_trees(
    treebank: Treebank, *, single_root: bool = False, partial: bool = False
) -> list[DataError]:
    """Finds the sentences whose HEAD column is not a tree.

    Args:
        single_root: exactly one word may be attached to the root.
        partial: words without a head (`_`) are allowed; heads must not form a cycle.
    Returns: one error for each such sentence, in order, for its first fault: a missing head, a
        head that is no number or not in the sentence, a word that is its own head, a cycle,
        several roots. Every tree without cycles has a root.
    Cost: linear in the words, about 2 ns each.
    """
    faults, words = check_sentences(treebank.heads, treebank.word_starts, single_root, partial)
    return [
        _tree_error(treebank, int(s), int(faults[s]), int(words[s]))
        for s in np.flatnonzero(faults != TreeFault.WELL_FORMED)
    ]


def _tree_error(treebank: Treebank, s: int, fault: int, m: int) -> DataError:
    """The error for one sentence; m is the word that check_heads named."""
    sentence = treebank[s]
    forms, heads = sentence.forms, sentence.heads
    n = len(heads)
    listed = [m]
    if fault == TreeFault.MISSING_HEAD:
        listed = [v for v in range(1, n + 1) if heads[v - 1] == NO_HEAD]
        what = f"no HEAD for {_words(listed, forms)}; annotate the sentence, or leave it out"
    elif fault == TreeFault.NO_NUMBER:
        head = treebank.column(int(treebank.word_starts[s]) + m - 1, 6)
        what = f"HEAD of {_words(listed, forms)} is {head!r}; write a number from 0 to {n}"
    elif fault == TreeFault.OUT_OF_RANGE:
        what = f"HEAD of {_words(listed, forms)} is {heads[m - 1]}; the sentence has {n} words"
    elif fault == TreeFault.SELF_HEAD:
        what = f"{_words(listed, forms)} is its own head; give it another"
    elif fault == TreeFault.CYCLE:
        listed = _cycle(heads, m)
        what = f"{_words(listed, forms)} form a cycle; attach one of them elsewhere"
    else:
        listed = [v for v in range(1, n + 1) if heads[v - 1] == 0]
        what = f"{len(listed)} roots: {_words(listed, forms)}; keep one, or allow several roots"
    line = int(treebank.lines[treebank.word_starts[s] + listed[0] - 1])
    return DataError(place(treebank.source, line, sentence.sent_id) + what)


def _cycle(heads: list[int], m: int) -> list[int]:
    """The words of the cycle through m, each followed by its head."""
    words = [m]
    while heads[words[-1] - 1] != m:
        words.append(heads[words[-1] - 1])
    return words


def _words(words: list[int], forms: list[str]) -> str:
    """ "words 2 (saw), 5 (the) and 7 (dog)"; long lists are cut."""
    named = [f"{word} ({forms[word - 1]})" for word in words[:SHOWN]]
    if len(words) > SHOWN:
        named.append(f"{len(words) - SHOWN} more")
    if len(named) == 1:
        return f"word {named[0]}"
    return f"words {', '.join(named[:-1])} and {named[-1]}"
