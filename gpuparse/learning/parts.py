"""The parts in which gold structures and those found differ, listed for one sentence at a time.

A part is a kind with its words: an arc, an arc with its label, two siblings of one head, the end of
a head's modifiers on a side, a part of three or four words. Several found trees share most of their
parts: each part stands in the list once, with a sign for each found structure, +1 if only gold has
it and -1 if gold lacks it.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.eisner_sibling import inner_sibling
from gpuparse.inference.kernels.cpu.larger_parts import (
    GRAND_SIBLING,
    GRANDPARENT,
    HEAD_CHILD,
    INNER_GRANDCHILD,
    NOBODY,
    OUTER_GRANDCHILD,
    TRI_SIBLING,
)

ARC, LABEL, SIBLINGS, RIGHT_END, LEFT_END = range(5)  # of ends, m is h for no modifier
LARGER = 5  # and beyond: the kinds of larger parts, of which THIRD holds all words but h and m
LABELLED = LARGER + 6  # and beyond: the same with a label, so many times OTHER_WORD
OTHER_WORD = 1 << 20  # THIRD is a word, plus so many times another
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
    around: np.ndarray  # (2, 6, N) int64: what stands around each word of gold and found trees


def make_part_list(
    n: int, k: int, *, graphs: bool, siblings: bool, larger: bool = False
) -> PartList:
    """Working memory for sentences of up to n words, each with one head or, in graphs, with any."""
    arcs = n * (n + 1) // 2 if graphs else n
    nodes = n + 1
    # Arcs, labels and siblings of gold and found, two ends where a head lost or got its last, and
    # six kinds of larger parts, or three with labels besides.
    most = (28 if larger else 10) * arcs * k
    return PartList(
        np.empty((most, 5), np.int64),
        np.empty((most, k), np.int64),
        np.full((nodes, nodes), -1, np.int64),
        np.empty((2, nodes, nodes) if siblings else (2, 0, 0), np.int32),
        np.empty(k),
        np.zeros((2, 6, nodes) if larger else (2, 6, 0), np.int64),
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


SIBLING, BEFORE, ABOVE, INNER, OUTER, IS_LAST = range(6)  # what stands around a word


@compiled
def _look_around(n, heads, around):
    """For each word of a tree: its inner sibling, the one inside that, the head of its head, its
    furthest modifiers between it and its head and beyond it, 0 for nobody; whether it is the
    outermost modifier of its head on its side."""
    around[:, : n + 1] = NOBODY
    around[IS_LAST, 1 : n + 1] = 1
    for m in range(1, n + 1):
        h = heads[m]
        if h > 0:
            around[ABOVE, m] = heads[h]
            is_between = m > h if heads[h] > h else m < h
            if is_between:
                # The first modifier met from the left is the furthest on the left side.
                if m > h or around[INNER, h] == NOBODY:
                    around[INNER, h] = m
            elif m > h or around[OUTER, h] == NOBODY:
                around[OUTER, h] = m
        s = inner_sibling(heads, m)
        if s != h:
            around[SIBLING, m] = s
            around[IS_LAST, s] = 0
    for m in range(1, n + 1):
        if around[SIBLING, m] != NOBODY:
            around[BEFORE, m] = around[SIBLING, around[SIBLING, m]]


@compiled
def _larger_part(kind, m, around):
    """What THIRD holds of the part of this kind at the word m."""
    if kind == TRI_SIBLING:
        return around[SIBLING, m] * OTHER_WORD + around[BEFORE, m]
    if kind == HEAD_CHILD:
        return around[SIBLING, m]
    if kind == INNER_GRANDCHILD:
        return around[INNER, m]
    if kind == OUTER_GRANDCHILD:
        return around[OUTER, m]
    if kind == GRANDPARENT:
        return around[ABOVE, m]
    return around[SIBLING, m] * OTHER_WORD + around[ABOVE, m]


@compiled
def _larger_parts_that_differ(
    n, gold, found, kinds, only_last, around, j, parts, signs, first, count
):
    """List the larger parts that only one of two trees has.

    only_last: whether those with the head of the head are of outermost modifiers alone.
    """
    _look_around(n, gold, around[0])
    _look_around(n, found, around[1])
    for kind in range(len(kinds) - 1):
        if kinds[kind] == kinds[kind + 1]:
            continue
        last = only_last and kind <= GRAND_SIBLING
        for m in range(1, n + 1):
            has, had = not last or around[0, IS_LAST, m], not last or around[1, IS_LAST, m]
            of_gold, of_found = _larger_part(kind, m, around[0]), _larger_part(kind, m, around[1])
            if has == had and gold[m] == found[m] and of_gold == of_found:
                continue
            if has:
                count = _add_part(
                    parts, signs, first, count, j, 1, LARGER + kind, gold[m], m, of_gold
                )
            if had:
                count = _add_part(
                    parts, signs, first, count, j, -1, LARGER + kind, found[m], m, of_found
                )
    return count


@compiled
def _labelled_children_that_differ(
    n, gold, found, right, guess, kinds, around, j, parts, signs, first, count
):
    """List the parts of children with labels that only one of two trees has.

    around: of both trees, filled already.
    """
    for kind in range(HEAD_CHILD, len(kinds) - 1):
        if kinds[kind] == kinds[kind + 1]:
            continue
        for m in range(1, n + 1):
            of_gold, of_found = _larger_part(kind, m, around[0]), _larger_part(kind, m, around[1])
            if gold[m] == found[m] and right[m] == guess[m] and of_gold == of_found:
                continue
            of_gold += right[m] * OTHER_WORD
            of_found += guess[m] * OTHER_WORD
            count = _add_part(
                parts, signs, first, count, j, 1, LABELLED + kind, gold[m], m, of_gold
            )
            count = _add_part(
                parts, signs, first, count, j, -1, LABELLED + kind, found[m], m, of_found
            )
    return count


def _list_children(structures, children, start, n, j, listed, count):
    raise TypeError("only compiled code can call this")


@overload(_list_children)
def _choose_list_children(structures, children, start, n, j, listed, count):
    if isinstance(children, types.NoneType):
        return lambda structures, children, start, n, j, listed, count: count
    return lambda structures, children, start, n, j, listed, count: _labelled_children_that_differ(
        n, structures.target[start:], structures.found[j, start:],
        structures.target_labels[start:], structures.found_labels[j, start:],
        children.family_start, listed.around, j, listed.parts, listed.signs, listed.first, count,
    )  # fmt: skip


def _list_larger(structures, larger, start, n, j, listed, count):
    raise TypeError("only compiled code can call this")


@overload(_list_larger)
def _choose_list_larger(structures, larger, start, n, j, listed, count):
    if isinstance(larger, types.NoneType):
        return lambda structures, larger, start, n, j, listed, count: count
    return lambda structures, larger, start, n, j, listed, count: _larger_parts_that_differ(
        n, structures.target[start:], structures.found[j, start:], larger.family_start,
        larger.only_last, listed.around, j, listed.parts, listed.signs, listed.first, count,
    )  # fmt: skip


def list_parts(structures, siblings, larger, children, start, n, listed):
    """Fill the list and its costs; returns how many parts there are.

    siblings, larger, children: the plans of these templates, the last with labels, or None, when no
    such parts are listed.
    """
    raise TypeError("only compiled code can call this")


@overload(list_parts)
def _choose_list_parts(structures, siblings, larger, children, start, n, listed):
    def of_arcs(structures, siblings, larger, children, start, n, listed):
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
                count = _list_larger(structures, larger, start, n, j, listed, count)
                count = _list_children(structures, children, start, n, j, listed, count)
        return count

    def of_trees(structures, siblings, larger, children, start, n, listed):
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
                count = _list_larger(structures, larger, start, n, j, listed, count)
                count = _list_children(structures, children, start, n, j, listed, count)
        return count

    def of_graphs(structures, siblings, larger, children, start, n, listed):
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
