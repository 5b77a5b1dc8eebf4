"""Second-order trees, and graphs with several heads per word, by single changes of arcs.

The search is in native/hill_climb.h and native/multi_parent.h; the readable forms are `hill_climb`
and `multi_parent` of inference/textbook/spanning_trees.py.
"""

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.engines import require_native, run_in_threads
from gpuparse.inference.native_trees import NativeScores, find_best
from gpuparse.inference.scores import (
    Lengths,
    check_arcs,
    check_sibling_scores,
    device_of,
    word_mask,
)
from gpuparse.inference.search import NO_HEAD, ChangeLimits
from gpuparse.inference.support import TreeKind


def hill_climb(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    start: Tensor | None = None,
    max_changes: int | None = None,
    min_gain: float = 0.0,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """A good tree of every sentence of a batch, crossing arcs allowed; not always the best one.

    From the start on, the one change of head is made that raises the score most among those that
    keep a tree, again and again, until none raises it by more than min_gain. Among equal gains the
    smallest modifier wins, then the smallest new head. With a single root no change can move the
    root's only modifier, for on the way there would be two or none: it stays that of the start.

    Args:
        arc_scores, sibling_scores, lengths, end_scores: as `eisner_sibling` reads them, in main
            memory.
        start: heads int (B, N) of trees without forbidden parts, such as the best first-order ones;
            None: the best projective trees under all scores. Position 0 and padding are not read.
        max_changes: most changes of a sentence; None: no limit.
        min_gain: a change is made only if it raises the score by more than this, at least 0.
        single_root: exactly one modifier of the root; otherwise one or more.
        engine: "auto" or "native"; there is no other form.
    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), as from
        `eisner_sibling`; the number of changes int64 (B,). No score is below that of its start.
        Gains are differences of floats, so a change is made only if the sum of the whole tree rises
        too.
    Raises:
        ScoreError: as `eisner_sibling`; tensors on another device; a start that is no tree, has
            several modifiers of the root under single_root, or a forbidden part; a negative limit.
        NoTreeError: no start is given, and a sentence has no projective tree.
    Cost: that of `eisner_sibling` without a start, then O(n^2) and O(n^2) for each change.
    Source: McDonald & Pereira 2006, section 2.3 and figure 4; differs: end scores, and a least gain
    as in Bohnet (2010).
    """
    require_native("hill_climb", engine, device_of(arc_scores))
    limits = _limits(single_root, max_changes, min_gain)
    parts = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    heads = starting_trees(*parts, start=start, single_root=single_root)
    totals, changes = np.empty(len(heads)), np.empty(len(heads), np.int64)
    _climb("hill_climb_batch", 2, parts, limits, heads.numpy(), totals, changes)
    require_allowed(totals)
    return heads, torch.from_numpy(totals), torch.from_numpy(changes)


def _climb(
    name: str, power: int, parts: Sequence[Tensor], limits: ChangeLimits, *results: np.ndarray
) -> None:
    """Call a native search on checked scores and lengths; results: heads and what it writes.

    Args: power: a sentence of n words costs about n ** power operations.
    """
    *scores, lengths = parts
    batch = NativeScores("eisner_sibling", lengths, tuple(scores))

    def climb(part: slice) -> None:
        native.call(name, *batch.slices(part), limits, *(result[part] for result in results))

    run_in_threads(climb, batch.lengths, power, torch.get_num_threads())


def starting_trees(*parts: Tensor, start: Tensor | None, single_root: bool) -> Tensor:
    """The trees to start from, int64 (B, N), in new memory.

    Args:
        parts: scores of arcs, or of arcs, siblings and ends; and lengths; all checked.
        start, single_root: as in `hill_climb`.
    Raises: ScoreError, NoTreeError: as `hill_climb`.
    """
    arc_scores, *others, lengths = parts
    if start is None:
        decoder = "eisner_sibling" if others else "eisner"
        return find_best(decoder, lengths, arc_scores, *others, single_root=single_root)[0]
    if start.shape != arc_scores.shape[:2]:
        expected = tuple(arc_scores.shape[:2])
        raise ScoreError(f"start has shape {tuple(start.shape)}, expected {expected}, (B, N)")
    if start.is_floating_point() or start.is_complex() or start.dtype == torch.bool:
        raise ScoreError(f"start has type {start.dtype}, expected integers")
    heads = start.detach().to("cpu", torch.int64, copy=True).contiguous()
    kind = TreeKind(lengths, is_projective=False, single_root=single_root)
    wrong = kind.find_wrong(heads).nonzero()
    if len(wrong):
        root = " with a single modifier of the root" if single_root else ""
        raise ScoreError(f"the start of sentence {int(wrong[0, 0])} is no tree{root}")
    heads[~word_mask(lengths, heads.shape[1])] = NO_HEAD
    return heads


def _limits(single_root: bool, max_changes: int | None, min_gain: float) -> ChangeLimits:
    """As native code takes them: -1 for no limit of changes."""
    if max_changes is not None and max_changes < 0:
        raise ScoreError(f"max_changes is {max_changes}, expected None or a number from 0 on")
    return ChangeLimits(
        single_root, -1 if max_changes is None else max_changes, gain_limit(min_gain)
    )


def gain_limit(min_gain: float) -> float:
    """Raise ScoreError unless changes with more than this gain all raise the score."""
    if not 0 <= min_gain < np.inf:
        raise ScoreError(f"min_gain is {min_gain}, expected a number from 0 on")
    return float(min_gain)


def require_allowed(scores: np.ndarray) -> None:
    """Raise ScoreError for the first sentence whose score is -inf."""
    forbidden = np.flatnonzero(scores == -np.inf)
    if len(forbidden):
        raise ScoreError(f"the start of sentence {forbidden[0]} has a forbidden part (-inf)")


def multi_parent(
    arc_scores: Tensor,
    sibling_scores: Tensor | None,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    start: Tensor | None = None,
    max_changes: int | None = None,
    min_gain: float = 0.0,
    single_root: bool = False,
    engine: str = "auto",
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
            memory; None for sibling_scores: arcs alone have scores.
        start: heads int (B, N) of trees without forbidden parts; None: the best projective trees,
            as in the paper, whose change of figure 4 leaves the first line as it is.
        max_changes, min_gain, single_root, engine: as in `hill_climb`.
    Returns: arcs bool (B, N, N), [b, h, m]; scores float64 (B,), the sum of arc and sibling score
        of all arcs, added one by one, by modifier and then by head. No score is below that of its
        start.
    Raises: ScoreError, NoTreeError: as `hill_climb`.
    Cost: that of `eisner_sibling` without a start, then O(n^2) for each change, and O(n^2) for each
    of the few changes that have to be tested for cycles.
    Source: McDonald & Pereira 2006, section 3; differs: end scores, and a least gain.
    """
    require_native("multi_parent", engine, device_of(arc_scores))
    limits = _limits(single_root, max_changes, min_gain)
    parts: tuple[Tensor, ...]
    if sibling_scores is not None:
        parts = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    elif end_scores is None:
        parts = check_arcs(arc_scores, lengths)
    else:
        raise ScoreError("end_scores is given without sibling_scores: give both, or neither")
    heads = starting_trees(*parts, start=start, single_root=single_root)
    graphs, totals = np.empty(parts[0].shape, np.bool_), np.empty(len(heads))
    _climb("multi_parent_batch", 3, parts, limits, heads.numpy(), graphs, totals)
    require_allowed(totals)
    return torch.from_numpy(graphs), torch.from_numpy(totals)


def primary_heads(arcs: Tensor) -> Tensor:
    """One head of every word of graphs: the nearest, the left one of two as near.

    The arcs chosen form a tree where the graph has no cycle and every word a head.

    Args: arcs: bool (B, N, N), [b, h, m], False in padding.
    Returns: heads int64 (B, N), -1 at position 0, in padding, and for a word without a head.
    Cost: O(n^2) per sentence.
    """
    nodes = torch.arange(arcs.shape[1], device=arcs.device)
    gap = nodes.unsqueeze(1) - nodes
    order = 2 * gap.abs() + (gap > 0)
    heads = order.masked_fill(~arcs, 2 * len(nodes)).argmin(dim=1)
    return torch.where(arcs.any(dim=1), heads, NO_HEAD)
