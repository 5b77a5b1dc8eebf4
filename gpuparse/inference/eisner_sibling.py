"""Eisner with sibling parts: the public function, and the batched form in torch for any device."""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.charts.eisner_sibling import CHART
from gpuparse.inference import native_charts
from gpuparse.inference.backends import choose_backend
from gpuparse.inference.batched.charts import best_trees
from gpuparse.inference.scores import (
    check_sibling_scores,
    require_trees,
    sibling_tree_scores,
)


def eisner_sibling(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch, under scores of arcs and siblings.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        sibling_scores: (B, N, N, N), [b, h, m, s]: s is the modifier of h just inside m on the same
            side; s == h: there is none. Only h < s < m, m < s < h and s == h are read.
        lengths: words of each sentence, int (B,), 0..N-1.
        end_scores: (B, N, N), [b, h, m]: m is the outermost modifier of h on its side, read like
            arc_scores; None: zeros. A side without modifiers scores 0.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" (native) or "gpu" (Triton kernels); all give the same
            trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum of arc, sibling
        and end score of each word, added one by one in the order of the words. Ties and the order
        of additions in the charts: as `gpuparse.charts.eisner_sibling` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^3) time; native code takes O(n^2) memory a sentence beside the scores.
    Source: McDonald & Pereira 2006, sections 2.1 and 2.2 and figure 3 (Eisner 1996); single root:
    Carreras 2007, section 2.1; differs: arc scores are kept apart and added, and a modifier may
    have a score for being the last one.
    """
    search = _search_of(choose_backend(backend, arc_scores.device, has_kernels=True))
    checked = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    heads, scores = search(*checked, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_of(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The form of the search on checked scores."""
    if backend == "gpu":
        from gpuparse.inference.triton import eisner_sibling as kernels  # imports Triton

        return kernels.eisner_sibling
    return native_charts.find_best if backend == "cpu" else eisner_sibling_torch


def eisner_sibling_torch(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    end_scores: Tensor,
    lengths: Tensor,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:
    """`eisner_sibling` on checked scores, all sentences and all starts of one width at once.

    Returns:
        As `eisner_sibling`; a sentence without a tree gets the score -inf.
    """
    parts = {"arc": arc_scores, "sib": sibling_scores, "end": end_scores}
    heads, has_tree = best_trees(CHART, parts, lengths, single_root=single_root)
    scores = sibling_tree_scores(arc_scores, sibling_scores, end_scores, heads, lengths)
    return heads, scores.masked_fill(~has_tree, -torch.inf)
