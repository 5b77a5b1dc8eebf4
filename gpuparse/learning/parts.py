"""The parts in which gold structures and those found differ, listed for one sentence at a time.

A part is a kind with its words: an arc, an arc with its label, two siblings of one head, the end of
a head's modifiers on a side. Several found trees share most of their parts: each part stands in the
list once, with a sign for each found structure, +1 if only gold has it and -1 if gold lacks it.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined

ARC, LABEL, SIBLINGS, RIGHT_END, LEFT_END = range(5)  # of ends, m is h for no modifier
KIND, HEAD_WORD, MODIFIER_WORD, THIRD, NEXT = range(5)  # columns of the list
NO_ARC = -1


class Trees(NamedTuple):
    """Gold trees and those found, by place; -1 for what is no word.

    Where gold says nothing of a word's head or label, -1, what is learned towards is what the
    weights of the moment find best together with all that gold does say.
    """

    gold: np.ndarray  # (T,) int64 heads
    found: np.ndarray  # (K, T) int64: the best K trees; -1 where there are fewer
    gold_labels: np.ndarray | None  # (T,) int64, if labels are found with the trees
    found_labels: np.ndarray | None  # (K, T) int64
    target: np.ndarray  # (T,) int64: gold, completed; gold itself where nothing is missing
    target_labels: np.ndarray | None
    completed: bool | None  # None: nothing is missing anywhere


class GraphCells(NamedTuple):
    """Gold graphs and those found: the arc h -> m of a sentence at its first + h * (n + 1) + m."""

    gold: np.ndarray  # (cells,) bool
    found: np.ndarray  # (cells,) bool
    firsts: np.ndarray  # (T,) int64 the first cell of each sentence, at the place of its root
    heads: np.ndarray  # (T,) int64 scratch


class PartList(NamedTuple):
    """Parts of one sentence, for sentences of at most N - 1 words and K found structures."""

    parts: np.ndarray  # (most, 5) int64: kind, h, m, third word or label, next with these h and m
    signs: np.ndarray  # (most, K) int64
    first: np.ndarray  # (N, N) int64: of the parts with these h and m, -1 between two sentences
    inner: np.ndarray  # (2, N, N) int32: inner siblings of gold and found arcs, NO_ARC if no arc
    costs: np.ndarray  # (K,) float64: what the mistakes of each found structure cost


def make_part_list(n: int, k: int, *, graphs: bool, siblings: bool) -> PartList:
    """Working memory for sentences of up to n words, each with one head or, in graphs, with any."""
    arcs = n * (n + 1) // 2 if graphs else n
    nodes = n + 1
    # Arcs, labels and siblings of gold and found, and two ends where a head lost or got its last.
    most = 10 * arcs * k
    return PartList(
        np.empty((most, 5), np.int64),
        np.empty((most, k), np.int64),
        np.full((nodes, nodes), -1, np.int64),
        np.empty((2, nodes, nodes) if siblings else (2, 0, 0), np.int32),
        np.empty(k),
    )


@compiled
def _add_part(parts, signs, first, count, j, sign, kind, h, m, third):
    """Put a part of found structure j into the list, unless it is there; returns its new length."""
    p = first[h, m]
    while p >= 0 and (parts[p, KIND] != kind or parts[p, THIRD] != third):
        p = parts[p, NEXT]
    if p < 0:
        p = count
        count += 1
        parts[p, KIND], parts[p, HEAD_WORD], parts[p, MODIFIER_WORD] = kind, h, m
        parts[p, THIRD], parts[p, NEXT] = third, first[h, m]
        first[h, m] = p
        signs[p] = 0
    signs[p, j] += sign
    return count


@compiled
def forget_parts(listed, count):
    """Empty the list for the next sentence."""
    parts, first = listed.parts, listed.first
    for p in range(count):
        first[parts[p, HEAD_WORD], parts[p, MODIFIER_WORD]] = -1


@compiled
def _arcs_that_differ(n, gold, found, j, parts, signs, first, count):
    """List the arcs in which two trees differ: heads at 1..n."""
    for m in range(1, n + 1):
        if gold[m] != found[m]:
            count = _add_part(parts, signs, first, count, j, 1, ARC, gold[m], m, 0)
            count = _add_part(parts, signs, first, count, j, -1, ARC, found[m], m, 0)
    return count


@compiled
def _labels_that_differ(n, gold, found, right, guess, j, parts, signs, first, count):
    """List the arcs that differ in head or label, with their labels."""
    for m in range(1, n + 1):
        if gold[m] != found[m] or right[m] != guess[m]:
            count = _add_part(parts, signs, first, count, j, 1, LABEL, gold[m], m, right[m])
            count = _add_part(parts, signs, first, count, j, -1, LABEL, found[m], m, guess[m])
    return count


@compiled
def _siblings_of_tree(n, heads, inner):
    """inner[h, m] = the inner sibling of each arc, h for none."""
    inner[: n + 1, : n + 1] = NO_ARC
    for m in range(1, n + 1):
        inner[heads[m], m] = heads[m]
    _siblings_of_arcs(n, inner)


@compiled
def _siblings_of_graph(n, arcs, inner):
    for h in range(n + 1):
        for m in range(n + 1):
            inner[h, m] = h if arcs[h * (n + 1) + m] else NO_ARC
    _siblings_of_arcs(n, inner)


@inlined
def _siblings_of_arcs(n, inner):
    """Replace h in inner[h, m], which stands for an arc, by the arc's inner sibling."""
    for h in range(n + 1):
        s = h
        for m in range(h + 1, n + 1):
            if inner[h, m] != NO_ARC:
                inner[h, m] = s
                s = m
        s = h
        for m in range(h - 1, 0, -1):
            if inner[h, m] != NO_ARC:
                inner[h, m] = s
                s = m


@compiled
def _parts_that_differ(n, inner, j, parts, signs, first, count):
    """List the arcs, sibling parts and ends that only one of two graphs has."""
    gold, found = inner[0], inner[1]
    for h in range(n + 1):
        for m in range(1, n + 1):
            of_gold, of_found = gold[h, m], found[h, m]
            if of_gold == of_found:
                continue
            if of_gold == NO_ARC:
                count = _add_part(parts, signs, first, count, j, -1, ARC, h, m, 0)
            if of_found == NO_ARC:
                count = _add_part(parts, signs, first, count, j, 1, ARC, h, m, 0)
            if of_gold != NO_ARC:
                count = _add_part(parts, signs, first, count, j, 1, SIBLINGS, h, m, of_gold)
            if of_found != NO_ARC:
                count = _add_part(parts, signs, first, count, j, -1, SIBLINGS, h, m, of_found)
    for h in range(n + 1):
        right, left = _end(gold, h, n), _end(gold, h, 1)
        found_right, found_left = _end(found, h, n), _end(found, h, 1)
        if right != found_right:
            count = _add_part(parts, signs, first, count, j, 1, RIGHT_END, h, right, 0)
            count = _add_part(parts, signs, first, count, j, -1, RIGHT_END, h, found_right, 0)
        if h > 0 and left != found_left:
            count = _add_part(parts, signs, first, count, j, 1, LEFT_END, h, left, 0)
            count = _add_part(parts, signs, first, count, j, -1, LEFT_END, h, found_left, 0)
    return count


@inlined
def _end(inner, h, outermost):
    """The outermost modifier of h on the side of the word `outermost`, h for none."""
    step = 1 if outermost < h else -1
    m = outermost
    while m != h and inner[h, m] == NO_ARC:
        m += step
    return m


@inlined
def _cost_of_tree(n, gold, found):
    wrong = 0
    for m in range(1, n + 1):
        wrong += gold[m] >= 0 and gold[m] != found[m]
    return wrong


@inlined
def _cost_of_labelled_tree(n, gold, found, right, guess):
    wrong = 0
    for m in range(1, n + 1):
        if gold[m] >= 0:
            wrong += gold[m] != found[m] or (right[m] >= 0 and right[m] != guess[m])
    return wrong


def _tree_cost(structures, start, n, j):
    raise TypeError("only compiled code can call this")


@overload(_tree_cost)
def _choose_tree_cost(structures, start, n, j):
    if isinstance(structures.types[structures.fields.index("found_labels")], types.NoneType):
        return lambda structures, start, n, j: _cost_of_tree(
            n, structures.gold[start:], structures.found[j, start:]
        )
    return lambda structures, start, n, j: _cost_of_labelled_tree(
        n, structures.gold[start:], structures.found[j, start:],
        structures.gold_labels[start:], structures.found_labels[j, start:],
    )  # fmt: skip


def _list_labels(structures, start, n, j, listed, count):
    raise TypeError("only compiled code can call this")


@overload(_list_labels)
def _choose_list_labels(structures, start, n, j, listed, count):
    if isinstance(structures.types[structures.fields.index("found_labels")], types.NoneType):
        return lambda structures, start, n, j, listed, count: count
    return lambda structures, start, n, j, listed, count: _labels_that_differ(
        n, structures.target[start:], structures.found[j, start:],
        structures.target_labels[start:], structures.found_labels[j, start:],
        j, listed.parts, listed.signs, listed.first, count,
    )  # fmt: skip


def list_parts(structures, siblings, start, n, listed):
    """Fill the list and its costs; returns how many parts there are.

    siblings: the plan of sibling templates, or None, when only arcs and labels are listed.
    """
    raise TypeError("only compiled code can call this")


@overload(list_parts)
def _choose_list_parts(structures, siblings, start, n, listed):
    def of_arcs(structures, siblings, start, n, listed):
        count = 0
        target, costs = structures.target[start:], listed.costs
        for j in range(len(costs)):
            costs[j] = 0.0
            if structures.found[j, start + 1] >= 0:
                costs[j] = _tree_cost(structures, start, n, j)
            if costs[j] > 0.0:
                found = structures.found[j, start:]
                count = _arcs_that_differ(
                    n, target, found, j, listed.parts, listed.signs, listed.first, count
                )
                count = _list_labels(structures, start, n, j, listed, count)
        return count

    def of_trees(structures, siblings, start, n, listed):
        count, costs = 0, listed.costs
        for j in range(len(costs)):
            costs[j] = 0.0
            if structures.found[j, start + 1] >= 0:
                costs[j] = _tree_cost(structures, start, n, j)
            if costs[j] > 0.0:
                _siblings_of_tree(n, structures.target[start:], listed.inner[0])
                _siblings_of_tree(n, structures.found[j, start:], listed.inner[1])
                count = _parts_that_differ(
                    n, listed.inner, j, listed.parts, listed.signs, listed.first, count
                )
                count = _list_labels(structures, start, n, j, listed, count)
        return count

    def of_graphs(structures, siblings, start, n, listed):
        first, wrong = structures.firsts[start], 0
        gold, found = structures.gold[first:], structures.found[first:]
        for cell in range((n + 1) * (n + 1)):
            wrong += gold[cell] != found[cell]
        listed.costs[0] = wrong
        if wrong == 0:
            return 0
        _siblings_of_graph(n, gold, listed.inner[0])
        _siblings_of_graph(n, found, listed.inner[1])
        return _parts_that_differ(n, listed.inner, 0, listed.parts, listed.signs, listed.first, 0)

    if structures.instance_class is GraphCells:
        return of_graphs
    return of_arcs if isinstance(siblings, types.NoneType) else of_trees
