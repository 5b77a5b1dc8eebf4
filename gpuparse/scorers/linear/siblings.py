"""Sibling and end scores of a batch as dense tensors: the public function and its torch form.

Parsing on the CPU never makes these tensors: `FactoredSiblings::score` in native/sibling_provider.h
computes the score of one sibling part, from sums over pairs of words that native/sibling_scores.h
computes for the sentence.
"""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import LINE, NO_CODE, NO_SIBLING, ArcPlan, Plan, SiblingPlan
from gpuparse.inference.backends import choose_engine, run_in_threads
from gpuparse.scorers.linear.arcs import TorchScorer
from gpuparse.scorers.linear.bags import bag_of, sum_bags
from gpuparse.scorers.linear.hashing import WORD, fold, mix
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.native import make_scorer, sentences_of
from gpuparse.scorers.sizes import ROWS_AT_ONCE
from gpuparse.scorers.tensors import AnyBatch, TensorBatch, as_arrays, as_tensors, device_of


def sibling_scores(
    batch: AnyBatch,
    plan: SiblingPlan,
    features: FeatureMap,
    weights: Weights,
    *,
    backend: str = "auto",
    rows_at_once: int = ROWS_AT_ONCE,
) -> tuple[Tensor, Tensor]:
    """Scores of all sibling parts and ends of all sentences.

    Args:
        batch: B sentences of at most N - 1 words, on the device that is to do the work.
        plan, features, weights: as in `gpuparse.scorers.linear.arcs.arc_scores`.
        backend: "cpu" (native code), "torch" (any device), or "auto".
        rows_at_once: feature rows that the torch form holds in memory at a time, at least.
    Returns: siblings (B, N, N, N): [b, h, m, s] is the modifier m of h with the inner sibling s,
        [b, h, m, h] without one; ends (B, N, N): [b, h, m] is m as the outermost modifier of h on
        its side, minus the score of the side without modifiers. float32 for learned weights,
        and for whole-number weights float64, exact and the same on every backend. Cells of no part
        hold nothing of use.
    Cost: families times n^2 gathers a sentence, and n^3 for each suffix of templates of three
    words.
    Source: McDonald & Pereira (2006), sections 2.2 and 5.
    """
    if choose_engine(backend, device_of(batch)) == "native":
        return _by_native(as_arrays(batch), plan, features, weights)
    return _torch(as_tensors(batch), plan, features, weights, rows_at_once)


def _by_native(
    batch: Batch, plan: SiblingPlan, features: FeatureMap, weights: Weights
) -> tuple[Tensor, Tensor]:
    nodes = batch.n_nodes
    dtype = np.float64 if weights.is_integer else np.float32
    out = np.zeros((len(batch), *[nodes] * 3), dtype)
    ends = np.zeros((len(batch), nodes, nodes), dtype)
    scorer = make_scorer(Plan(plan.pairs, plan), weights, features.rows)

    def score(part: slice) -> None:
        sentences = sentences_of(batch.select(part))
        native.call("score_siblings_batch", sentences, scorer, out[part], ends[part])

    run_in_threads(score, batch.lengths, 3, torch.get_num_threads())
    return torch.from_numpy(out), torch.from_numpy(ends)


def _torch(
    batch: TensorBatch, plan: SiblingPlan, features: FeatureMap, weights: Weights, rows_at_once: int
) -> tuple[Tensor, Tensor]:
    pairs = TorchScorer(batch, plan.pairs, features, weights, rows_at_once, lone_root=True)
    # [b, m, s]
    of_two = pairs.scores().transpose(1, 2)
    n_sentences, n_nodes, _ = of_two.shape
    nodes = torch.arange(n_nodes, device=of_two.device)
    n_looks = 2 * max(1, len(plan.triple))
    heads = torch.arange(n_sentences * n_nodes, device=of_two.device)
    chunks = [of_two.new_zeros(0, n_nodes, n_nodes)]
    for part in heads.split(max(1, rows_at_once // (n_nodes**2 * n_looks))):
        b, h = part // n_nodes, part % n_nodes
        none = torch.full_like(h, NO_SIBLING)
        # [G, N, N]  s(h, m, s) = pair(s, m) + triple(h, s, m), or alone(m) + triple(h, -, m)
        alone = pairs.chunk(b, none, pairs.combination[h]).unsqueeze(2)
        scores = torch.where(nodes == h.reshape(-1, 1, 1), alone, of_two[b])
        chunks.append(scores + _triples(batch, plan, features, weights, b, h).to(scores.dtype))
    siblings = torch.cat(chunks).reshape(n_sentences, n_nodes, n_nodes, n_nodes)
    of_ends = TorchScorer(batch, plan.ends, features, weights, rows_at_once)
    return siblings, _ends(of_ends, plan.ends)


def _ends(of_two: TorchScorer, plan: ArcPlan) -> Tensor:
    """(B, N, N) end scores, [b, h, m], less those of no modifier."""
    ends = of_two.scores()
    n_sentences, n_nodes, _ = ends.shape
    if n_sentences == 0:
        return ends
    nodes = torch.arange(n_nodes, device=ends.device)
    heads = torch.arange(n_sentences * n_nodes, device=ends.device)
    # Without a modifier there is a direction, and no distance: the first bucket.
    right, left = (
        of_two.chunk(
            heads // n_nodes,
            heads % n_nodes,
            torch.full_like(heads, c).unsqueeze(1).expand(-1, n_nodes),
        )[:, NO_SIBLING].reshape(n_sentences, n_nodes, 1)
        for c in (0, plan.n_buckets)
    )
    return ends - torch.where(nodes.unsqueeze(1) < nodes, right, left)


def _triples(
    batch: TensorBatch,
    plan: SiblingPlan,
    features: FeatureMap,
    weights: Weights,
    b: Tensor,
    h: Tensor,
) -> Tensor:
    """(G, N, N) sums of the triple families for head h[g] of sentence b[g], [g, m, s]."""
    places = batch.places()
    n_nodes, device = places.shape[1], places.device
    nodes = torch.arange(n_nodes)  # in main memory: nothing waits for the device
    combination = _combinations(plan, nodes.reshape(1, -1, 1) - nodes).to(device)
    has_none = nodes.to(device) == h.reshape(-1, 1, 1)
    codes = torch.from_numpy(plan.pairs.codes.astype(np.int64)).to(device)
    rows = []
    for family in plan.triple:
        # (B, N) places of the three roles, and whether there is a value
        head, sibling, modifier = (
            _role_places(batch, places, family, role) for role in range(len(_ROLES))
        )
        inner, inner_on = (
            torch.where(has_none, x[b, :1, None], x[b].unsqueeze(1)) for x in sibling
        )
        place = head[0][b, h].reshape(-1, 1, 1) ^ modifier[0][b].unsqueeze(2) ^ inner
        on = head[1][b, h].reshape(-1, 1, 1) & modifier[1][b].unsqueeze(2) & inner_on
        on = on & (place >= LINE)
        base = features.rows.dense + int(family["line"]) * LINE + place
        for table in (int(family["first_codes"]), int(family["second_codes"])):
            if table != NO_CODE:
                rows.append(torch.where(on, base ^ codes[table][combination], len(weights.array)))
    if not rows:
        return torch.zeros(1, device=device)
    bag = bag_of(weights, device, len(rows))
    return sum_bags(bag, torch.stack(rows, -1)).squeeze(-1)


_ROLES = ("head", "sibling", "modifier")


def _role_places(
    batch: TensorBatch, places: Tensor, family: np.void, role: int
) -> tuple[Tensor, Tensor]:
    """(B, N) what a role's value at each node adds to a cell, and whether there is a value."""
    value = batch.values[int(family[f"{_ROLES[role]}_row"])].long()[places]
    if family["is_hashed"]:
        key = mix(fold(torch.zeros_like(value), value), 3 * int(family["seed"]) + role)
        place = (key & WORD) * int(family["slots"]) & (int(family["cells"]) - 1)
    else:
        place = value << int(family[f"{_ROLES[role]}_shift"])
    return place, value != 0


def _combinations(plan: SiblingPlan, gap: Tensor) -> Tensor:
    """The combination of direction and distance of differences of positions, in main memory."""
    buckets = torch.from_numpy(plan.pairs.buckets)
    place = (gap.abs() - 1).clamp(0, len(buckets) - 1)
    return buckets[place] + plan.pairs.n_buckets * (gap < 0)
