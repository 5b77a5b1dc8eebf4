"""Marginals of labels, and trees of minimum Bayes risk, found from the marginals of arcs."""

from typing import Literal

import torch
from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.best_trees import chu_liu_edmonds, eisner
from gpuparse.inference.scores import require_tensor


def arc_scores_of_labels(label_scores: Tensor) -> Tensor:
    """Arc scores under which a tree weighs as much as all its labellings together.

    Args:
        label_scores: score of head h -> modifier m with the label l, (B, N, N, L), L >= 1;
            -inf forbids.
    Returns: float64 (B, N, N), the logarithm of the sum of exp over labels; -inf, with a gradient
        of 0, where all are forbidden. Differentiable.
    Raises: ScoreError: not four dimensions, or no label.
    Cost: O(B N^2 L).
    Source: the labels of different arcs are independent given the tree.
    """
    require_tensor(label_scores, "label_scores")
    if label_scores.dim() != 4 or label_scores.shape[3] == 0:
        shape = tuple(label_scores.shape)
        raise ScoreError(f"label_scores has shape {shape}, expected (B, N, N, L) with labels")
    scores = label_scores.to(torch.float64)
    # What is never read may be NaN, and stays so; but its gradient is 0.
    is_nan = scores.isnan()
    scores = torch.where(is_nan, 0.0, scores)
    top = scores.detach().amax(3, keepdim=True)
    top = top.masked_fill(top == -torch.inf, 0.0)
    total = (scores - top).exp().sum(3)
    is_possible = total > 0
    log_total = top[..., 0] + torch.where(is_possible, total, 1.0).log()
    log_total = torch.where(is_possible, log_total, -torch.inf)
    return log_total.masked_fill(is_nan.any(3), torch.nan)


def label_marginals(arc_marginals: Tensor, label_scores: Tensor) -> Tensor:
    """Probability of every arc with every label.

    Args:
        arc_marginals: (B, N, N), under arc scores to which `arc_scores_of_labels(label_scores)` was
            added.
        label_scores: (B, N, N, L), as in `arc_scores_of_labels`.
    Returns: float64 (B, N, N, L): sums over labels are the arc marginals; 0 where an arc's is 0,
        for any label scores. Differentiable in both.
    Raises: ScoreError: shapes that do not fit.
    Cost: O(B N^2 L).
    Source: p(arc, label) = p(arc) softmax(label scores of the arc).
    """
    require_tensor(arc_marginals, "arc_marginals")
    require_tensor(label_scores, "label_scores")
    if label_scores.dim() != 4 or label_scores.shape[:3] != arc_marginals.shape:
        raise ScoreError(
            f"label_scores has shape {tuple(label_scores.shape)}, expected those of "
            f"arc_marginals, {tuple(arc_marginals.shape)}, and the number of labels"
        )
    # Arcs of no probability may have labels that are all forbidden, or not numbers at all.
    is_possible = (arc_marginals != 0)[..., None]
    scores = torch.where(is_possible, label_scores.to(torch.float64), 0.0)
    return arc_marginals.to(torch.float64)[..., None] * scores.softmax(3)


SEARCHES = {"eisner": eisner, "chu_liu_edmonds": chu_liu_edmonds}


def minimum_bayes_risk(
    marginals: Tensor,
    lengths: Tensor,
    *,
    decoder: Literal["eisner", "chu_liu_edmonds"],
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The tree with the highest sum of marginals: that with the fewest wrong heads to expect.

    Args:
        marginals: probability of head h -> modifier m, (B, N, N). A probability of 0 forbids
            nothing; -inf does, and should stand where an arc is forbidden.
        decoder: "eisner" for projective trees, "chu_liu_edmonds" for any.
        lengths, single_root, engine: as the decoder takes them.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; expected number of right heads,
        float64 (B,). Ties: as the decoder's.
    Raises:
        ScoreError: an unknown decoder, or what the decoder does not accept.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: that of the decoder.
    Source: Smith & Smith 2007, section 4.2; Goodman 1996 for the idea.
    """
    if decoder not in SEARCHES:
        raise ScoreError(f"unknown decoder {decoder!r}: expected one of {', '.join(SEARCHES)}")
    require_tensor(marginals, "marginals")
    scores = marginals.detach().double()
    return SEARCHES[decoder](scores, lengths, single_root=single_root, engine=engine)
