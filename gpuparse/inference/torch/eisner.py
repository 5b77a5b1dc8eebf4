"""The best projective trees, of arcs and with sibling parts, in torch on any device: one, or k."""

import torch
from torch import Tensor

from gpuparse.inference.charts import eisner, eisner_sibling
from gpuparse.inference.charts.rules import Chart
from gpuparse.inference.scores import sibling_tree_scores, tree_scores
from gpuparse.inference.torch.chart_search import best_trees
from gpuparse.inference.torch.charts import Scores
from gpuparse.inference.torch.several_trees import k_best_trees


def eisner_torch(
    arc_scores: Tensor, lengths: Tensor, k: int | None = None, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`eisner`, or `eisner_kbest`, on checked scores: all sentences and starts of a width at once.
    Returns: As these; a sentence without a tree gets the score -inf.
    """
    heads, exists = _search(eisner.CHART, {"arc": arc_scores}, lengths, k, single_root)
    return heads, _never_rising(tree_scores(arc_scores, heads, lengths), exists)


def eisner_sibling_torch(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    end_scores: Tensor,
    lengths: Tensor,
    k: int | None = None,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:
    """`eisner_torch` for `eisner_sibling` and `eisner_sibling_kbest`."""
    parts = {"arc": arc_scores, "sib": sibling_scores, "end": end_scores}
    heads, exists = _search(eisner_sibling.CHART, parts, lengths, k, single_root)
    scores = sibling_tree_scores(arc_scores, sibling_scores, end_scores, heads, lengths)
    return heads, _never_rising(scores, exists)


def _search(
    chart: Chart, parts: Scores, lengths: Tensor, k: int | None, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Heads (B, N) or (B, k, N), and whether there are such trees."""
    if k is None:
        return best_trees(chart, parts, lengths, single_root=single_root)
    return k_best_trees(chart, parts, lengths, k, single_root=single_root)


def _never_rising(scores: Tensor, exists: Tensor) -> Tensor:
    """Scores (B,) or (B, k): rounding puts none above the one before."""
    scores = scores.cummin(1).values if scores.dim() == 2 else scores
    return scores.masked_fill(~exists, -torch.inf)
