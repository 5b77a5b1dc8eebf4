"""Dense scores of larger parts, gathered into the blocks that compiled searches read.

Scores that were not given are arrays without elements, and count as 0.
"""

import numpy as np
import torch

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.candidates import Candidates


def given_or_empty(scores: torch.Tensor | None, arcs: np.ndarray, n_axes: int) -> np.ndarray:
    """Scores of a batch as an array; without elements, but with all sentences, if not given."""
    if scores is not None:
        return scores.numpy()
    return np.empty((len(arcs), *[0] * (n_axes - 1)), arcs.dtype)


@compiled
def gather_ends(candidates: Candidates, end_scores: np.ndarray) -> np.ndarray:
    """The end of every arc, (A,); end_scores (N, N)."""
    head, modifier = candidates.head, candidates.modifier
    ends = np.zeros(len(head), end_scores.dtype)
    for a in range(1, len(head)):
        ends[a] = end_scores[head[a], modifier[a]]
    return ends


@compiled
def gather_grand_siblings(
    candidates: Candidates,
    starts: np.ndarray,
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    grandparent_scores: np.ndarray,
    grand_sibling_scores: np.ndarray,
) -> np.ndarray:
    """Blocks of ((arc + sibling) + grandparent) + grand-sibling; see `grand_sibling_blocks`.

    Args: of one sentence: starts (A + 1,); arc_scores (N, N), sibling_scores (N, N, N), and those
    of grandparents (N, N, N) and grand-siblings (N, N, N, N).
    """
    head, modifier, first = candidates.head, candidates.modifier, candidates.first
    side, beyond, rank = candidates.side, candidates.beyond, candidates.rank
    blocks = np.empty(starts[len(head)], arc_scores.dtype)
    for a in range(1, len(head)):
        h, m = head[a], modifier[a]
        d = 0 if h < m else 1
        at = starts[a]
        for j in range(rank[a] + 1):
            s = beyond[d, side[d, h] + j - 1] if j > 0 else h
            score = arc_scores[h, m]
            score += sibling_scores[h, m, s]
            begin, end = first[h], first[h + 1]
            for p in range(begin, end):
                blocks[np.uint64(at + p - begin)] = score
            if len(grandparent_scores) > 0:
                for p in range(begin, end):
                    blocks[np.uint64(at + p - begin)] += grandparent_scores[h, m, head[p]]
            if len(grand_sibling_scores) > 0:
                for p in range(begin, end):
                    blocks[np.uint64(at + p - begin)] += grand_sibling_scores[h, m, s, head[p]]
            at += end - begin
    return blocks


@compiled
def gather_outermost(
    candidates: Candidates, starts: np.ndarray, outermost_scores: np.ndarray
) -> np.ndarray:
    """Blocks of outermost grand-sibling parts of one sentence."""
    head, modifier, first = candidates.head, candidates.modifier, candidates.first
    side, beyond, rank = candidates.side, candidates.beyond, candidates.rank
    blocks = np.zeros(starts[len(head)], outermost_scores.dtype)
    if len(outermost_scores) == 0:
        return blocks
    for a in range(1, len(head)):
        h, m = head[a], modifier[a]
        d = 0 if h < m else 1
        at = starts[a]
        for j in range(rank[a] + 1):
            s = beyond[d, side[d, h] + j - 1] if j > 0 else h
            for p in range(first[h], first[h + 1]):
                blocks[np.uint64(at + p - first[h])] = outermost_scores[h, m, s, head[p]]
            at += first[h + 1] - first[h]
    return blocks


@compiled
def gather_tri_siblings(
    candidates: Candidates,
    starts: np.ndarray,
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    tri_sibling_scores: np.ndarray,
) -> np.ndarray:
    """Blocks of (arc + sibling) + tri-sibling of one sentence; see `tri_sibling_blocks`."""
    head, modifier = candidates.head, candidates.modifier
    side, beyond, rank = candidates.side, candidates.beyond, candidates.rank
    blocks = np.empty(starts[len(head)], arc_scores.dtype)
    for a in range(1, len(head)):
        h, m = head[a], modifier[a]
        d = 0 if h < m else 1
        at = starts[a]
        for j in range(rank[a] + 1):
            s = beyond[d, side[d, h] + j - 1] if j > 0 else h
            score = arc_scores[h, m]
            score += sibling_scores[h, m, s]
            for k in range(max(j, 1)):
                blocks[np.uint64(at)] = score
                if len(tri_sibling_scores) > 0:
                    t = beyond[d, side[d, h] + k - 1] if k > 0 else h
                    blocks[np.uint64(at)] += tri_sibling_scores[h, m, s, t]
                at += 1
    return blocks
