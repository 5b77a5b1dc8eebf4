"""Random trees, crossing arcs allowed, in torch: the sampler of native/matrix_tree_sample.h.

The trees of all sentences grow in lockstep: words are put back one by one, in the reverse order of
their elimination.
"""

import torch
from torch import Tensor

from gpuparse.inference.scores import word_mask
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.torch.charts import ABSENT
from gpuparse.inference.torch.matrix_tree import Step, eliminate, read_scores, shifts
from gpuparse.inference.torch.several_trees import draw, sums_of_shares


def random_spanning_trees(
    scores: Tensor, lengths: Tensor, n_samples: int, generator: torch.Generator | None, *,
    single_root: bool,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """Heads (B, n_samples, N) of random trees, and whether there are any (B,).

    Args: scores: float64 (B, N, N), checked. generator: on their device.
    Cost: O(n^3) time and memory once, and O(n^2 log n) for each tree.
    Source: native/matrix_tree_sample.h.
    """
    n_nodes = scores.shape[1]
    heads = lengths.new_full((len(lengths), n_samples, n_nodes), NO_HEAD)
    if len(scores) == 0 or n_nodes == 1:
        return heads, torch.ones_like(lengths, dtype=torch.bool)
    steps: list[Step] = []
    log_partition, _ = eliminate(scores, lengths, single_root, steps)
    ways = _ways(scores, lengths, single_root, steps)
    found = torch.zeros_like(heads)
    way = torch.zeros_like(heads)  # the word through which the arc into each word leads; 0: none
    for e, step in enumerate(reversed(steps), 1):
        passes = way[..., :e] == e
        head = _draw_heads(step, _cut_off(found[..., :e], passes), generator)
        # Of arcs into the words before e that lead through it, and of the one into e itself.
        new = draw(ways[:, e, :e], n_samples, generator).mT
        own = draw(ways[:, :e, e], n_samples, generator).mT.gather(2, head[..., None])
        found[..., :e] = torch.where(passes, e, found[..., :e])
        way[..., :e] = torch.where(passes, new, way[..., :e])
        found[..., e], way[..., e] = head, own[..., 0]
    is_word = word_mask(lengths, n_nodes)[:, None]
    return torch.where(is_word, found, heads), log_partition > -torch.inf


def _ways(scores: Tensor, lengths: Tensor, single_root: bool, steps: list[Step]) -> Tensor:
    """(B, N, N, N) [h, m, e] the shares of all words e that an arc may lead through, added up.

    e = 0 is the arc itself. Of the ways from the root those with the lowest power of t count.
    """
    scores, n_nodes = read_scores(scores, lengths), scores.shape[1]
    ways = scores.new_full((*scores.shape, n_nodes), -torch.inf)
    ways[..., 0] = scores - shifts(scores, single_root)[0]
    is_late = torch.zeros_like(ways[:, 0], dtype=torch.bool)
    is_late[..., 0] = single_root
    for e, step in enumerate(reversed(steps), 1):
        ways[:, :e, 1:e, e] = step.passed
        is_late[..., e] = step.passes_late[:, None]
    ways[:, 0] = _lowest(ways[:, 0], is_late)
    ways = ways.masked_fill(ways < ABSENT / 2, -torch.inf)
    return sums_of_shares(ways, ways.logsumexp(-1, keepdim=True))


def _draw_heads(step: Step, is_cut: Tensor, generator: torch.Generator | None) -> Tensor:
    """(B, T) the head of the word that is put back, of those that are not cut off (B, T, e)."""
    into = step.into[:, None].masked_fill(is_cut, -torch.inf)
    is_late = torch.zeros_like(is_cut)
    is_late[..., 0] = step.is_late[:, None]
    into = _lowest(into, is_late)
    return draw(sums_of_shares(into, into.logsumexp(-1, keepdim=True)), 1, generator)[..., 0]


def _lowest(weights: Tensor, is_late: Tensor) -> Tensor:
    """The logarithms (..., D) with the lowest power of t, -inf in place of others."""
    has_early = ((weights > ABSENT / 2) & ~is_late).any(-1, keepdim=True)
    return weights.masked_fill(is_late & has_early, -torch.inf)


def _cut_off(heads: Tensor, passes: Tensor) -> Tensor:
    """(B, T, e) whether a word, or one above it, has an arc that leads through the next word."""
    for _ in range(heads.shape[-1].bit_length()):
        passes = passes | passes.gather(-1, heads)
        heads = heads.gather(-1, heads)
    return passes
