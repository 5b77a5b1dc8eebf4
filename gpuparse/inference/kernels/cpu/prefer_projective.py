"""A tree with crossing arcs gives way to a projective one that is nearly as good."""

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.block_trees import score_block_tree
from gpuparse.inference.kernels.cpu.candidates import Candidates, grand_sibling_blocks
from gpuparse.inference.kernels.cpu.eisner_grand_sibling import eisner_grand_sibling_sentence


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
    score = score_block_tree(candidates, blocks, starts, has_grandparents, ends, n, heads)
    if not has_grandparents:
        blocks, starts = _under_all_heads(candidates, blocks, starts)
    projective = np.empty(n + 1, np.int64)
    if not eisner_grand_sibling_sentence(
        candidates, blocks, starts, ends, n, single_root, projective
    ):
        return
    if score <= min_gain + score_block_tree(candidates, blocks, starts, True, ends, n, projective):
        for m in range(1, n + 1):
            heads[m] = projective[m]
