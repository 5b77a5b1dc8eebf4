"""The best tree of one sentence by the decoders that read parts of three and four words."""

from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.candidates import (
    allowed_arcs,
    find_candidates,
    grand_sibling_blocks,
    sibling_blocks,
    tri_sibling_blocks,
)
from gpuparse.inference.kernels.cpu.dual_decomposition import (
    dual_decomposition_labelled_sentence,
    dual_decomposition_sentence,
)
from gpuparse.inference.kernels.cpu.dual_decomposition_batch import first_best_label
from gpuparse.inference.kernels.cpu.eisner_grand_sibling import eisner_grand_sibling_sentence
from gpuparse.inference.kernels.cpu.eisner_grandchild import eisner_grandchild_sentence
from gpuparse.inference.kernels.cpu.eisner_tri_sibling import eisner_tri_sibling_sentence
from gpuparse.inference.kernels.cpu.grandchild_blocks import grandchild_blocks
from gpuparse.inference.kernels.cpu.larger_parts import (
    GRAND_SIBLING,
    GRANDPARENT,
    LargerParts,
    end_blocks,
    fill_child_blocks,
    fill_grand_sibling_blocks,
    fill_sibling_blocks,
    fill_tri_sibling_blocks,
    n_labels,
)
from gpuparse.inference.kernels.cpu.prefer_projective import (
    prefer_projective,
    prefer_projective_labelled,
)

CERTIFIED, ITERATIONS = range(2)  # marks of a search
MAX_ITERATIONS = 1000  # solutions of all sub-problems of a dual decomposition


class LargerSearch(NamedTuple):
    """Which decoder searches, and what it says besides the tree; made by `search.SCRATCH`.

    Of the first four fields one is not None: that is the decoder.
    granularity: two different scores differ by that at least, 0 if nobody knows.
    marks: int64 (2,): of the last search, whether the tree is certified, and iterations.
    notes: int64 (2, T): the marks of all sentences, see `keep_marks`; (2, 0): they are not kept.
    labels: int64 (N,): those found with the tree, by a search that finds any.
    label_classes, masks: of dual decomposition under limits on labels, as `label_limits.py` has
    them: the class of each label, int64 (L,), and the limits of each class, int64 (D,).
    """

    by_grand_siblings: bool | None
    by_tri_siblings: bool | None
    by_grandchildren: bool | None
    by_dual_decomposition: bool | None
    max_iterations: int
    granularity: float
    marks: np.ndarray
    notes: np.ndarray
    labels: np.ndarray
    label_classes: np.ndarray
    masks: np.ndarray


def make_larger_search(which: str, n: int) -> LargerSearch:
    """What `search` is told by, for up to n words; which: the field of the decoder."""
    marks, notes, labels = np.array([1, 0]), np.zeros((2, 0), np.int64), np.zeros(n + 1, np.int64)
    arrays = marks, notes, labels, np.zeros(0, np.int64), np.zeros(0, np.int64)
    nothing = LargerSearch(None, None, None, None, MAX_ITERATIONS, 0.0, *arrays)
    decoders: dict[str, Any] = {which: True}
    return nothing._replace(**decoders)


@compiled
def _by_grand_siblings(scores, parts, n, single_root, heads):
    candidates = find_candidates(allowed_arcs(scores, parts.allowed, n), n)
    head, modifier = candidates.head, candidates.modifier
    start = grand_sibling_blocks(head, candidates.first, candidates.rank)
    blocks = np.empty(start[-1])
    fill_grand_sibling_blocks(scores, candidates, start, parts, True, blocks)
    ends = end_blocks(parts.siblings, head, modifier)
    return eisner_grand_sibling_sentence(candidates, blocks, start, ends, n, single_root, heads)


@compiled
def _by_tri_siblings(scores, parts, n, single_root, heads):
    candidates = find_candidates(allowed_arcs(scores, parts.allowed, n), n)
    head, modifier, rank = candidates.head, candidates.modifier, candidates.rank
    tri_start = tri_sibling_blocks(rank)
    of_three = np.empty(tri_start[-1])
    fill_tri_sibling_blocks(scores, candidates, tri_start, parts, of_three)
    start = grand_sibling_blocks(head, candidates.first, rank)
    outermost = np.empty(start[-1])
    fill_grand_sibling_blocks(scores, candidates, start, parts, False, outermost)
    ends = end_blocks(parts.siblings, head, modifier)
    return eisner_tri_sibling_sentence(
        candidates, of_three, tri_start, outermost, start, ends, n, single_root, heads
    )


@compiled
def _by_grandchildren(scores, parts, n, single_root, heads, labels):
    candidates = find_candidates(allowed_arcs(scores, parts.allowed, n), n)
    label_first = np.arange(len(candidates.head) + 1) * n_labels(parts.labelled)
    starts = grandchild_blocks(candidates, label_first)
    of_siblings, of_inner, of_outer = (
        np.empty(starts[0][-1]), np.empty(starts[1][-1]), np.empty(starts[2][-1])
    )  # fmt: skip
    fill_child_blocks(scores, candidates, starts, parts, of_siblings, of_inner, of_outer)
    return eisner_grandchild_sentence(
        candidates, label_first, of_siblings, starts[0], of_inner, starts[1], of_outer, starts[2],
        n, single_root, heads, labels,
    )  # fmt: skip


@compiled
def crossing_parts(scores, parts, n):
    """Candidates, their blocks and where these begin, whether there are grandparents, the ends."""
    candidates = find_candidates(allowed_arcs(scores, parts.allowed, n), n)
    head, modifier, kinds = candidates.head, candidates.modifier, parts.kinds
    has_grandparents = kinds[GRANDPARENT] < kinds[GRAND_SIBLING + 1]
    if has_grandparents:
        start = grand_sibling_blocks(head, candidates.first, candidates.rank)
        blocks = np.empty(start[-1])
        fill_grand_sibling_blocks(scores, candidates, start, parts, True, blocks)
    else:
        start = sibling_blocks(candidates.rank)
        blocks = np.empty(start[-1])
        fill_sibling_blocks(scores, candidates, start, parts.siblings, blocks)
    ends = end_blocks(parts.siblings, head, modifier)
    return candidates, blocks, start, has_grandparents, ends


def _by_dual_decomposition(scores, parts, n, single_root, min_gain, scratch, heads):
    raise TypeError("only compiled code can call this")


@overload(_by_dual_decomposition)
def _choose_dual_decomposition(scores, parts, n, single_root, min_gain, scratch, heads):
    def unlabelled(scores, parts, n, single_root, min_gain, scratch, heads):
        candidates, blocks, start, has_grandparents, ends = crossing_parts(scores, parts, n)
        found, is_proven, iterations = dual_decomposition_sentence(
            candidates, blocks, start, has_grandparents, ends, n, single_root,
            scratch.max_iterations, scratch.granularity, heads,
        )  # fmt: skip
        scratch.marks[CERTIFIED], scratch.marks[ITERATIONS] = is_proven, iterations
        if found:
            prefer_projective(
                candidates, blocks, start, has_grandparents, ends, n, single_root, min_gain, heads
            )
        return found

    def labelled(scores, parts, n, single_root, min_gain, scratch, heads):
        candidates, blocks, start, has_grandparents, ends = crossing_parts(scores, parts, n)
        of_arcs, class_of = parts.labelled.arcs, scratch.label_classes
        best = np.full((len(candidates.head), len(scratch.masks)), -np.inf)
        for a in range(1, len(candidates.head)):
            row = of_arcs[candidates.head[a], candidates.modifier[a]]
            for label in range(len(class_of)):
                best[a, class_of[label]] = max(best[a, class_of[label]], row[label])
        classes = np.empty(n + 1, np.int64)
        found, is_proven, iterations = dual_decomposition_labelled_sentence(
            candidates, blocks, start, has_grandparents, ends, scratch.masks, best, n, single_root,
            scratch.max_iterations, scratch.granularity, heads, classes,
        )  # fmt: skip
        if found:
            is_best = prefer_projective_labelled(
                candidates, blocks, start, has_grandparents, ends, scratch.masks, best, n,
                single_root, min_gain, heads, classes,
            )  # fmt: skip
            is_proven = is_proven and is_best
        scratch.marks[CERTIFIED], scratch.marks[ITERATIONS] = is_proven, iterations
        if found:
            for m in range(1, n + 1):
                row = of_arcs[heads[m], m]
                scratch.labels[m] = first_best_label(row, class_of, classes[m])
        return found

    has_labels = not isinstance(parts.types[parts.fields.index("labelled")], types.NoneType)
    return labelled if has_labels else unlabelled


def keep_marks(scratch: Any, place: int) -> None:
    """Keep what the last search said besides the tree."""
    raise TypeError("only compiled code can call this")


@overload(keep_marks)
def _choose_keep_marks(scratch, place):
    if scratch.instance_class is not LargerSearch:
        return lambda scratch, place: None

    def keep(scratch, place):
        if scratch.notes.shape[1] > 0:
            scratch.notes[CERTIFIED, place] = scratch.marks[CERTIFIED]
            scratch.notes[ITERATIONS, place] = scratch.marks[ITERATIONS]

    return keep


def search_larger(
    scores: np.ndarray,
    parts: LargerParts,
    n: int,
    single_root: bool,
    min_gain: float,
    scratch: LargerSearch,
    heads: np.ndarray,
) -> bool:
    """Fill heads[1:n+1] with the tree that is found; return whether there is one.

    Args: scores: of arcs, float64 (>= N, >= N), n >= 1; min_gain: of trees with crossing arcs, see
    `prefer_projective`.
    """
    raise TypeError("only compiled code can call this")


@overload(search_larger)
def _choose_search(scores, parts, n, single_root, min_gain, scratch, heads):
    def is_there(field: str) -> Any:
        return not isinstance(scratch.types[scratch.fields.index(field)], types.NoneType)

    if is_there("by_grand_siblings"):
        return lambda scores, parts, n, single_root, min_gain, scratch, heads: _by_grand_siblings(
            scores, parts, n, single_root, heads
        )
    if is_there("by_tri_siblings"):
        return lambda scores, parts, n, single_root, min_gain, scratch, heads: _by_tri_siblings(
            scores, parts, n, single_root, heads
        )
    if is_there("by_grandchildren"):
        return lambda scores, parts, n, single_root, min_gain, scratch, heads: _by_grandchildren(
            scores, parts, n, single_root, heads, scratch.labels
        )
    return lambda scores, parts, n, single_root, min_gain, scratch, heads: _by_dual_decomposition(
        scores, parts, n, single_root, min_gain, scratch, heads
    )
