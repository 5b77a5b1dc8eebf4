"""From token ids to heads, compiled: the scores of one sentence, then its best tree or graph."""

from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled, inlined
from gpuparse.features.plan import Plan
from gpuparse.inference.kernels.cpu.larger_parts import LabelParts, LargerParts
from gpuparse.inference.kernels.cpu.search import (
    SearchScratch,
    make_search_scratch,
    search,
)
from gpuparse.inference.kernels.cpu.search_k_best import KBestScratch, make_k_best_scratch
from gpuparse.inference.kernels.cpu.search_larger import LargerSearch, crossing_parts, keep_marks
from gpuparse.scoring.cpu import RowMap, Scratch, make_scratch, score_sentence
from gpuparse.scoring.cpu_guides import GuideScratch, add_guides, make_guide_scratch
from gpuparse.scoring.cpu_joint import (
    JointLabels,
    JointScratch,
    best_label,
    make_joint_scratch,
    score_labels,
    sum_all_labels,
    sum_labels,
)
from gpuparse.scoring.cpu_larger import LargerScratch, fill_larger_keys, make_larger_scratch
from gpuparse.scoring.cpu_siblings import (
    SiblingScoreScratch,
    make_sibling_score_scratch,
    score_siblings,
)


class ParseScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words."""

    parts: Scratch
    sums: np.ndarray  # (N, N) sums of weights
    scores: np.ndarray  # (N, N) float64: exact for any sum of integer weights
    siblings: SiblingScoreScratch | None  # None for the first order
    labels: JointScratch | None  # None where labels are not found with the trees
    guide: GuideScratch | None  # None without guide templates
    larger: LargerScratch | None  # None without parts of three and four words
    tree: SearchScratch | LargerSearch
    k_best: KBestScratch | None  # of the k best trees
    given: np.ndarray  # (N, N) float64: scores under what is known of a tree


def make_parse_scratch(
    plan: Plan,
    rows: RowMap,
    joint: JointLabels | None,
    decoder: str,
    n: int,
    weights: np.ndarray,
    k: int = 1,
) -> ParseScratch:
    """Working memory for sentences of up to n words; integer weights are summed as int32."""
    sums = np.dtype(np.float32 if weights.dtype.kind == "f" else np.int32)
    exact = rows.keys is not None
    siblings = None
    if plan.siblings:
        siblings = make_sibling_score_scratch(plan.siblings, n, exact, sums)
    guide = make_guide_scratch(plan.guide, n, exact, sums) if plan.guide else None
    return ParseScratch(
        make_scratch(plan.arcs, n, exact, sums),
        np.zeros((n + 1, n + 1), sums),
        np.zeros((n + 1, n + 1)),
        siblings,
        make_joint_scratch(joint, n, sums) if joint else None,
        guide,
        make_larger_scratch(plan.larger, n) if plan.larger else None,
        make_search_scratch(decoder, n),
        make_k_best_scratch(decoder, n, k) if k > 1 else None,
        np.zeros((n + 1, n + 1)),
    )


def _siblings(values, start, n, plan, weights, rows, scratch):
    """The sibling scores of a sentence, None for a plan of the first order, which is None."""
    raise TypeError("only compiled code can call this")


@overload(_siblings)
def _choose_siblings(values, start, n, plan, weights, rows, scratch):
    if isinstance(plan, types.NoneType):
        return lambda values, start, n, plan, weights, rows, scratch: None
    return lambda values, start, n, plan, weights, rows, scratch: score_siblings(
        values, start, n, plan, weights, rows, scratch
    )


def _larger(values, start, n, siblings, plan, weights, rows, joint, scratch):
    """The sibling scores, with what larger parts are scored by, if there are such parts."""
    raise TypeError("only compiled code can call this")


@overload(_larger)
def _choose_larger(values, start, n, siblings, plan, weights, rows, joint, scratch):
    def score(values, start, n, siblings, plan, weights, rows, joint, scratch):
        larger = scratch.larger
        fill_larger_keys(values, start, n, plan, larger)
        allowed = np.zeros((0, 0), np.bool_)
        if len(larger.cells) > 0:
            first = larger.firsts[start]
            cells = larger.cells[first : first + (n + 1) * (n + 1)]
            allowed = cells.reshape((n + 1, n + 1))
        labelled = _labelled(values, start, n, allowed, joint, scratch.labels)
        return LargerParts(
            siblings, allowed, plan.family_start, larger.words, larger.on, larger.right,
            larger.below, weights, rows.rows, labelled,
        )  # fmt: skip

    if isinstance(plan, types.NoneType):
        return lambda values, start, n, siblings, plan, weights, rows, joint, scratch: siblings
    return score


def _labelled(values, start, n, allowed, joint, scratch):
    """What labels add to arcs and children, if they are found with both."""
    raise TypeError("only compiled code can call this")


@overload(_labelled)
def _choose_labelled(values, start, n, allowed, joint, scratch):
    if not labels_children(joint):
        return lambda values, start, n, allowed, joint, scratch: None

    def score(values, start, n, allowed, joint, scratch):
        plan, larger = joint.larger, scratch.larger
        fill_larger_keys(values, start, n, plan, larger)
        sum_all_labels(
            values, start, n, joint.plan, joint.rows, joint.weights, joint.stride, joint.width,
            scratch.parts, scratch.words, scratch.lines, allowed, scratch.arcs,
        )  # fmt: skip
        return LabelParts(
            scratch.arcs, plan.family_start, larger.words, larger.on, larger.right, joint.weights,
            len(joint.weights) // joint.stride, joint.stride, joint.width, scratch.gold,
            scratch.labels, scratch.cost,
        )  # fmt: skip

    return score


def labels_children(joint):
    """While compiling: whether labels of this type are found with children too."""
    if isinstance(joint, types.NoneType):
        return False
    return not isinstance(joint.types[joint.fields.index("larger")], types.NoneType)


def _label_arcs(values, start, n, joint, scratch, scores):
    """Add to every arc's score what its best label scores, if labels are found with the trees."""
    raise TypeError("only compiled code can call this")


@overload(_label_arcs)
def _choose_label_arcs(values, start, n, joint, scratch, scores):
    if isinstance(joint, types.NoneType) or labels_children(joint):
        return lambda values, start, n, joint, scratch, scores: None

    def label_arcs(values, start, n, joint, scratch, scores):
        best = scratch.best
        score_labels(
            values, start, n, joint.plan, joint.rows, joint.weights, joint.stride, joint.width,
            scratch.parts, scratch.words, scratch.lines, scratch.counts, best,
        )  # fmt: skip
        for h in range(n + 1):
            for m in range(1, n + 1):
                if h != m:
                    scores[h, m] += best[h, m]

    return label_arcs


@inlined
def score_arcs(values, start, n, plan, weights, rows, scratch):
    """Fill scratch.sums[h, m] with the scores of arcs without labels, guide features included."""
    score_sentence(values, start, n, plan.arcs, weights, rows, scratch.parts, scratch.sums)
    add_guides(values, start, n, plan.guide, weights, rows, scratch.guide, scratch.sums)


@inlined
def score_parts(values, start, n, plan, weights, rows, joint, scratch):
    """Fill scratch.scores with the scores of all arcs, best labels included.

    Returns: what else the search reads: Siblings, LargerParts or None.
    """
    score_arcs(values, start, n, plan, weights, rows, scratch)
    for h in range(n + 1):
        for m in range(1, n + 1):
            scratch.scores[h, m] = scratch.sums[h, m]
    _label_arcs(values, start, n, joint, scratch.labels, scratch.scores)
    siblings = _siblings(values, start, n, plan.siblings, weights, rows, scratch.siblings)
    return _larger(values, start, n, siblings, plan.larger, weights, rows, joint, scratch)


@compiled
def forbid_others(scores, n, start, known):
    """Forbid every arc into a word whose head known[start + m] is given, but for the one from it.

    Args: known: (T,) heads by place, -1 for those to be found; none at all if it is empty.
    """
    if len(known) == 0:
        return
    for m in range(1, n + 1):
        given = known[start + m]
        if given >= 0:
            for h in range(n + 1):
                if h != given:
                    scores[h, m] = -np.inf


def fill_labels(n, joint, scratch, heads, labels):
    """Fill labels[1 : n + 1] with the best labels of the arcs, if found with the trees.

    scratch: the whole ParseScratch.
    """
    raise TypeError("only compiled code can call this")


@overload(fill_labels)
def _choose_fill_labels(n, joint, scratch, heads, labels):
    if isinstance(joint, types.NoneType):
        return lambda n, joint, scratch, heads, labels: None

    def copy(n, joint, scratch, heads, labels):
        for m in range(1, n + 1):
            labels[m] = scratch.tree.labels[m]

    def fill(n, joint, scratch, heads, labels):
        for m in range(1, n + 1):
            labels[m] = find_label(heads[m], m, n, joint, scratch.labels, -1, 0.0)[0]

    if labels_children(joint):
        return copy

    return fill


@inlined
def find_label(h, m, n, joint, scratch, right, cost):
    """The best label of an arc of the sentence scored last, and its score, as of `best_label`."""
    sum_labels(
        h, m, n, joint.plan, joint.rows, joint.weights, joint.stride, scratch.parts, scratch.words,
        scratch.lines, scratch.sums,
    )  # fmt: skip
    return best_label(scratch.sums, joint.width, right, cost)


@inlined
def parse_sentence(
    values, start, n, plan, weights, rows, joint, single_root, min_gain, known, scratch, heads,
    labels,
):  # fmt: skip
    """Fill heads[1:n+1] with the best tree of one sentence; return whether there is one.

    Args: joint: what labels[1:n+1] are found with, or None; known: as of `forbid_others`. Where
    graphs are searched for, the graph is in scratch.tree.arcs afterwards, and heads are its primary
    ones.
    """
    siblings = score_parts(values, start, n, plan, weights, rows, joint, scratch)
    forbid_others(scratch.scores, n, start, known)
    found = search(scratch.scores, siblings, n, single_root, min_gain, scratch.tree, heads)
    if found:
        fill_labels(n, joint, scratch, heads, labels)
    keep_marks(scratch.tree, start)
    return found


@compiled
def score_crossing_parts(values, start, n, plan, weights, rows, joint, known, scratch):
    """What is searched over by `parse_sentence` of decoders of crossing arcs, as crossing_parts."""
    parts = score_parts(values, start, n, plan, weights, rows, joint, scratch)
    forbid_others(scratch.scores, n, start, known)
    return crossing_parts(scratch.scores, parts, n)


@compiled
def label_sentence(n, joint, scratch, heads, labels):
    """Fill labels[1 : n + 1] for the tree heads[1 : n + 1] of the sentence scored last."""
    fill_labels(n, joint, scratch, heads, labels)


@compiled
def parse_sentences(
    values, starts, lengths, plan, weights, rows, joint, single_root, min_gain, known, scratch,
    heads, labels,
):  # fmt: skip
    """Fill heads[start + 1 : start + n + 1] of every sentence with its best tree, and its labels.

    Args: joint, known: as of `parse_sentence`; without `joint` no label is touched.
    Returns: the index of the first sentence without a tree, or -1.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        if not parse_sentence(
            values, start, n, plan, weights, rows, joint, single_root, min_gain, known, scratch,
            heads[start : start + n + 1], labels[start : start + n + 1],
        ):  # fmt: skip
            return b
    return -1


@compiled
def parse_graphs(
    values, starts, lengths, plan, weights, rows, single_root, min_gain, known, scratch, heads,
    firsts, arcs,
):  # fmt: skip
    """As `parse_sentences` for graphs, whose arcs are written beside their primary heads.

    arcs: (cells,) bool, the arc h -> m of sentence b at firsts[b] + h * (n + 1) + m.
    """
    for b in range(len(starts)):
        start, n = starts[b], lengths[b]
        if not parse_sentence(
            values, start, n, plan, weights, rows, None, single_root, min_gain, known, scratch,
            heads[start : start + n + 1], heads[start : start + n + 1],
        ):  # fmt: skip
            return b
        copy_arcs(scratch.tree.arcs, n, arcs[firsts[b] :])
    return -1


@compiled
def copy_arcs(arcs, n, cells):
    """Write the arcs of a graph, h -> m to h * (n + 1) + m."""
    for h in range(n + 1):
        for m in range(n + 1):
            cells[h * (n + 1) + m] = arcs[h, m]
