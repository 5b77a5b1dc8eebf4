"""First-order Eisner: the public function, and the batched form in torch for any device."""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.charts.eisner import CHART
from gpuparse.inference import native_charts
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.batched.charts import best_trees
from gpuparse.inference.scores import check_scores, require_trees, tree_scores


def eisner(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool = False, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" (native) or "gpu" (Triton kernels); all give the same
            trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum of each tree's
        arcs in the order of the words. Charts add (left + right), then the arc; among equally good
        splits every span takes the smallest, a single root the smallest word.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^3) time, O(n^2) memory a sentence.
    Source: McDonald, Crammer & Pereira 2005, section 2.2 (Eisner 1996); single root: Carreras 2007,
    section 2.1.
    """
    search = _search_of(choose_backend(backend, arc_scores.device, has_kernels=True))
    checked = check_scores(arc_scores, lengths)
    heads, scores = search(checked.arc, checked.lengths, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_of(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The form of the search on checked scores."""
    if backend == "gpu":
        from gpuparse.inference.triton import eisner as kernels  # imports Triton

        return kernels.eisner
    return native_charts.find_best if backend == "cpu" else eisner_torch


def eisner_torch(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`eisner` on checked scores, all sentences and all starts of one width at once.

    Returns:
        As `eisner`; a sentence without a tree gets the score -inf.
    """
    heads, has_tree = best_trees(CHART, {"arc": arc_scores}, lengths, single_root=single_root)
    scores = tree_scores(arc_scores, heads, lengths)
    return heads, scores.masked_fill(~has_tree, -torch.inf)
