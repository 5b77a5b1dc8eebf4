"""Graphs in which a word may have several heads, by single changes: the public function."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.inference.approximate.hill_climb import (
    ChangeLimits,
    change_limit,
    gain_limit,
    require_allowed,
    rows_of,
    starting_trees,
)
from gpuparse.inference.backends import require_native, run_in_threads
from gpuparse.inference.scores import NO_HEAD, Lengths, check_sibling_scores, rows_of_parts


def multi_parent(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    start: Tensor | None = None,
    max_changes: int | None = None,
    min_gain: float = 0.0,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """A good graph of every sentence of a batch, without cycles and with a head for every word.

    From the start on, the change is made that raises the score most, again and again, until none
    raises it: one head of a word is replaced by a word that is not yet its head, or such a word
    becomes a further head; no cycle may arise. The root is never an additional head and
    replaces only the head of a word that has no other. With a single root it replaces none.
    Siblings of an arc are taken among all modifiers of its head. Among equal gains the smallest
    modifier wins, then the smallest new head, then a replacement, of the smallest head.

    Args:
        arc_scores, sibling_scores, lengths, end_scores: as `eisner_sibling` reads them, in main
            memory.
        start: heads int (B, N) of trees without forbidden parts; None: the best projective trees,
            as in the paper, whose change of figure 4 leaves the first line as it is.
        max_changes: most changes of a sentence; None: no limit.
        min_gain: a change is made only if it raises the score by more than this, at least 0.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto" or "cpu" (native); there is no other form.
    Returns:
        arcs bool (B, N, N), [b, h, m]; scores (B,), the sum of arc and sibling score of all arcs,
        added one by one, by modifier and then by head. No score is below that of its start.
    Raises:
        ScoreError, NoTreeError: as `hill_climb`.
    Cost: that of `eisner_sibling` without a start, then O(n^2) for each change, and O(n^2) for each
    of the few changes that have to be tested for cycles.
    Source: McDonald & Pereira 2006, section 3; differs: end scores, and a least gain.
    """
    require_native("multi_parent", backend, arc_scores.device)
    limits = ChangeLimits(single_root, change_limit(max_changes), gain_limit(min_gain))
    checked = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    heads = starting_trees(*checked, start=start, single_root=single_root)
    arcs, ends, words = checked[0].numpy(), checked[2].numpy(), checked[3].numpy()
    n_nodes, siblings, trees = arcs.shape[1], rows_of_parts(checked[1]), heads.numpy()
    graphs, totals = np.empty(arcs.shape, np.bool_), np.empty(len(arcs), arcs.dtype)

    def climb(part: slice) -> None:
        native.call(
            "multi_parent_batch", arcs[part], siblings[rows_of(part, n_nodes)], ends[part],
            words[part], limits, trees[part], graphs[part], totals[part],
        )  # fmt: skip

    run_in_threads(climb, words, 3, torch.get_num_threads())
    require_allowed(totals)
    return torch.from_numpy(graphs), torch.from_numpy(totals)


def primary_heads(arcs: Tensor) -> Tensor:
    """One head of every word of graphs: the nearest, the left one of two as near.

    The arcs chosen form a tree where the graph has no cycle and every word a head.

    Args:
        arcs: bool (B, N, N), [b, h, m], False in padding.
    Returns:
        heads int64 (B, N), -1 at position 0, in padding, and for a word without a head.
    Cost: O(n^2) a sentence.
    """
    nodes = torch.arange(arcs.shape[1], device=arcs.device)
    gap = nodes.unsqueeze(1) - nodes
    order = 2 * gap.abs() + (gap > 0)
    heads = order.masked_fill(~arcs, 2 * len(nodes)).argmin(dim=1)
    return torch.where(arcs.any(dim=1), heads, NO_HEAD)
