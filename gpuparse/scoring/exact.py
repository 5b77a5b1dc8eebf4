"""The best trees of a model by integer programs, sentence by sentence: exact and slow."""

import numpy as np
import torch

from gpuparse.inference.integer_program import integer_program
from gpuparse.inference.kernels.cpu.block_trees import score_block_tree
from gpuparse.inference.kernels.cpu.candidates import Candidates
from gpuparse.inference.kernels.cpu.prefer_projective import prefer_projective

CrossingParts = tuple[Candidates, np.ndarray, np.ndarray, bool, np.ndarray]
"""Candidates, blocks of their parts and where these begin, whether there are grandparents, ends."""


def best_tree(
    parts: CrossingParts, n: int, *, single_root: bool, min_gain: float = 0.0
) -> np.ndarray:
    """(N,) int64 heads of the best tree over the candidates, -1 at the root.

    Args:
        parts: of `gpuparse.inference.kernels.cpu.search_larger.crossing_parts`.
        n: words.
        min_gain: see `prefer_projective`.
    Raises:
        NoTreeError: no tree is left. ConfigError: scipy is not installed.
    Cost: as `integer_program`.
    """
    candidates, blocks, starts, has_grandparents, ends = parts
    n_nodes = n + 1
    arcs, last = np.full((n_nodes, n_nodes), -np.inf), np.zeros((n_nodes, n_nodes))
    larger = np.full((n_nodes, n_nodes, n_nodes, n_nodes if has_grandparents else 1), -np.inf)
    for a in range(1, len(candidates.head)):
        h, m = int(candidates.head[a]), int(candidates.modifier[a])
        arcs[h, m], last[h, m] = 0.0, ends[a]
        heads = [0]
        if has_grandparents:
            heads = candidates.head[candidates.first[h] : candidates.first[h + 1]].tolist()
        side = 0 if h < m else 1
        first = candidates.side[side, h]
        inner = candidates.beyond[side, first : first + candidates.rank[a]].tolist()
        block = blocks[starts[a] : starts[a + 1]].reshape(len(inner) + 1, len(heads))
        larger[h, m, np.array([h, *inner])[:, None], np.array(heads)] = block
    of_two = None if has_grandparents else torch.from_numpy(larger[None, ..., 0])
    found, _, _ = integer_program(
        torch.from_numpy(arcs)[None], of_two, torch.tensor([n]),
        end_scores=torch.from_numpy(last)[None],
        grand_sibling_scores=torch.from_numpy(larger)[None] if has_grandparents else None,
        single_root=single_root,
    )  # fmt: skip
    tree = found[0].numpy()
    prefer_projective(*parts, n, single_root, min_gain, tree)
    return tree


def tree_score(parts: CrossingParts, n: int, heads: np.ndarray) -> float:
    """The score of a tree, heads[1 : n + 1], of candidates alone."""
    candidates, blocks, starts, has_grandparents, ends = parts
    if (candidates.number[heads[1:], np.arange(1, n + 1)] < 0).any():
        return -np.inf
    return score_block_tree(candidates, blocks, starts, has_grandparents, ends, n, heads)
