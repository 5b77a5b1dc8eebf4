"""Best trees, one or k: projective ones of the first and second order, and all trees."""

from collections.abc import Callable

import torch
from torch import Tensor

from gpuparse.inference.decoders import Engine
from gpuparse.inference.engines import choose_engine
from gpuparse.inference.native_trees import (
    find_best,
    find_k_best,
    new_k_best,
    require_tree_count,
)
from gpuparse.inference.operators import operation
from gpuparse.inference.scores import (
    Lengths,
    as_arcs,
    as_floats,
    check_arcs,
    check_sibling_scores,
    device_of,
    require_trees,
)
from gpuparse.inference.search import NO_HEAD
from gpuparse.inference.torch.chu_liu_edmonds import chu_liu_edmonds_torch
from gpuparse.inference.torch.eisner import eisner_sibling_torch, eisner_torch


def eisner(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1; None: N-1 of each.
        single_root: exactly one modifier of the root; otherwise one or more.
        engine: "auto", "torch", "native" or "triton"; all give the same
            trees and the same bits.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum of
        each tree's arcs in the order of the words, without gradient. Charts add (left + right),
        then the arc; among equally good splits every span takes the smallest, a single root the
        smallest word.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: O(n^3) time, O(n^2) memory per sentence.
    Source: McDonald, Crammer & Pereira 2005, section 2.2 (Eisner 1996); single root: Carreras 2007,
    section 2.1.
    """
    return _search_arcs("eisner", arc_scores, lengths, single_root, engine)


def eisner_sibling(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """Best projective tree of every sentence of a batch, under scores of arcs and siblings.

    Args:
        arc_scores, lengths, single_root, engine: as `eisner`.
        sibling_scores: (B, N, N, N), [b, h, m, s]: s is the modifier of h just inside m on the same
            side; s == h: there is none. Only h < s < m, m < s < h and s == h are read.
        end_scores: (B, N, N), [b, h, m]: m is the outermost modifier of h on its side, read like
            arc_scores; None: zeros. A side without modifiers scores 0.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum of
        arc, sibling and end score of each word, added one by one in the order of the words. Ties
        and the order of additions in the charts: as `inference.charts.eisner_sibling` says.
    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown engine.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.
    Cost: O(n^3) time; native code takes O(n^2) memory per sentence beside the scores.
    Source: McDonald & Pereira 2006, sections 2.1 and 2.2 and figure 3 (Eisner 1996); single root:
    Carreras 2007, section 2.1; differs: arc scores are kept apart and added, and a modifier may
    have a score for being the last one.
    """
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    *parts, words = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    return _search("eisner_sibling", engine, words, *parts, single_root=single_root)


def chu_liu_edmonds(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, engine: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Best tree of every sentence of a batch, crossing arcs allowed.

    Args: as `eisner`.
    Returns: heads int64 (B, N), -1 at position 0 and in padding; scores float64 (B,), the sum of
        each tree's arcs in the order of the words. Ties: as `textbook.spanning_trees` says.
    Raises: ScoreError, NoTreeError: as `eisner`.
    Cost: O(n^2) time and memory per sentence, in the worst case too, with a single root too.
    Source: slides, "Spanning Tree Parsing"; path growing and single root as
    `textbook.spanning_trees` explains.
    """
    return _search_arcs("chu_liu_edmonds", arc_scores, lengths, single_root, engine)


def eisner_kbest(
    arc_scores: Tensor,
    lengths: Lengths,
    k: int,
    *,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best projective trees of every sentence of a batch, exactly, best first.

    Args:
        arc_scores, lengths, single_root: as `eisner` reads them.
        k: number of trees, from 1 to `native_trees.MAX_TREES`, 2^20 - 1.
        engine: "auto", "torch" or "native"; both give the same trees and the same bits.
    Returns: heads int64 (B, k, N), -1 at position 0 and in padding; scores float64 (B, k). All
        trees of a sentence differ. If it has fewer than k, the remaining rows have heads -1 and
        score -inf; the empty sentence has one tree, of score 0. The first tree and its score are
        those of `eisner`. The order is that of the charts: every item orders its derivations by
        value, then by the smallest split, then by the rank of the left part in its own item, then
        by that of the right part; a single root word counts as a split. A larger k only adds trees.
        Scores are summed in the order of the words; where that puts one a rounding error above the
        one before, it is given as that one, so that scores never rise.
    Raises:
        ScoreError: as `eisner`; a wrong k.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.
    Cost: in native code that of `eisner`, then O(n (w + k)) for each tree, w being the width of its
    spans; in torch O(n^3 k log k) time, O(n^2 k log k) memory, for all sentences at once, which on
    a CPU takes some hundred times as long.
    Source: Huang & Chiang 2005, algorithm 3, in torch algorithm 0; McDonald, Crammer & Pereira
    2005, section 2.3.1; differs: short sorted lists instead of heaps, and no recursion.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    arcs, words = check_arcs(arc_scores, lengths)
    return _search_several("eisner", engine, words, arcs, k=k, single_root=single_root)


def eisner_sibling_kbest(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Lengths,
    k: int,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best projective trees of every sentence under scores of arcs and siblings, best first.

    Args:
        arc_scores, sibling_scores, lengths, end_scores, single_root: as `eisner_sibling`.
        k, engine: as `eisner_kbest`.
    Returns: As `eisner_kbest`, the first tree that of `eisner_sibling`. Ties as in `eisner_kbest`;
        the split of an arc is its inner sibling, and no sibling comes first.
    Raises: ScoreError, NoTreeError: as `eisner_sibling` and `eisner_kbest`.
    Cost: that of `eisner_sibling`, then as `eisner_kbest`.
    Source: that of `eisner_kbest`; McDonald & Pereira 2006, section 2.2.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    *parts, words = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    return _search_several("eisner_sibling", engine, words, *parts, k=k, single_root=single_root)


def chu_liu_edmonds_kbest(
    arc_scores: Tensor,
    lengths: Lengths,
    k: int,
    *,
    single_root: bool = False,
    engine: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best trees of every sentence of a batch, crossing arcs allowed, all different.

    Args: as `eisner_kbest`.
    Returns: heads int64 (B, k, N), -1 at position 0 and in padding; scores float64 (B, k), falling.
        Where fewer than k trees avoid forbidden arcs, the rest have heads -1 and score -inf. The
        first tree is that of `chu_liu_edmonds`. A score is the sum of the tree's arcs in the order
        of the words; where rounding would put that above a better tree's, which differ by no more
        than that, it is the better tree's. Ties: as `textbook.spanning_trees` says.
    Raises: ScoreError, NoTreeError: as `eisner_kbest`.
    Cost: as measured about two searches of O(n^2) for each tree, at the worst n of them; O(k n)
    memory. In torch n searches for each tree, those of all sentences at once; O(n^3 + k n) memory.
    Source: Lawler 1972, with the dual variables of Chu-Liu/Edmonds as bounds; differs from
    Camerini, Fratta & Maffioli 1980 and Zmigrod, Vieira & Cotterell 2021, who find the second best
    tree of a part exactly: here bounds say which parts are worth a search, with a single root too;
    in torch all parts are searched.
    """
    engine = choose_engine(engine, device_of(arc_scores))
    arcs, words = check_arcs(arc_scores, lengths)
    return _search_several("chu_liu_edmonds", engine, words, arcs, k=k, single_root=single_root)


def _search_arcs(
    decoder: str, arc_scores: Tensor, lengths: Lengths, single_root: bool, engine: str
) -> tuple[Tensor, Tensor]:
    """The best trees of a first-order decoder, under scores that are not checked yet."""
    engine = choose_engine(engine, device_of(arc_scores), has_kernels=True)
    arcs, words = (as_arcs if engine == "native" else check_arcs)(arc_scores, lengths)
    return _search(decoder, engine, words, arcs, single_root=single_root)


def _search(
    decoder: str, engine: Engine, lengths: Tensor, *parts: Tensor, single_root: bool
) -> tuple[Tensor, Tensor]:
    """The best trees on an engine; scores are checked, for native code at least by `as_arcs`."""
    if engine == "native":
        return find_best(decoder, lengths, *parts, single_root=single_root)
    heads, scores = device_search(decoder, engine)(*parts, lengths, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_several(
    decoder: str, engine: Engine, lengths: Tensor, *parts: Tensor, k: int, single_root: bool
) -> tuple[Tensor, Tensor]:
    """The k best trees on an engine; scores are checked."""
    require_tree_count(k)
    if engine == "native":
        return find_k_best(decoder, lengths, *parts, k=k, single_root=single_root)
    heads, scores = best_torch_trees(decoder, single_root, lengths, list(parts), k)
    require_trees(scores[:, 0])
    return heads, scores


@operation(new_k_best)
def best_torch_trees(
    decoder: str, single_root: bool, lengths: Tensor, parts: list[Tensor], k: int
) -> list[Tensor]:
    """Heads (B, k, N) and scores (B, k)."""
    return list(_IN_TORCH[decoder](*parts, lengths, k, single_root=single_root))


def find_unchecked(
    decoder: str, engine: Engine, lengths: Tensor, *parts: Tensor, single_root: bool
) -> tuple[Tensor, Tensor]:
    """The best trees under scores of any type that are not checked; nothing waits for the device.

    Returns: heads -1 and the score -inf, or NaN for scores that are not finite, where there is no
        tree.
    """
    floats = [part.detach().contiguous() for part in as_floats(parts, "scores")]
    heads, scores = device_search(decoder, engine)(*floats, lengths, single_root=single_root)
    return heads.masked_fill(~(scores > -torch.inf)[:, None], NO_HEAD), scores


def device_search(decoder: str, engine: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The search on checked scores of any device, which does not wait for the device.

    It takes the score tensors and lengths.

    Args: engine: "torch" or "triton", which must have the best trees of this decoder.
    """
    if engine == "torch":
        return _IN_TORCH[decoder]
    from gpuparse.inference.triton import chu_liu_edmonds, eisner  # Triton is an extra

    searches: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
        "eisner": eisner.eisner,
        "eisner_sibling": eisner.eisner_sibling,
        "chu_liu_edmonds": chu_liu_edmonds.chu_liu_edmonds,
    }
    return searches[decoder]


_IN_TORCH: dict[str, Callable[..., tuple[Tensor, Tensor]]] = {
    "eisner": eisner_torch,
    "eisner_sibling": eisner_sibling_torch,
    "chu_liu_edmonds": chu_liu_edmonds_torch,
}
