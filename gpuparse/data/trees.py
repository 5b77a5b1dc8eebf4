"""Trees given by their heads: their properties, and checks of gold trees.

heads[i] is the head of word i + 1: 0 for the artificial root, 1..n for a word."""

from collections.abc import Sequence

import numpy as np

from gpuparse import native
from gpuparse.data.columns import HEAD
from gpuparse.data.faults import TreeFault
from gpuparse.data.scanner import NO_HEAD
from gpuparse.data.treebank import Sentence, Treebank, word_place
from gpuparse.errors import DataError, plural

SHOWN = 12  # most words that a message lists


def is_projective(heads: Sequence[int] | np.ndarray) -> bool:
    """True if the tree has no non-projective arc; see nonprojective_arcs."""
    return not nonprojective_arcs(heads).any()


def nonprojective_arcs(
    heads: Sequence[int] | np.ndarray, word_starts: np.ndarray | None = None
) -> np.ndarray:
    """The words with a non-projective arc from their head.

    An arc from h to m is non-projective if some word between them is not below h. Arcs from 0 never
    are.

    Args:
        heads: (n,); negative for a word without a head.
        word_starts: (S + 1,) if heads has several sentences one after the other, as in Treebank.
    Returns: bool (n,).
    Raises: ValueError where the heads of a sentence are not a tree.
    Cost: the sum of the lengths of the arcs, at most.
    """
    trees = _as_heads(heads)
    starts = np.array([0, len(trees)]) if word_starts is None else word_starts
    marks = np.zeros(len(trees), np.bool_)
    wrong = native.call("mark_nonprojective", trees, np.ascontiguousarray(starts, np.int64), marks)
    if wrong >= 0:
        raise ValueError(f"the heads of sentence {wrong} are not a tree")
    return marks


def n_roots(heads: Sequence[int] | np.ndarray) -> int:
    """Number of words attached to the root."""
    return int(np.count_nonzero(_as_heads(heads) == 0))


def _as_heads(heads: Sequence[int] | np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(heads, np.int32)


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
    native.call("check_sentences", heads, word_starts, single_root, partial, faults, words)
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


def tree_faults(heads: list[int], *, partial: bool) -> list[tuple[TreeFault, int]]:
    """All faults of the heads of a sentence, each with its first word, from 1.

    Missing heads are one fault, and several roots are none.

    Args: partial: words may lack a head.
    Cost: linear.
    """
    n = len(heads)
    found: list[tuple[TreeFault, int]] = []
    sound = [0] * n  # heads that are in the sentence; 0 for all others
    for m, h in enumerate(heads, 1):
        if h == NO_HEAD:
            if not partial and TreeFault.MISSING_HEAD not in (fault for fault, _ in found):
                found.append((TreeFault.MISSING_HEAD, m))
        elif h < 0:
            found.append((TreeFault.NO_HEAD_NUMBER, m))
        elif h > n:
            found.append((TreeFault.HEAD_OUT_OF_RANGE, m))
        elif h == m:
            found.append((TreeFault.SELF_HEAD, m))
        else:
            sound[m - 1] = h
    seen = [0] * (n + 1)  # the word whose climb to the root passed first
    seen[0] = -1
    for m in range(1, n + 1):
        v = m
        while not seen[v]:
            seen[v] = m
            v = sound[v - 1]
        if v and seen[v] == m and heads[v - 1] == sound[v - 1] != 0:
            found.append((TreeFault.CYCLE, v))
    return found


def tree_fault_text(sentence: Sentence, fault: TreeFault, m: int) -> tuple[int, str]:
    """The first word that a fault is about, from 1, and what is wrong and what to do."""
    forms, heads = sentence.forms, sentence.heads
    n = len(heads)
    listed = [m]
    if fault == TreeFault.MISSING_HEAD:
        listed = [v for v in range(1, n + 1) if heads[v - 1] == NO_HEAD]
        what = f"no HEAD for {_words(listed, forms)}; annotate the sentence, or leave it out"
    elif fault == TreeFault.NO_HEAD_NUMBER:
        bank = sentence.treebank
        head = bank.column(int(bank.word_starts[sentence.index]) + m - 1, HEAD)
        what = f"HEAD of {_words(listed, forms)} is {head!r}; write a number from 0 to {n}"
    elif fault == TreeFault.HEAD_OUT_OF_RANGE:
        what = (
            f"HEAD of {_words(listed, forms)} is {heads[m - 1]}; the sentence has"
            f" {plural(n, 'word')}"
        )
    elif fault == TreeFault.SELF_HEAD:
        what = f"{_words(listed, forms)} is its own head; give it another"
    elif fault == TreeFault.CYCLE:
        listed = _cycle(heads, m)
        what = f"{_words(listed, forms)} form a cycle; attach one of them elsewhere"
    else:
        listed = [v for v in range(1, n + 1) if heads[v - 1] == 0]
        roots = f"{plural(len(listed), 'root')}: {_words(listed, forms)}"
        what = f"{roots}; keep one, or train a model that allows several (data.single_root=false)"
    return listed[0], what


def _tree_error(treebank: Treebank, s: int, fault: int, m: int) -> DataError:
    """The error for one sentence; m is the word that check_heads named."""
    sentence = treebank[s]
    word, what = tree_fault_text(sentence, TreeFault(fault), m)
    return DataError(word_place(treebank, int(treebank.word_starts[s]) + word - 1) + what)


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
