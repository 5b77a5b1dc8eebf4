"""Approximate marginals of second-order models with crossing arcs, by loopy belief propagation.

What it is for: exact marginals of non-projective trees exist for the first order alone (the
matrix-tree theorem). With scores of siblings or grandparents they are intractable, and these are an
approximation: to compare probabilities of arcs with those of the first order, and as a peer of dual
decomposition, which finds best trees and no marginals. No run config uses it.

The variables are the arcs. One factor reads all of them: it is 1 for trees and 0 for anything
else, and its messages come from the matrix-tree theorem. Each head has a factor for its modifiers
on either side, the chain of siblings with its end, whose messages come from sums forwards and
backwards. Each pair of an arc and the arc above it has a factor for the grandparent part.

A message to an arc is the log-odds of the arc in the factor, without the message from the arc to
that factor. Nothing is subtracted that could cancel.
"""

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.functional import softplus

from gpuparse.errors import ScoreError
from gpuparse.inference.higher_order_scores import check_parts
from gpuparse.inference.matrix_tree import matrix_tree_marginals
from gpuparse.inference.scores import Scores, read_cells, read_sibling_cells

TOLERANCE = 1e-6  # a sentence has converged whose marginals change by less in an iteration
STRONGEST = 500.0  # messages are cut off here, those of forbidden parts too


def loopy_belief_propagation(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    iterations: int = 50,
    damping: float = 0.3,
    single_root: bool = False,
) -> tuple[Tensor, Tensor]:
    """Approximate probability of every arc in trees drawn by exp(score of arcs and other parts).

    Exact where no two factors share two arcs, as without parts of two arcs; close where the scores
    of these are small beside those of arcs.

    Args:
        arc_scores, lengths: as `matrix_tree_marginals` reads them, in nats.
        sibling_scores, end_scores: as `eisner_sibling` reads them; None: zeros.
        grandparent_scores: (B, N, N, N), [b, h, m, g], g the head of h, 0 for h = 0; None: zeros.
        iterations: the most; a sentence stops when no marginal changes by 1e-6.
        damping: the weight of the old message in the new one, from 0 on, below 1.
        single_root: exactly one modifier of the root; otherwise one or more.
    Returns:
        marginals float64 (B, N, N), [b, h, m], those of the tree factor: each word's column sums to
        1, and with a single root so does row 0; 0 where no score is read. converged bool (B,).
    Raises:
        ScoreError: as `check_parts`; iterations or damping out of range.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) a sentence and iteration, in time and in memory.
    Source: Smith & Eisner 2008; differs: siblings are successive ones, in one factor for each head
    and side, as the head automata of Koo et al. 2010.
    """
    if iterations < 1:
        raise ScoreError(f"iterations is {iterations}, expected a number from 1 on")
    if not 0 <= damping < 1:
        raise ScoreError(f"damping is {damping}, expected a number from 0 on and below 1")
    parts = check_parts(
        arc_scores,
        lengths,
        {"sibling": sibling_scores, "grandparent": grandparent_scores, "end": end_scores},
        may_cross=True,
    )
    factors = _factors_of(parts)
    n_nodes = parts.arc.shape[1]
    arcs = parts.arc.double()
    marginals = matrix_tree_marginals(arcs, parts.lengths, single_root=single_root)
    if factors.is_trivial or n_nodes == 1:
        return marginals, torch.ones_like(parts.lengths, dtype=torch.bool)
    arcs = torch.where(factors.allowed, arcs, 0.0)
    messages = _no_messages(factors)
    converged = torch.zeros_like(parts.lengths, dtype=torch.bool)
    for _ in range(iterations):
        to_tree = arcs + messages.of_chains + messages.of_pairs()
        from_tree = torch.where(factors.allowed, _log_odds(marginals) - to_tree, 0.0)
        kept = 1.0 - damping
        heard = messages.moved(_messages(factors, arcs + _cut(from_tree), messages), kept)
        messages = heard.where(~converged, messages)
        to_tree = arcs + messages.of_chains + messages.of_pairs()
        scores = torch.where(factors.allowed, to_tree, -torch.inf)
        found = matrix_tree_marginals(scores, parts.lengths, single_root=single_root)
        moved = (found - marginals).abs().amax((1, 2))
        marginals = torch.where(converged[:, None, None], marginals, found)
        converged = converged | (moved < TOLERANCE)
        if bool(converged.all()):
            break
    return marginals, converged


@dataclass
class _Factors:
    """Scores in float64; what is not read is -inf in siblings, and 0 elsewhere.

    allowed: bool (B, N, N). siblings: (B, N, N, N), ends: (B, N, N), or None for no chains.
    grandparents: (B, N, N, N), is_pair: bool, the same shape, or None.
    """

    allowed: Tensor
    siblings: Tensor | None
    ends: Tensor | None
    grandparents: Tensor | None
    is_pair: Tensor | None

    @property
    def is_trivial(self) -> bool:
        return self.siblings is None and self.grandparents is None


@dataclass
class _Messages:
    """of_chains: (B, N, N), [b, h, m]. up, down: (B, N, N, N), [b, h, m, g], from the factor of
    g -> h and h -> m to either, or None."""

    of_chains: Tensor
    up: Tensor | None
    down: Tensor | None

    def of_pairs(self) -> Tensor:
        """What the factors of pairs tell each arc in all, (B, N, N)."""
        if self.up is None or self.down is None:
            return torch.zeros_like(self.of_chains)
        return self.up.sum(2).mT + self.down.sum(3)

    def moved(self, new: "_Messages", share: float) -> "_Messages":
        """These moved by that share towards the new ones."""
        of_chains = torch.lerp(self.of_chains, new.of_chains, share)
        if self.up is None or self.down is None or new.up is None or new.down is None:
            return _Messages(of_chains, None, None)
        up, down = torch.lerp(self.up, new.up, share), torch.lerp(self.down, new.down, share)
        return _Messages(of_chains, up, down)

    def where(self, which: Tensor, others: "_Messages") -> "_Messages":
        """These messages in the sentences `which` (B,), `others` in the remaining ones."""
        of_chains = torch.where(which[:, None, None], self.of_chains, others.of_chains)
        if self.up is None or self.down is None or others.up is None or others.down is None:
            return _Messages(of_chains, None, None)
        wide = which[:, None, None, None]
        up, down = torch.where(wide, self.up, others.up), torch.where(wide, self.down, others.down)
        return _Messages(of_chains, up, down)


def _factors_of(parts: Scores) -> _Factors:
    n_nodes = parts.arc.shape[1]
    allowed = read_cells(parts.lengths, n_nodes) & (parts.arc > -torch.inf)
    siblings, ends, grandparents, is_pair = None, None, None, None
    if parts.sibling is not None or parts.end is not None:
        given = parts.sibling
        if given is None:
            given = parts.arc.new_zeros(*parts.arc.shape, n_nodes)
        read = read_sibling_cells(parts.lengths, n_nodes) & allowed[..., None]
        siblings = given.double().masked_fill(~read, -torch.inf)
        ends = torch.zeros_like(parts.arc, dtype=torch.float64)
        if parts.end is not None:
            ends = parts.end.double().masked_fill(~allowed, 0.0)
    if parts.grandparent is not None:
        position = torch.arange(n_nodes, device=allowed.device)
        above = allowed.mT.clone()
        above[:, 0, 0] = True
        is_pair = allowed[..., None] & above[:, :, None] & (position != position[:, None])
        is_pair[:, 0] = allowed[:, 0, :, None] & (position == 0)
        grandparents = parts.grandparent.double().masked_fill(~is_pair, 0.0)
    return _Factors(allowed, siblings, ends, grandparents, is_pair)


def _no_messages(factors: _Factors) -> _Messages:
    of_chains = torch.zeros_like(factors.allowed, dtype=torch.float64)
    if factors.grandparents is None:
        return _Messages(of_chains, None, None)
    nothing = torch.zeros_like(factors.grandparents)
    return _Messages(of_chains, nothing, nothing)


def _messages(factors: _Factors, arcs: Tensor, old: _Messages) -> _Messages:
    """What all factors but the tree's say next.

    Args: arcs: (B, N, N), the arcs' scores and what the tree's factor tells them.
    """
    of_chains, of_pairs = old.of_chains, old.of_pairs()
    if factors.siblings is not None and factors.ends is not None:
        heard = torch.where(factors.allowed, arcs + of_pairs, -torch.inf)
        right = _of_chains(heard, factors.siblings, factors.ends)
        mirrored = [
            part.flip(*range(1, part.dim())) for part in (heard, factors.siblings, factors.ends)
        ]
        left = _of_chains(*mirrored).flip(1, 2)
        of_chains = torch.where(factors.allowed, _cut(right + left), 0.0)
    if factors.grandparents is None or factors.is_pair is None:
        return _Messages(of_chains, None, None)
    assert old.up is not None
    assert old.down is not None
    beliefs = arcs + old.of_chains + of_pairs
    from_below = beliefs[..., None] - old.down
    from_above = beliefs.mT[:, :, None] - old.up
    # The pseudo head of the root is always there.
    from_above[:, 0] = 2 * STRONGEST
    up = softplus(from_below + factors.grandparents) - softplus(from_below)
    down = softplus(from_above + factors.grandparents) - softplus(from_above)
    up = torch.where(factors.is_pair, _cut(up), 0.0)
    up[:, 0] = 0.0
    return _Messages(of_chains, up, torch.where(factors.is_pair, _cut(down), 0.0))


def _of_chains(arcs: Tensor, siblings: Tensor, ends: Tensor) -> Tensor:
    """Messages (B, N, N) to the arcs h -> m with h < m; 0 for other arcs.

    Args:
        arcs: (B, N, N), what the arcs tell, -inf if forbidden; siblings: (B, N, N, N), -inf where
            m and s do not follow each other in this order.
    """
    n_nodes = arcs.shape[1]
    position = torch.arange(n_nodes, device=arcs.device)
    is_right = position[:, None] < position
    siblings = siblings.masked_fill(~is_right[..., None], -torch.inf)
    # before[b, h, s]: sum over the modifiers up to s, which is one; s == h: none.
    # with_m[b, h, m]: the same before m, m being one, without what its arc tells.
    before = torch.full_like(arcs, -torch.inf)
    before[:, position, position] = 0.0
    with_m = torch.full_like(arcs, -torch.inf)
    for m in range(1, n_nodes):
        with_m[:, :m, m] = torch.logsumexp(before[:, :m] + siblings[:, :m, m], 2)
        before[:, :m, m] = with_m[:, :m, m] + arcs[:, :m, m]
    # beyond[b, h, s]: sum over the modifiers beyond s, which is one; s == h: all.
    # past[b, h, m, s]: the same if none of them is up to m.
    ended = ends.masked_fill(~is_right, -torch.inf)
    ended[:, position, position] = 0.0
    beyond = ended.clone()
    past = torch.full_like(siblings, -torch.inf)
    for m in range(n_nodes - 1, 0, -1):
        past[:, :, m] = beyond
        next_is_m = siblings[:, :, m] + (arcs[:, :, m] + beyond[:, :, m])[..., None]
        beyond = torch.where(position < m, torch.logaddexp(beyond, next_is_m), beyond)
        with_m[:, :, m] += beyond[:, :, m]
    is_inside = is_right.mT  # [m, s]: s stands before m
    without = (before[:, :, None] + past).masked_fill(~is_inside, -torch.inf)
    absent = torch.logsumexp(without, 3)
    return torch.where(is_right & (arcs > -torch.inf), with_m - absent, 0.0)


def _log_odds(marginals: Tensor) -> Tensor:
    """log p - log(1 - p), the latter from the probabilities of the other heads."""
    n_nodes = marginals.shape[1]
    zero = torch.zeros_like(marginals[:, :1])
    below = torch.cat([zero, marginals.cumsum(1)[:, :-1]], 1)
    above = torch.cat([marginals.flip(1).cumsum(1).flip(1)[:, 1:], zero], 1)
    others = (below + above)[:, :n_nodes]
    return _cut(marginals.log()) - _cut(others.log())


def _cut(messages: Tensor) -> Tensor:
    return messages.clamp(-STRONGEST, STRONGEST)
