"""How sure of a tree, compiled: probabilities of its arcs and labels, and the k best trees.

Scores are whole numbers; `unit` says how many nats one point is worth. A tree weighs
exp(unit * score), an arc counting with its best label where labels are found with the trees: so the
trees have the order that they have when one is searched for. The labels of an arc have a unit of
their own, for the two were not learned to be equally sure of themselves.
"""

from collections.abc import Callable
from math import exp, log
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.eisner_sibling_sums import (
    eisner_sibling_marginals_sentence,
    make_sibling_sums_scratch,
)
from gpuparse.inference.kernels.cpu.eisner_sums import (
    eisner_marginals_sentence,
    make_eisner_sums_scratch,
)
from gpuparse.inference.kernels.cpu.matrix_tree import (
    MatrixTreeScratch,
    make_matrix_tree_scratch,
    matrix_tree_marginals_sentence,
)
from gpuparse.inference.kernels.cpu.search import SearchScratch, make_search_scratch, search
from gpuparse.inference.kernels.cpu.search_k_best import search_k_best
from gpuparse.inference.kernels.cpu.siblings import Siblings
from gpuparse.scoring.cpu_joint import sum_labels
from gpuparse.scoring.cpu_labels import fill_lines, fill_positions, sum_lines
from gpuparse.scoring.cpu_parse import fill_labels, forbid_others, score_parts

NEGLIGIBLE = -40.0  # exp of less is lost among the rounding errors of a sum of at least 1


class SumScratch(NamedTuple):
    """Working memory of one thread; of the first three, one is there: it tells the sums."""

    eisner: np.ndarray | None
    eisner_sibling: np.ndarray | None
    matrix_tree: MatrixTreeScratch | None
    marginals: np.ndarray  # (N, N) float64, [h, m]
    least_risk: SearchScratch  # of the search for the tree with the most marginals


class Sums(NamedTuple):
    """How to sum over the trees that a decoder searches.

    make: scratch for sentences of n words. search: the first-order decoder of the same trees.
    """

    make: Callable[[int], dict[str, Any]]
    search: str


# Name of the decoder, as in decode.DECODERS, if there are exact sums over its trees.
SUMS: dict[str, Sums] = {
    "eisner": Sums(lambda n: {"eisner": make_eisner_sums_scratch(n)}, "eisner"),
    "chu_liu_edmonds": Sums(
        lambda n: {"matrix_tree": make_matrix_tree_scratch(n)}, "chu_liu_edmonds"
    ),
    "eisner_sibling": Sums(
        lambda n: {"eisner_sibling": make_sibling_sums_scratch(n)}, "eisner"
    ),
}  # fmt: skip


def make_sum_scratch(decoder: str, n: int) -> SumScratch:
    """Working memory for the trees of a decoder in SUMS, and sentences of up to n words."""
    sums = SUMS[decoder]
    marginals = np.zeros((n + 1, n + 1))
    nothing = SumScratch(None, None, None, marginals, make_search_scratch(sums.search, n))
    return nothing._replace(**sums.make(n))


@compiled
def _scale(scores: np.ndarray, n: int, unit: float) -> None:
    for h in range(n + 1):
        for m in range(1, n + 1):
            scores[h, m] *= unit


def sum_trees(
    scores: np.ndarray, siblings: Siblings | None, n: int, single_root: bool, unit: float,
    scratch: SumScratch,
) -> float:  # fmt: skip
    """Fill scratch.marginals; returns the log-partition. The scores may be scaled in place."""
    raise TypeError("only compiled code can call this")


@overload(sum_trees)
def _choose_sums(scores, siblings, n, single_root, unit, scratch):
    def is_there(field):
        return not isinstance(scratch.types[scratch.fields.index(field)], types.NoneType)

    def by_eisner(scores, siblings, n, single_root, unit, scratch):
        _scale(scores, n, unit)
        return eisner_marginals_sentence(
            scores, n, single_root, scratch.eisner, scratch.marginals
        )  # fmt: skip

    def by_matrix_tree(scores, siblings, n, single_root, unit, scratch):
        _scale(scores, n, unit)
        return matrix_tree_marginals_sentence(
            scores, n, single_root, scratch.matrix_tree, scratch.marginals
        )

    def by_siblings(scores, siblings, n, single_root, unit, scratch):
        return eisner_sibling_marginals_sentence(
            scores, siblings, n, single_root, scratch.eisner_sibling, scratch.marginals, unit
        )

    if is_there("eisner_sibling"):
        return by_siblings
    return by_matrix_tree if is_there("matrix_tree") else by_eisner


@compiled
def log_excess(sums, top, unit):
    """log of the sum over labels of exp(unit * (sums - top)), top the largest."""
    total = 0.0
    for label in range(len(sums)):
        below = unit * (sums[label] - top)
        if below > NEGLIGIBLE:
            total += exp(below)
    return log(total)


@compiled
def label_chance(sums, label, unit):
    """The probability of one label of an arc."""
    top = np.float64(sums[0])
    for other in range(1, len(sums)):
        top = max(top, np.float64(sums[other]))
    return exp(unit * (sums[label] - top) - log_excess(sums, top, unit))


def _fill_label_chances(n, joint, unit, scratch, heads, labels, chances):
    """chances[m] of labels[m] under heads[m], where both are given; found with the trees only."""
    raise TypeError("only compiled code can call this")


@overload(_fill_label_chances)
def _choose_fill_label_chances(n, joint, unit, scratch, heads, labels, chances):
    if isinstance(joint, types.NoneType):
        return lambda n, joint, unit, scratch, heads, labels, chances: None

    def fill(n, joint, unit, scratch, heads, labels, chances):
        for m in range(1, n + 1):
            if heads[m] >= 0 and labels[m] >= 0:
                sum_labels(
                    heads[m], m, n, joint.plan, joint.rows, joint.weights, joint.stride,
                    scratch.parts, scratch.words, scratch.lines, scratch.sums,
                )  # fmt: skip
                chances[m] = label_chance(scratch.sums, labels[m], unit)

    return fill


@inlined
def _find_least_risk(scores, n, single_root, sums, heads):
    """Fill heads[1 : n + 1] with the tree of the most marginals; returns whether there is one."""
    marginals = sums.marginals
    for h in range(n + 1):
        for m in range(1, n + 1):
            if scores[h, m] == -np.inf:
                marginals[h, m] = -np.inf
    return search(marginals, None, n, single_root, 0.0, sums.least_risk, heads)


@compiled
def trust_sentences(
    values, starts, lengths, plan, weights, rows, joint, single_root, known, unit, label_unit,
    least_risk, scratch, sums, heads, labels, head_chances, label_chances, log_partitions,
):  # fmt: skip
    """Probabilities of the arcs of K trees of every sentence.

    Args:
        known: as of `forbid_others`: probabilities are those given what is known.
        least_risk: first fill heads[0] with the trees of least risk, and labels[0] where labels are
            found with the trees.
        heads, labels: (K, T) by place; -1 where nothing is asked.
        head_chances, label_chances: (K, T), filled; of labels only if found with the trees.
        log_partitions: (B,), filled: in nats.
    Returns: the index of the first sentence without a tree, or -1.
    """
    marginals = sums.marginals
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        siblings = score_parts(values, start, n, plan, weights, rows, joint, scratch)
        forbid_others(scratch.scores, n, start, known)
        log_partitions[b] = sum_trees(scratch.scores, siblings, n, single_root, unit, sums)
        if log_partitions[b] == -np.inf:
            return b
        if least_risk:
            of_sentence = heads[0, start : start + n + 1]
            if not _find_least_risk(scratch.scores, n, single_root, sums, of_sentence):
                return b
            fill_labels(n, joint, scratch, of_sentence, labels[0, start : start + n + 1])
        for k in range(len(heads)):
            for m in range(1, n + 1):
                h = heads[k, start + m]
                if h >= 0:
                    head_chances[k, start + m] = min(max(marginals[h, m], 0.0), 1.0)
            _fill_label_chances(
                n, joint, label_unit, scratch.labels, heads[k, start : start + n + 1],
                labels[k, start : start + n + 1], label_chances[k, start : start + n + 1],
            )  # fmt: skip
    return -1


@compiled
def trust_labels(
    values, starts, lengths, heads, plan, weights, n_lines, unit, scratch, labels, chances
):
    """Fill chances[t] with the probability of labels[t], given the head; of finished trees.

    Args: heads, labels, chances: (T,) by place; labels -1 where nothing is asked; the others as of
    `label_sentences`.
    """
    width = len(scratch.scores)
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        fill_positions(heads, start, n, scratch.positions)
        for m in range(1, n + 1):
            if labels[start + m] >= 0:
                fill_lines(values, start, m, plan, n_lines, width, scratch.positions, scratch.lines)
                sum_lines(weights, scratch.lines, scratch.scores)
                chances[start + m] = label_chance(scratch.scores, labels[start + m], unit)


@compiled
def find_k_best(
    values, starts, lengths, plan, weights, rows, joint, single_root, known, scratch, k_best,
    heads, labels, scores,
):  # fmt: skip
    """The K best trees of every sentence.

    Args:
        known: as of `forbid_others`.
        heads, labels: (K, T) by place, filled; labels only if found with the trees.
        scores: (K, B), filled where there is a tree.
    Returns: the index of the first sentence without a tree, or -1.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        siblings = score_parts(values, start, n, plan, weights, rows, joint, scratch)
        forbid_others(scratch.scores, n, start, known)
        count = search_k_best(scratch.scores, siblings, n, single_root, k_best)
        if count == 0:
            return b
        for k in range(count):
            scores[k, b] = k_best.scores[k]
            of_tree = heads[k, start : start + n + 1]
            for m in range(1, n + 1):
                of_tree[m] = k_best.heads[k, m]
            fill_labels(n, joint, scratch, of_tree, labels[k, start : start + n + 1])
    return -1
