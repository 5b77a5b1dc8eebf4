"""The best projective trees, of arcs and with sibling parts, in torch on any device: one, or k."""

import torch
from torch import Tensor

from gpuparse.inference.charts import eisner, eisner_sibling
from gpuparse.inference.scores import sibling_tree_scores, tree_scores
from gpuparse.inference.torch.chart_search import best_trees
from gpuparse.inference.torch.several_trees import k_best_trees


def eisner_torch(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`eisner` on checked scores, all sentences and all starts of one width at once.
    Returns: As `eisner`; a sentence without a tree gets the score -inf.
    """
    parts = {"arc": arc_scores}
    heads, has_tree = best_trees(eisner.CHART, parts, lengths, single_root=single_root)
    scores = tree_scores(arc_scores, heads, lengths)
    return heads, scores.masked_fill(~has_tree, -torch.inf)


def eisner_sibling_torch(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    end_scores: Tensor,
    lengths: Tensor,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:
    """`eisner_sibling` on checked scores, all sentences and all starts of one width at once.
    Returns: As `eisner_sibling`; a sentence without a tree gets the score -inf.
    """
    parts = {"arc": arc_scores, "sib": sibling_scores, "end": end_scores}
    heads, has_tree = best_trees(eisner_sibling.CHART, parts, lengths, single_root=single_root)
    scores = sibling_tree_scores(arc_scores, sibling_scores, end_scores, heads, lengths)
    return heads, scores.masked_fill(~has_tree, -torch.inf)


def eisner_kbest_torch(
    arc_scores: Tensor, lengths: Tensor, k: int, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`eisner_kbest` on checked scores, all sentences and all starts of one width at once.
    Returns: As `eisner_kbest`; a sentence without a tree gets scores of -inf.
    """
    parts = {"arc": arc_scores}
    heads, exists = k_best_trees(eisner.CHART, parts, lengths, k, single_root=single_root)
    scores = tree_scores(arc_scores, heads, lengths)
    return heads, scores.cummin(1).values.masked_fill(~exists, -torch.inf)


def eisner_sibling_kbest_torch(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    end_scores: Tensor,
    lengths: Tensor,
    k: int,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:
    """`eisner_sibling_kbest` on checked scores, all sentences and all starts of one width at once.
    Returns: As `eisner_sibling_kbest`; a sentence without a tree gets scores of -inf.
    """
    parts = {"arc": arc_scores, "sib": sibling_scores, "end": end_scores}
    heads, exists = k_best_trees(eisner_sibling.CHART, parts, lengths, k, single_root=single_root)
    scores = sibling_tree_scores(arc_scores, sibling_scores, end_scores, heads, lengths)
    return heads, scores.cummin(1).values.masked_fill(~exists, -torch.inf)
