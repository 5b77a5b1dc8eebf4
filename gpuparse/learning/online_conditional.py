"""Conditional log-likelihood, compiled: a step up the gradient for each sentence.

log p(y | x) = s(x, y) - log Z(x); its gradient is the features of the gold tree less those expected
of a tree, the sum of every arc's features weighted by its marginal probability. Where heads are not
known, p is summed over all trees with the known ones, and the gradient is the difference of two
expectations.
"""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import Plan
from gpuparse.inference.kernels.cpu.eisner_sums import (
    eisner_marginals_sentence,
    make_eisner_sums_scratch,
)
from gpuparse.inference.kernels.cpu.matrix_tree import (
    MatrixTreeScratch,
    make_matrix_tree_scratch,
    matrix_tree_marginals_sentence,
)
from gpuparse.learning.difference import all_arc_rows, insert_all_arcs, max_arc_rows
from gpuparse.learning.online import DONE, NO_TREE, TABLE_FULL
from gpuparse.scoring.cpu_parse import forbid_others, score_arcs

LEAST = 1e-9  # an arc whose coefficient is smaller is left out


class Expectations(NamedTuple):
    """Working memory for sentences of at most N - 1 words."""

    eisner: np.ndarray | None  # one of the two is None: it tells the trees that are summed over
    matrix_tree: MatrixTreeScratch | None
    expected: np.ndarray  # (N, N) float64: marginals of all trees
    wanted: np.ndarray  # (N, N) float64: of those that gold allows
    found: np.ndarray  # (most rows of an arc,) int64


def make_expectations(plan: Plan, decoder: str, n: int) -> Expectations:
    """Working memory for sentences of up to n words, for the trees that a decoder searches."""
    is_projective = decoder == "eisner"
    return Expectations(
        make_eisner_sums_scratch(n) if is_projective else None,
        None if is_projective else make_matrix_tree_scratch(n),
        np.zeros((n + 1, n + 1)),
        np.zeros((n + 1, n + 1)),
        np.empty(max_arc_rows(plan, n), np.int64),
    )


def _marginals(scores, n, single_root, expectations, marginals):
    """Fill the marginals; returns the log-partition."""
    raise TypeError("only compiled code can call this")


@overload(_marginals)
def _choose_marginals(scores, n, single_root, expectations, marginals):
    field = expectations.types[expectations.fields.index("eisner")]
    if isinstance(field, types.NoneType):
        return lambda scores, n, single_root, expectations, marginals: (
            matrix_tree_marginals_sentence(
                scores, n, single_root, expectations.matrix_tree, marginals
            )
        )
    return lambda scores, n, single_root, expectations, marginals: eisner_marginals_sentence(
        scores, n, single_root, expectations.eisner, marginals
    )


@inlined
def _count_wrong(n, start, gold, marginals):
    """Words whose gold arc is not more likely than all others together."""
    wrong = 0
    for m in range(1, n + 1):
        right = gold[start + m]
        wrong += right >= 0 and marginals[right, m] <= 0.5
    return wrong


@inlined
def _fill_gold(n, start, gold, wanted):
    """wanted[h, m] = 1 for gold arcs, else 0; returns how many words have none."""
    missing = 0
    wanted[: n + 1, : n + 1] = 0.0
    for m in range(1, n + 1):
        if gold[start + m] >= 0:
            wanted[gold[start + m], m] = 1.0
        else:
            missing += 1
    return missing


@compiled
def learn_conditional(
    values, starts, lengths, gold, plan, weights, weighted, seen, rows, course, scratch,
    expectations, first,
):  # fmt: skip
    """As `learn_sentences` of `online`, by gradient steps of the length course.cap.

    Args:
        gold: (T,) heads by place; -1 for words whose head is not known.
        course: with a cost, wrong arcs are raised by it before probabilities are taken
            (softmax-margin, Gimpel & Smith 2010).
    Returns:
        As there; of what was wrong, the words whose gold arc has at most half the probability.
    """
    wrong, expected, wanted = 0.0, expectations.expected, expectations.wanted
    scores, sums, found = scratch.scores, scratch.sums, expectations.found
    for b in range(first, len(starts)):
        start, n = starts[b], lengths[b]
        if not insert_all_arcs(values, start, n, plan, len(weights), rows, scratch):
            return TABLE_FULL, b, wrong
        score_arcs(values, start, n, plan, weights, rows, scratch)
        for h in range(n + 1):
            for m in range(1, n + 1):
                right = gold[start + m]
                scores[h, m] = sums[h, m] + (course.cost if right >= 0 and right != h else 0.0)
        if _marginals(scores, n, course.single_root, expectations, expected) == -np.inf:
            return NO_TREE, b, wrong
        if _fill_gold(n, start, gold, wanted) > 0:
            forbid_others(scores, n, start, gold)
            if _marginals(scores, n, course.single_root, expectations, wanted) == -np.inf:
                return NO_TREE, b, wrong
        wrong += _count_wrong(n, start, gold, expected)
        for h in range(n + 1):
            for m in range(1, n + 1):
                step = course.cap * (wanted[h, m] - expected[h, m])
                if h != m and abs(step) > course.cap * LEAST:
                    n_found = all_arc_rows(values, start, n, h, m, plan, rows, scratch, found)
                    for k in range(n_found):
                        weights[found[k]] += step
                        weighted[found[k]] += (seen + b) * step
    return DONE, len(starts), wrong
