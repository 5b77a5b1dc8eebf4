"""Best projective trees beyond the second order: the public functions."""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.inference.backends import WORTH_A_THREAD, choose_backend, run_in_threads
from gpuparse.inference.batched.grand_sibling import eisner_grand_sibling_torch
from gpuparse.inference.batched.grandchild import eisner_grandchild_torch
from gpuparse.inference.batched.tri_sibling import eisner_tri_sibling_torch
from gpuparse.inference.grandchild_scores import check_grandchild_scores
from gpuparse.inference.higher_order_scores import Parts, check_parts, native_scores
from gpuparse.inference.scores import require_trees


def eisner_grand_sibling(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under parts of a head, its head and two modifiers.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids, here as in all scores,
            and forbidden arcs cost no time. Column 0, the diagonal and padding are never read.
            Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        sibling_scores: (B, N, N, N), [b, h, m, s]: s is the modifier of h just inside m on the same
            side; s == h: there is none. Only h < s < m, m < s < h and s == h are read.
        grandparent_scores: (B, N, N, N), [b, h, m, g]: g is the head of h. Only g outside the span
            of h and m is read, and for h == 0 only g == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g], read where both are.
        end_scores: (B, N, N), [b, h, m]: m is the outermost modifier of h on its side. A side
            without modifiers scores 0. None, of these and the three before: zeros.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu" (compiled); both give the same trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum over words 1..n of
        ((arc + sibling) + grandparent) + grand-sibling score, and then the end's, one by one. Ties
        and the order of additions in the charts: as `gpuparse.charts.grand_sibling` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^4) time; compiled, O(n^3) memory a sentence, and O(n^4) for the parts; with k heads a
    word left, and as many modifiers, O(n k^3 + n^2 k^2).
    Source: Koo & Collins 2010, Model 1; single root: Carreras 2007, section 2.1;
    differs: arcs, siblings and grandparents have scores of their own, an outermost modifier too.
    """
    chosen = choose_backend(backend, arc_scores.device)
    parts = check_parts(
        arc_scores,
        lengths,
        sibling_scores=sibling_scores,
        grandparent_scores=grandparent_scores,
        grand_sibling_scores=grand_sibling_scores,
        end_scores=end_scores,
    )
    if chosen == "cpu":
        heads, scores = _search_native("eisner_grand_sibling_batch", parts, single_root)
    else:
        heads, scores = eisner_grand_sibling_torch(parts, single_root=single_root)
    require_trees(scores)
    return heads, scores


def eisner_tri_sibling(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    tri_sibling_scores: Tensor | None = None,
    outermost_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under parts of a head and three successive modifiers.

    Args:
        arc_scores, lengths, sibling_scores: as `eisner_grand_sibling` reads them.
        tri_sibling_scores: (B, N, N, N, N), [b, h, m, s, t]: s is the inner sibling of m, t that of
            s; t == h: there is none. For s == h, no sibling, only t == h is read.
        outermost_scores: (B, N, N, N, N), [b, h, m, s, g]: m is the outermost modifier of h on its
            side, s its inner sibling or h, g the head of h. Read for the s of siblings, and g
            outside the span of h and m; for h == 0 only g == 0.
        end_scores: (B, N, N), [b, h, m], of the same m. None, of these and those before: zeros. A
            side without modifiers scores 0.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu" (compiled); both give the same trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum over words 1..n of
        (arc + sibling) + tri-sibling score, then the outermost pair's, then the end's, one by one.
        Ties and the order of additions in the charts: as `gpuparse.charts.grand_sibling` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: as `eisner_grand_sibling`.
    Source: Koo & Collins 2010, Model 2; single root: Carreras 2007, section 2.1;
    differs: arcs and siblings have scores of their own, and an outermost modifier has one.
    """
    chosen = choose_backend(backend, arc_scores.device)
    parts = check_parts(
        arc_scores,
        lengths,
        sibling_scores=sibling_scores,
        tri_sibling_scores=tri_sibling_scores,
        outermost_scores=outermost_scores,
        end_scores=end_scores,
    )
    if chosen == "cpu":
        heads, scores = _search_native("eisner_tri_sibling_batch", parts, single_root)
    else:
        heads, scores = eisner_tri_sibling_torch(parts, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_native(name: str, parts: Parts, single_root: bool) -> tuple[Tensor, Tensor]:
    """Heads and scores, -inf where there is no tree, by a function of native/api/higher.h."""
    scores, words = native_scores(parts), parts.lengths.numpy()
    heads = np.empty(parts.arc.shape[:2], np.int64)
    totals = np.empty(len(heads), scores.arc.dtype)

    def search(part: slice) -> None:
        of_part = scores.of_sentences(part)
        native.call(name, of_part, words[part], single_root, heads[part], totals[part])

    run_in_threads(search, words, 4, torch.get_num_threads(), WORTH_A_THREAD // 4)
    return torch.from_numpy(heads), torch.from_numpy(totals)


def eisner_grandchild(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    inner_grandchild_scores: Tensor | None = None,
    outer_grandchild_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under scores of arcs, siblings and grandchildren.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1.
        sibling_scores: (B, N, N, N), [b, h, m, c]: c is the modifier of h between h and m that is
            closest to m; c == h: there is none. None: zeros.
        inner_grandchild_scores: (B, N, N, N), [b, h, m, c]: c is the modifier of m between h and m
            that is furthest from m; c == m: there is none.
        outer_grandchild_scores: (B, N, N, N), [b, h, m, c]: c is the modifier of m furthest from m
            on the side away from h; c == m: there is none.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch" or "cpu" (compiled); both give the same trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum over the words, in
        their order, of arc + sibling, inner and outer score, one by one. Ties and the order of
        additions: as `gpuparse.charts.grandchild` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: O(n^4) time, O(n^3) memory a sentence; with at most k candidate heads (arcs that are not
    forbidden) for each word, compiled, O(n^2 k^2) time and O(n^2 k) memory beside the scores.
    Source: Carreras 2007, sections 2 and 2.1.
    """
    parts = sibling_scores, inner_grandchild_scores, outer_grandchild_scores
    heads, _, scores = eisner_grandchild_labelled(
        arc_scores[..., None],
        lengths,
        sibling_scores=None if parts[0] is None else parts[0][..., None],
        inner_grandchild_scores=None if parts[1] is None else parts[1][..., None],
        outer_grandchild_scores=None if parts[2] is None else parts[2][..., None],
        single_root=single_root,
        backend=backend,
    )
    return heads, scores


def eisner_grandchild_labelled(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    inner_grandchild_scores: Tensor | None = None,
    outer_grandchild_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """As `eisner_grandchild`, with scores for each label of an arc, and the best labels.

    Args:
        arc_scores: (B, N, N, L), L >= 1; -inf forbids the label for the arc.
        sibling_scores, inner_grandchild_scores, outer_grandchild_scores: (B, N, N, N, L), by the
            label of the arc h -> m.
        lengths, single_root, backend: as in `eisner_grandchild`.

    Returns:
        heads, labels int64 (B, N), -1 at position 0 and in padding; scores (B,). Among equally good
        labels the first wins.

    Raises:
        ScoreError, NoTreeError: as `eisner_grandchild`.

    Cost: L times that of `eisner_grandchild`, with the same memory.
    Source: Carreras 2007, sections 2 and 2.1.
    """
    chosen = choose_backend(backend, arc_scores.device)
    search = _search_grandchildren if chosen == "cpu" else eisner_grandchild_torch
    parts = sibling_scores, inner_grandchild_scores, outer_grandchild_scores
    checked = check_grandchild_scores(arc_scores, lengths, parts)
    heads, labels, scores = search(*checked, single_root=single_root)
    require_trees(scores)
    return heads, labels, scores


class _NativeScores(NamedTuple):
    """`GrandchildScores` of native/api/higher.h: float (B, cells)."""

    arc: np.ndarray
    sibling: np.ndarray
    inner: np.ndarray
    outer: np.ndarray
    n_labels: int


def _search_grandchildren(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    inner_scores: Tensor,
    outer_scores: Tensor,
    lengths: Tensor,
    *,
    single_root: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    given = arc_scores, sibling_scores, inner_scores, outer_scores
    cells, words = [scores.flatten(1).numpy() for scores in given], lengths.numpy()
    heads, labels = np.empty((2, *arc_scores.shape[:2]), np.int64)
    totals = np.empty(len(words), cells[0].dtype)

    def search(part: slice) -> None:
        arc, sibling, inner, outer = (of_batch[part] for of_batch in cells)
        scores = _NativeScores(arc, sibling, inner, outer, arc_scores.shape[3])
        native.call(
            "eisner_grandchild_batch", scores, words[part], single_root, heads[part], labels[part],
            totals[part],
        )  # fmt: skip

    run_in_threads(search, words, 4, torch.get_num_threads())
    return torch.from_numpy(heads), torch.from_numpy(labels), torch.from_numpy(totals)
