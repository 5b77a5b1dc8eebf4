"""Dual decomposition of batches of dense scores, compiled. Scores not given have no elements."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.block_trees import score_block_tree
from gpuparse.inference.kernels.cpu.candidates import (
    ALL_ARCS,
    Candidates,
    allowed_arcs,
    find_candidates,
    grand_sibling_blocks,
    sibling_blocks,
)
from gpuparse.inference.kernels.cpu.dual_decomposition import (
    dual_decomposition_labelled_sentence,
    dual_decomposition_sentence,
)
from gpuparse.inference.kernels.cpu.grand_blocks import gather_ends, gather_grand_siblings
from gpuparse.inference.kernels.cpu.label_limits import label_head, make_label_limits
from gpuparse.tensors import NO_HEAD

LARGEST_WHOLE = 2.0**52  # whole numbers beyond are of no use: sums are no longer exact


@compiled
def _gather_siblings(
    candidates: Candidates, starts: np.ndarray, arc_scores: np.ndarray, sibling_scores: np.ndarray
) -> np.ndarray:
    """Blocks of arc + sibling of one sentence; see `sibling_blocks`."""
    head, modifier, rank = candidates.head, candidates.modifier, candidates.rank
    side, beyond = candidates.side, candidates.beyond
    blocks = np.empty(starts[len(head)], arc_scores.dtype)
    for a in range(1, len(head)):
        h, m = head[a], modifier[a]
        d = 0 if h < m else 1
        for j in range(rank[a] + 1):
            s = beyond[d, side[d, h] + j - 1] if j > 0 else h
            score = arc_scores[h, m]
            if len(sibling_scores) > 0:
                score += sibling_scores[h, m, s]
            blocks[starts[a] + j] = score
    return blocks


@compiled
def _granularity(scores: np.ndarray) -> float:
    """1 if all scores that are finite are whole, else 0."""
    for i in range(len(scores)):
        score = np.float64(scores[i])
        if abs(score) < np.inf and (score != np.floor(score) or abs(score) > LARGEST_WHOLE):
            return 0.0
    return 1.0


@compiled
def _gather(
    candidates: Candidates,
    has_grandparents: bool,
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    grandparent_scores: np.ndarray,
    grand_sibling_scores: np.ndarray,
    end_scores: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The blocks of one sentence, where they begin, and ends."""
    if has_grandparents:
        starts = grand_sibling_blocks(candidates.head, candidates.first, candidates.rank)
        blocks = gather_grand_siblings(
            candidates, starts, arc_scores, sibling_scores, grandparent_scores, grand_sibling_scores
        )
    else:
        starts = sibling_blocks(candidates.rank)
        blocks = _gather_siblings(candidates, starts, arc_scores, sibling_scores)
    return blocks, starts, gather_ends(candidates, end_scores)


@compiled
def dual_decomposition_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    grandparent_scores: np.ndarray,
    grand_sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    has_grandparents: bool,
    single_root: bool,
    max_iterations: int,
    granularity: float,
    heads: np.ndarray,
    scores: np.ndarray,
    certified: np.ndarray,
    iterations: np.ndarray,
) -> None:
    """`gpuparse.inference.dual_decomposition` on checked scores.

    Args: granularity: negative: to be found out; heads int64 (B, N), scores float64 (B,), certified
    bool (B,), iterations int64 (B,): filled. A sentence without a tree gets the score -inf.
    """
    for b in range(len(lengths)):
        n = lengths[b]
        for m in range(heads.shape[1]):
            heads[b, m] = NO_HEAD
        candidates = find_candidates(allowed_arcs(arc_scores[b], ALL_ARCS, n), n)
        blocks, starts, ends = _gather(
            candidates, has_grandparents, arc_scores[b], sibling_scores[b], grandparent_scores[b],
            grand_sibling_scores[b], end_scores[b],
        )  # fmt: skip
        step = granularity
        if step < 0.0:
            step = min(_granularity(blocks), _granularity(ends))
        found, certified[b], iterations[b] = dual_decomposition_sentence(
            candidates, blocks, starts, has_grandparents, ends, n, single_root, max_iterations,
            step, heads[b],
        )  # fmt: skip
        scores[b] = -np.inf
        if found:
            scores[b] = score_block_tree(
                candidates, blocks, starts, has_grandparents, ends, n, heads[b]
            )


@compiled
def _gather_classes(
    candidates: Candidates, label_scores: np.ndarray, class_of: np.ndarray, n_classes: int
) -> np.ndarray:
    """float64 (A, D): the best label of each class; class_of: int64 (L,)."""
    head, modifier = candidates.head, candidates.modifier
    scores = np.full((len(head), n_classes), -np.inf)
    for a in range(1, len(head)):
        for label in range(len(class_of)):
            d = class_of[label]
            scores[a, d] = max(scores[a, d], np.float64(label_scores[head[a], modifier[a], label]))
    return scores


@compiled
def first_best_label(label_scores: np.ndarray, class_of: np.ndarray, d: int) -> int:
    best, highest = -1, -np.inf
    for label in range(len(class_of)):
        if class_of[label] == d and label_scores[label] > highest:
            best, highest = label, label_scores[label]
    return best


@compiled
def dual_decomposition_labelled_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    grandparent_scores: np.ndarray,
    grand_sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    label_scores: np.ndarray,
    class_of: np.ndarray,
    masks: np.ndarray,
    lengths: np.ndarray,
    has_grandparents: bool,
    single_root: bool,
    max_iterations: int,
    granularity: float,
    heads: np.ndarray,
    labels: np.ndarray,
    scores: np.ndarray,
    certified: np.ndarray,
    iterations: np.ndarray,
) -> None:
    """`gpuparse.inference.dual_decomposition_labelled` on checked scores.

    Args: as `dual_decomposition_batch`; label_scores (B, N, N, L); class_of int64 (L,), the class
    of each label, masks int64 (D,), of each class; labels int64 (B, N): filled.
    """
    classes = np.zeros(arc_scores.shape[1], np.int64)
    for b in range(len(lengths)):
        n = lengths[b]
        for m in range(heads.shape[1]):
            heads[b, m] = labels[b, m] = NO_HEAD
        allowed = allowed_arcs(arc_scores[b], ALL_ARCS, n)
        for h in range(n + 1):
            for m in range(1, n + 1):
                if allowed[h, m]:
                    allowed[h, m] = False
                    for label in range(len(class_of)):
                        if label_scores[b, h, m, label] > -np.inf:
                            allowed[h, m] = True
        candidates = find_candidates(allowed, n)
        blocks, starts, ends = _gather(
            candidates, has_grandparents, arc_scores[b], sibling_scores[b], grandparent_scores[b],
            grand_sibling_scores[b], end_scores[b],
        )  # fmt: skip
        of_labels = _gather_classes(candidates, label_scores[b], class_of, len(masks))
        step = granularity
        if step < 0.0:
            step = min(_granularity(blocks), _granularity(ends))
            step = min(step, _granularity(of_labels.reshape(of_labels.size)))
        found, certified[b], iterations[b] = dual_decomposition_labelled_sentence(
            candidates, blocks, starts, has_grandparents, ends, masks, of_labels, n, single_root,
            max_iterations, step, heads[b], classes,
        )  # fmt: skip
        scores[b] = -np.inf
        if found:
            score = score_block_tree(
                candidates, blocks, starts, has_grandparents, ends, n, heads[b]
            )
            for m in range(1, n + 1):
                of_arc = label_scores[b, heads[b, m], m]
                label = first_best_label(of_arc, class_of, classes[m])
                labels[b, m] = label
                score += np.float64(of_arc[label])
            scores[b] = score


@compiled
def best_labels_batch(
    label_scores: np.ndarray,
    class_of: np.ndarray,
    masks: np.ndarray,
    lengths: np.ndarray,
    heads: np.ndarray,
    labels: np.ndarray,
) -> np.ndarray:
    """The best labels of given trees under limits.

    Args: label_scores, class_of, masks: as above; heads int64 (B, N); labels int64 (B, N): filled
    at the words, if the limits leave any labels.
    Returns: float64 (B,), sums over words 1, 2, ..., n; -inf if there are none.
    """
    sums = np.zeros(len(lengths))
    for b in range(len(lengths)):
        n = lengths[b]
        allowed = np.zeros((n + 1, n + 1), np.bool_)
        for m in range(1, n + 1):
            allowed[heads[b, m], m] = True
        candidates = find_candidates(allowed, n)
        of_labels = _gather_classes(candidates, label_scores[b], class_of, len(masks))
        limits = make_label_limits(masks, of_labels, len(candidates.head), n)
        for h in range(n + 1):
            if label_head(limits, n, candidates.number, heads[b], h) == -np.inf:
                sums[b] = -np.inf
        for m in range(1, n + 1):
            if sums[b] > -np.inf:
                of_arc = label_scores[b, heads[b, m], m]
                label = first_best_label(of_arc, class_of, limits.classes[m])
                labels[b, m] = label
                sums[b] += np.float64(of_arc[label])
    return sums
