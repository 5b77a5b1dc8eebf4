"""The k best first-order projective trees: the public function."""

from torch import Tensor

from gpuparse.errors import ScoreError
from gpuparse.inference.backends import require_native
from gpuparse.inference.native_charts import MAX_TREES, find_k_best
from gpuparse.inference.scores import check_scores, require_trees


def eisner_kbest(
    arc_scores: Tensor,
    lengths: Tensor,
    k: int,
    *,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best projective trees of every sentence of a batch, exactly, best first.

    Args:
        arc_scores, lengths: as `eisner` reads them, in main memory.
        k: number of trees, at least 1.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto" or "cpu" (native), which are the same: there is no torch form.

    Returns:
        heads int64 (B, k, N), -1 at position 0 and in padding; scores (B, k). All trees of a
        sentence differ. If it has fewer than k, the remaining rows have heads -1 and score -inf;
        the empty sentence has one tree, of score 0. The first tree and its score are those of
        `eisner`. The order is that of the charts: every item orders its derivations by value, then
        by the smallest split, then by the rank of the left part in its own item, then by that of
        the right part; a single root word counts as a split. A larger k only adds trees. Scores are
        summed in the order of the words; where that puts one a rounding error above the one before,
        it is given as that one, so that scores never rise.

    Raises:
        ScoreError: as `eisner`; tensors on another device or another backend; a wrong k.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: that of `eisner`, then O(n (w + k)) for each tree, w being the width of its spans.
    Source: Huang & Chiang 2005, algorithm 3; McDonald, Crammer & Pereira 2005,
    section 2.3.1; differs: short sorted lists instead of heaps, and no recursion.
    """
    require_native("eisner_kbest", backend, arc_scores.device)
    require_count(k)
    checked = check_scores(arc_scores, lengths)
    heads, scores = find_k_best(checked.arc, checked.lengths, k=k, single_root=single_root)
    require_trees(scores[:, 0])
    return heads, scores


def require_count(k: int) -> None:
    """Raise ScoreError unless k trees can be asked for."""
    if not 1 <= k <= MAX_TREES:
        raise ScoreError(f"k is {k}, expected a number of trees from 1 to {MAX_TREES}")
