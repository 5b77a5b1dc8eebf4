"""The k best projective trees with sibling parts: the public function."""

from torch import Tensor

from gpuparse.inference.backends import require_native
from gpuparse.inference.eisner_kbest import require_count
from gpuparse.inference.native_charts import find_k_best
from gpuparse.inference.scores import check_sibling_scores, require_trees


def eisner_sibling_kbest(
    arc_scores: Tensor,
    sibling_scores: Tensor,
    lengths: Tensor,
    k: int,
    *,
    end_scores: Tensor | None = None,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best projective trees of every sentence under scores of arcs and siblings, best first.

    Args:
        arc_scores, sibling_scores, lengths, end_scores: as `eisner_sibling` reads them, in main
            memory.
        k: number of trees, at least 1.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto" or "cpu" (native), which are the same: there is no torch form.

    Returns:
        heads int64 (B, k, N) and scores (B, k) as in `eisner_kbest`, exact, the first those of
        `eisner_sibling`. Ties as in `eisner_kbest`; the split of an arc is its inner sibling, and
        no sibling comes first.

    Raises:
        ScoreError: as `eisner_sibling`; tensors on another device or another backend; a wrong k.
        NoTreeError: a sentence, named by its index, has no tree without forbidden parts.

    Cost: that of `eisner_sibling`, then O(n (w + k)) for each tree, w being the width of its spans.
    Source: Huang & Chiang 2005, algorithm 3; McDonald & Pereira 2006, section 2.2; differs: as
    `eisner_kbest` and `eisner_sibling`.
    """
    require_native("eisner_sibling_kbest", backend, arc_scores.device)
    require_count(k)
    checked = check_sibling_scores(arc_scores, sibling_scores, lengths, end_scores)
    heads, scores = find_k_best(*checked, k=k, single_root=single_root)
    require_trees(scores[:, 0])
    return heads, scores
