"""Dual decomposition of non-projective trees with higher-order parts: the public functions."""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.approximate.hill_climb import gain_limit
from gpuparse.inference.engines import require_native
from gpuparse.inference.higher_order_scores import (
    SearchedTrees,
    check_label_scores,
    check_parts,
    search_native,
)
from gpuparse.inference.scores import Scores, device_of
from gpuparse.inference.search import MAX_ITERATIONS, classes_of_labels


def dual_decomposition(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    max_iterations: int = MAX_ITERATIONS,
    granularity: float | None = None,
    min_gain: float = 0.0,
    engine: str = "auto",
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """The best tree of every sentence of a batch, crossing arcs allowed, mostly with a certificate.

    Args:
        arc_scores, lengths: as `chu_liu_edmonds` reads them.
        sibling_scores, end_scores: as `eisner_sibling` reads them; None: zeros.
        grandparent_scores: (B, N, N, N), [b, h, m, g], g the head of h, 0 for h = 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g], with both contexts.
        single_root: exactly one modifier of the root; otherwise one or more.
        max_iterations: solutions of all sub-problems of a sentence.
        granularity: the scores of two trees are equal or differ by at least this much, so that a
            bound nearer than this to a tree's score certifies it. None: 1 where all scores of a
            sentence are whole, else 0: the bound must be reached but for rounding errors.
        min_gain: a tree with crossing arcs must score more, by more than this, than the best
            projective tree, which replaces it otherwise.
        engine: "auto" or "native"; there is no other form.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,): sums over
        words 1, 2, ..., n, of ((arc + sibling) + grandparent) +
        grand-sibling and the end; certified bool (B,): no tree scores more; iterations int64 (B,).
        Without a certificate it is the best tree met. Among equally good trees, the one met first.
    Raises:
        ScoreError: as `check_parts`; a limit or granularity that is none; an unknown
            engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts, or none
            was found within the iterations.
    Cost: an iteration takes O(n^2) and, for A arcs of which up to k lead from a head to one side,
    O(A k) times the heads of a word in models with grandparents. It branches where the bound does
    not close, so that only the number of iterations keeps it from being exact.
    Source: Koo, Rush, Collins, Jaakkola & Sontag 2010; differs: steps towards the best tree met
    (Polyak 1969), trees repaired by hill climbing, arcs barred by bounds, branches.
    """
    require_native("dual_decomposition", engine, device_of(arc_scores))
    given = {
        "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    parts = check_parts(arc_scores, lengths, given, may_cross=True)
    heads, _, *found = _search(
        parts, None, max_iterations, granularity, single_root=single_root,
        min_gain=gain_limit(min_gain),
    )  # fmt: skip
    return heads, *found


def dual_decomposition_labelled(
    arc_scores: Tensor,
    label_scores: Tensor,
    lengths: Tensor,
    *,
    limits: Sequence[Sequence[int] | set[int] | frozenset[int]],
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    max_iterations: int = MAX_ITERATIONS,
    granularity: float | None = None,
    min_gain: float = 0.0,
) -> SearchedTrees:
    """`dual_decomposition` with labels, and sets of labels that a head may give at most once.

    The limits are a further sub-problem: for each head, the best modifiers and labels that keep
    them. No tree is returned that breaks one; each tree met gets its best labels under the limits.

    Args:
        Arguments not named here: as in `dual_decomposition`.
        label_scores: (B, N, N, L), [b, h, m, l], added to the score of the arc; -inf forbids.
        limits: sets of labels, each of which a head may give to at most one modifier, at most
            `MOST_LIMITS`. A label may be in several sets.
        min_gain: the projective tree has the best labels that keep the limits; where another one
            may be better for them, nothing is certified.
    Returns: heads; labels int64 (B, N), -1 at position 0 and in padding: the first among equals;
        scores, labels' included; certified; iterations.
    Raises:
        ScoreError: as `dual_decomposition`; a label that does not exist; too many limits.
        NoTreeError: as `dual_decomposition`; no tree keeps the limits, or none was found.
    Cost: that of `dual_decomposition` and O(A L); an iteration takes O(A 2^K D) more, for K limits
    and D different sets of limits that labels are under.
    """
    require_native("dual_decomposition_labelled", "auto", device_of(arc_scores))
    given = {
        "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    parts = check_parts(arc_scores, lengths, given, may_cross=True)
    of_labels = check_label_scores(label_scores, parts)
    class_of, masks = classes_of_labels(limits, of_labels.shape[3])
    return _search(
        parts, of_labels, max_iterations, granularity, single_root=single_root,
        min_gain=gain_limit(min_gain), class_of=class_of, masks=masks,
    )  # fmt: skip


def _search(
    parts: Scores,
    label_scores: Tensor | None,
    max_iterations: int,
    granularity: float | None,
    **options: Any,
) -> SearchedTrees:
    """`search_native` on checked scores, all of whose sentences have a tree.

    Args: options: other fields of `Search`.
    """
    if max_iterations < 1:
        raise ScoreError(f"max_iterations is {max_iterations}, expected a number from 1 on")
    if granularity is not None and not 0 <= granularity < torch.inf:
        raise ScoreError(f"granularity is {granularity}, expected None or a number from 0 on")
    found = search_native(
        "dual_decomposition", parts, label_scores, max_iterations=max_iterations,
        granularity=-1.0 if granularity is None else float(granularity),  # below 0: by the scores
        **options,
    )  # fmt: skip
    missing = (found.scores == -torch.inf).nonzero()
    if len(missing):
        b = int(missing[0, 0])
        if found.certified[b]:
            what = "has no tree: too many of its parts are forbidden (-inf)"
        else:
            what = (
                f"shows no tree in {max_iterations} iterations, as many of its parts are forbidden"
                " (-inf); it may have one: raise max_iterations"
            )
        raise NoTreeError(f"sentence {b} of the batch {what}")
    return found
