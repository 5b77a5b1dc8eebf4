"""Best projective trees beyond the second order: the public functions."""

from collections.abc import Mapping

from torch import Tensor

from gpuparse.inference.engines import require_native
from gpuparse.inference.higher_order_scores import check_parts, search_native
from gpuparse.inference.scores import device_of, require_trees


def eisner_grand_sibling(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    grandparent_scores: Tensor | None = None,
    grand_sibling_scores: Tensor | None = None,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under parts of a head, its head and two modifiers.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling` reads
            them; forbidden arcs cost no time.
        grandparent_scores: (B, N, N, N), [b, h, m, g]: g is the head of h. Only g outside the span
            of h and m is read, and for h == 0 only g == 0.
        grand_sibling_scores: (B, N, N, N, N), [b, h, m, s, g], read where both are. None, of these
            and other scores but those of arcs: zeros.
        engine: "auto" or "native"; there is no other form.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum over
        words 1..n of ((arc + sibling) + grandparent) + grand-sibling score, and then the end's, one
        by one. Ties and the order of additions in the charts: as `inference.charts.grand_sibling`
        says.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.
    Cost: O(n^4) time; O(n^3) memory per sentence, and O(n^4) for the parts; with k
    heads per word left, and as many modifiers, O(n k^3 + n^2 k^2).
    Source: Koo & Collins 2010, Model 1; single root: Carreras 2007, section 2.1;
    differs: arcs, siblings and grandparents have scores of their own, an outermost modifier too.
    """
    parts = {
        "sibling": sibling_scores, "grandparent": grandparent_scores,
        "grand_sibling": grand_sibling_scores, "end": end_scores,
    }  # fmt: skip
    heads, _, scores = _search(
        "eisner_grand_sibling", arc_scores, lengths, parts, single_root, engine
    )
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
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under parts of a head and three successive modifiers.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_grand_sibling`
            reads them; ends are those of the same m as outermost pairs.
        tri_sibling_scores: (B, N, N, N, N), [b, h, m, s, t]: s is the inner sibling of m, t that of
            s; t == h: there is none. For s == h, no sibling, only t == h is read.
        outermost_scores: (B, N, N, N, N), [b, h, m, s, g]: m is the outermost modifier of h on its
            side, s its inner sibling or h, g the head of h. Read for the s of siblings, and g
            outside the span of h and m; for h == 0 only g == 0.
        engine: "auto" or "native"; there is no other form.
    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum over words
        1..n of (arc + sibling) + tri-sibling score, then the outermost pair's, then the end's, one
        by one. Ties and the order of additions in the charts: as `inference.charts.grand_sibling`
        says.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.
    Cost: as `eisner_grand_sibling`.
    Source: Koo & Collins 2010, Model 2; single root: Carreras 2007, section 2.1;
    differs: arcs and siblings have scores of their own, and an outermost modifier has one.
    """
    parts = {
        "sibling": sibling_scores, "tri_sibling": tri_sibling_scores,
        "outermost": outermost_scores, "end": end_scores,
    }  # fmt: skip
    heads, _, scores = _search(
        "eisner_tri_sibling", arc_scores, lengths, parts, single_root, engine
    )
    return heads, scores


def eisner_grandchild(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    inner_grandchild_scores: Tensor | None = None,
    outer_grandchild_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence under scores of arcs, siblings and grandchildren.

    Args:
        arc_scores, sibling_scores, lengths, single_root: as `eisner_sibling` reads them; None, of
            other scores than those of arcs: zeros.
        inner_grandchild_scores: (B, N, N, N), [b, h, m, c]: c is the modifier of m between h and m
            that is furthest from m; c == m: there is none.
        outer_grandchild_scores: (B, N, N, N), [b, h, m, c]: c is the modifier of m furthest from m
            on the side away from h; c == m: there is none.
        engine: "auto" or "native"; there is no other form.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum over
        the words, in their order, of arc + sibling, inner and outer score, one by one. Ties and the
        order of additions: as `inference.charts.grandchild` says.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.
    Cost: O(n^4) time, O(n^3) memory per sentence; with at most k candidate heads (arcs that are not
    forbidden) for each word, O(n^2 k^2) time and O(n^2 k) memory beside the scores.
    Source: Carreras 2007, sections 2 and 2.1.
    """
    parts = _children(sibling_scores, inner_grandchild_scores, outer_grandchild_scores)
    heads, _, scores = _search("eisner_grandchild", arc_scores, lengths, parts, single_root, engine)
    return heads, scores


def eisner_grandchild_labelled(
    arc_scores: Tensor,
    lengths: Tensor,
    *,
    sibling_scores: Tensor | None = None,
    inner_grandchild_scores: Tensor | None = None,
    outer_grandchild_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor, Tensor]:
    """As `eisner_grandchild`, with scores for each label of an arc, and the best labels.

    Args:
        arc_scores: (B, N, N, L), L >= 1; -inf forbids the label for the arc.
        sibling_scores, inner_grandchild_scores, outer_grandchild_scores: (B, N, N, N, L), by the
            label of the arc h -> m.
        lengths, single_root, engine: as in `eisner_grandchild`.
    Returns: heads, labels int64 (B, N), -1 at position 0 and in padding; scores float64 (B,). Among
        equally good labels the first wins.
    Raises: ScoreError, NoTreeError: as `eisner_grandchild`.
    Cost: L times that of `eisner_grandchild`, with the same memory.
    Source: Carreras 2007, sections 2 and 2.1.
    """
    parts = _children(sibling_scores, inner_grandchild_scores, outer_grandchild_scores)
    return _search(
        "eisner_grandchild", arc_scores, lengths, parts, single_root, engine, has_labels=True
    )


def _children(
    sibling: Tensor | None, inner: Tensor | None, outer: Tensor | None
) -> dict[str, Tensor | None]:
    return {"sibling": sibling, "inner_grandchild": inner, "outer_grandchild": outer}


def _search(
    name: str,
    arc_scores: Tensor,
    lengths: Tensor,
    parts: Mapping[str, Tensor | None],
    single_root: bool,
    engine: str,
    *,
    has_labels: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Heads, labels where they are found with the trees, and scores."""
    require_native(name, engine, device_of(arc_scores))
    scores = check_parts(arc_scores, lengths, parts, has_labels=has_labels)
    heads, labels, totals, *_ = search_native(name, scores, single_root=single_root)
    require_trees(totals)
    return heads, labels, totals
