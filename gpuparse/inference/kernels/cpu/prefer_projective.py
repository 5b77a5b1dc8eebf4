"""A tree with crossing arcs gives way to a projective one that is nearly as good."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.block_trees import score_block_tree
from gpuparse.inference.kernels.cpu.candidates import Candidates, grand_sibling_blocks
from gpuparse.inference.kernels.cpu.eisner_grand_sibling import eisner_grand_sibling_sentence
from gpuparse.inference.kernels.cpu.label_limits import (
    LabelLimits,
    label_head,
    make_label_limits,
)


@compiled
def _has_crossing_arcs(n: int, heads: np.ndarray) -> bool:
    for m in range(1, n + 1):
        first, last = min(heads[m], m), max(heads[m], m)
        for k in range(1, n + 1):
            left, right = min(heads[k], k), max(heads[k], k)
            if left < first < right < last:
                return True
    return False


@compiled
def _under_all_heads(
    candidates: Candidates, of_siblings: np.ndarray, starts: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Blocks of siblings as those of grand-siblings, the same under each head of the head."""
    head, first, rank = candidates.head, candidates.first, candidates.rank
    grand_starts = grand_sibling_blocks(head, first, rank)
    blocks = np.empty(grand_starts[-1], of_siblings.dtype)
    for a in range(1, len(head)):
        width = first[head[a] + 1] - first[head[a]]
        for j in range(rank[a] + 1):
            for q in range(width):
                blocks[grand_starts[a] + j * width + q] = of_siblings[starts[a] + j]
    return blocks, grand_starts


@compiled
def _best_projective(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    n: int,
    single_root: bool,
    heads: np.ndarray,
) -> float:
    """Fill heads with the best projective tree; its score, -inf if there is none."""
    if not has_grandparents:
        blocks, starts = _under_all_heads(candidates, blocks, starts)
    if not eisner_grand_sibling_sentence(candidates, blocks, starts, ends, n, single_root, heads):
        return -np.inf
    return score_block_tree(candidates, blocks, starts, True, ends, n, heads)


@compiled
def prefer_projective(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    n: int,
    single_root: bool,
    min_gain: float,
    heads: np.ndarray,
) -> None:
    """Keep a tree with crossing arcs only if it scores more by more than min_gain.

    More than the best projective tree of the same candidates, which takes its place otherwise; so
    that from the best of all trees comes the best one where crossing arcs cost min_gain.

    Args: candidates, blocks, starts, has_grandparents, ends: as `dual_decomposition_sentence` has
    them; heads: the tree, heads[1 : n + 1], n >= 1.
    Cost: nothing without crossing arcs or with min_gain 0, else that of
    `eisner_grand_sibling_sentence`.
    """
    if min_gain <= 0 or not _has_crossing_arcs(n, heads):
        return
    projective = np.empty(n + 1, np.int64)
    score = _best_projective(
        candidates, blocks, starts, has_grandparents, ends, n, single_root, projective
    )
    crossing = score_block_tree(candidates, blocks, starts, has_grandparents, ends, n, heads)
    if crossing <= score + min_gain:
        for m in range(1, n + 1):
            heads[m] = projective[m]


@compiled
def _score_of_labels(limits: LabelLimits, n: int, number: np.ndarray, heads: np.ndarray) -> float:
    """The score of the best labels of a tree under limits, whose classes are noted there."""
    total = 0.0
    for h in range(n + 1):
        total += label_head(limits, n, number, heads, h)
    return total


@compiled
def prefer_projective_labelled(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    masks: np.ndarray,
    label_scores: np.ndarray,
    n: int,
    single_root: bool,
    min_gain: float,
    heads: np.ndarray,
    classes: np.ndarray,
) -> bool:
    """`prefer_projective` of a tree under limits on labels, as far as it can be done.

    The projective tree is the best one without limits, with the best labels that keep them.

    Args: as there, and of `dual_decomposition_labelled_sentence`.
    Returns: whether there is no better choice: not where the projective tree has to give up labels
    and comes close enough, for another projective one may be better under the limits.
    """
    if min_gain <= 0 or not _has_crossing_arcs(n, heads):
        return True
    with_labels = blocks.copy()
    for a in range(1, len(candidates.head)):
        best = -np.inf
        for d in range(label_scores.shape[1]):
            best = max(best, label_scores[a, d])
        for i in range(starts[a], starts[a + 1]):
            with_labels[i] += best
    projective = np.empty(n + 1, np.int64)
    bound = _best_projective(
        candidates, with_labels, starts, has_grandparents, ends, n, single_root, projective
    )
    number = candidates.number
    limits = make_label_limits(masks, label_scores, len(candidates.head), n)
    crossing = score_block_tree(candidates, blocks, starts, has_grandparents, ends, n, heads)
    crossing += _score_of_labels(limits, n, number, heads)
    if crossing > bound + min_gain:
        return True
    score = score_block_tree(candidates, blocks, starts, has_grandparents, ends, n, projective)
    score += _score_of_labels(limits, n, number, projective)
    if crossing <= score + min_gain:
        for m in range(1, n + 1):
            heads[m], classes[m] = projective[m], limits.classes[m]
    return score >= bound
