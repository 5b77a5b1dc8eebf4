"""Sibling and end scores of a batch as dense tensors, in torch on any device.

Parsing on the CPU never makes these tensors: `FactoredSiblings::score` in native/sibling_provider.h
computes the score of one sibling part, from sums over pairs of words that native/sibling_scores.h
computes for the sentence.
"""

import torch
from torch import Tensor

from gpuparse.features.plan import NO_SIBLING, ArcPlan, SiblingPlan
from gpuparse.scorers.linear.arcs import TorchSums, by_heads, rows_held
from gpuparse.scorers.linear.embedding_bag import sum_rows
from gpuparse.scorers.linear.plan_tensors import kept_tables
from gpuparse.scorers.linear.rows import TripleRows, TripleTables
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import TensorBatch


def sibling_scores(
    batch: TensorBatch,
    plan: SiblingPlan,
    features: FeatureMap,
    weights: Weights,
    *,
    rows_at_once: int | None = None,
) -> tuple[Tensor, Tensor]:
    """Scores of all sibling parts and ends of all sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features, weights: as in `gpuparse.scorers.linear.arcs.arc_scores`.
        rows_at_once: feature rows that are held at a time, or those of one head.
    Returns: siblings (B, N, N, N): [b, h, m, s] is the modifier m of h with the inner sibling s,
        [b, h, m, h] without one; ends (B, N, N): [b, h, m] is m as the outermost modifier of h on
        its side, minus the score of the side without modifiers. float32 for learned weights,
        and for whole-number weights float64, exact and those of native code. Cells of no part
        hold nothing of use.
    Cost: families times n^2 gathers per sentence, and n^3 for each suffix of templates of three
    words.
    Source: McDonald & Pereira (2006), sections 2.2 and 5.
    """
    pairs = TorchSums(batch, plan.pairs, features, weights, rows_at_once, lone_root=True)
    # [b, h, m, s]  s(h, m, s) = pair(s, m) + triple(h, s, m), or alone(m) + triple(h, -, m)
    siblings = pairs.scores().transpose(1, 2).unsqueeze(1).repeat(1, batch.n_nodes, 1, 1)
    siblings.diagonal(dim1=1, dim2=3).copy_(pairs.scores(without_first=True).transpose(1, 2))
    if len(plan.triple):
        siblings += _triple_scores(batch, plan, features, weights, pairs, rows_at_once)
    of_ends = TorchSums(batch, plan.ends, features, weights, rows_at_once)
    return siblings, _ends(of_ends, plan.ends)


def _triple_scores(
    batch: TensorBatch,
    plan: SiblingPlan,
    features: FeatureMap,
    weights: Weights,
    pairs: TorchSums,
    rows_at_once: int | None,
) -> Tensor:
    """(B, N, N, N) the sums of templates of three words."""
    tables = kept_tables(weights, plan, batch.values.device, TripleTables)
    triples = TripleRows(batch, tables, features._replace(n_rows=len(weights.array)))
    nodes = torch.arange(batch.n_nodes, device=batch.values.device)
    m = nodes.unsqueeze(1)

    def of_heads(b: Tensor, h: Tensor) -> Tensor:
        # [G, m, s]
        inner = torch.where(nodes == h.unsqueeze(2), NO_SIBLING, nodes)
        combination = pairs.rows.combination(m - nodes)
        rows = triples.of(b.unsqueeze(2), h.unsqueeze(2), m, inner, combination)
        return sum_rows(weights, rows).squeeze(-1)

    held = rows_at_once or rows_held(nodes.device)
    at_once = max(1, held // (batch.n_nodes**2 * 2 * len(plan.triple)))
    return by_heads(len(batch), batch.n_nodes, nodes.device, at_once, of_heads)


def _ends(of_two: TorchSums, plan: ArcPlan) -> Tensor:
    """(B, N, N) end scores, [b, h, m], less those of no modifier."""
    ends = of_two.scores()
    n_sentences, n_nodes, _ = ends.shape
    nodes = torch.arange(n_nodes, device=ends.device)
    b = torch.arange(n_sentences, device=ends.device).unsqueeze(1)
    # Without a modifier there is a direction, and no distance: the first bucket.
    right, left = (
        of_two.of(b, nodes, torch.full_like(nodes, NO_SIBLING), torch.full_like(nodes, c))
        for c in (0, plan.n_buckets)
    )
    is_right = nodes.unsqueeze(1) < nodes
    return ends - torch.where(is_right, right.unsqueeze(2), left.unsqueeze(2))
