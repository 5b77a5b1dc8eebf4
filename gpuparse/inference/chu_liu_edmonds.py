"""Chu-Liu/Edmonds: the public function."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.inference.backends import WORTH_A_THREAD, choose_backend, run_in_threads
from gpuparse.inference.batched.chu_liu_edmonds import chu_liu_edmonds_torch
from gpuparse.inference.scores import Lengths, check_scores, require_trees


def chu_liu_edmonds(
    arc_scores: Tensor, lengths: Lengths, *, single_root: bool = False, backend: str = "auto"
) -> tuple[Tensor, Tensor]:
    """Best tree of every sentence of a batch, crossing arcs allowed.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N); -inf forbids. Column 0, the diagonal
            and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1; None: N-1 of each.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto", "torch", "cpu" (native) or "gpu" (Triton kernels); all give the same
            trees and the same bits.

    Returns:
        heads int64 (B, N), -1 at position 0 and in padding; scores (B,), the sum of each tree's
        arcs in the order of the words. Ties: as `textbook.spanning_trees` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; an unknown backend.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: O(n^2) time and memory a sentence, in the worst case too, with a single root too.
    Source: slides, "Spanning Tree Parsing"; path growing and single root as
    `textbook.spanning_trees` explains.
    """
    search = _search_of(choose_backend(backend, arc_scores.device, has_kernels=True))
    checked = check_scores(arc_scores, lengths)
    heads, scores = search(checked.arc, checked.lengths, single_root=single_root)
    require_trees(scores)
    return heads, scores


def _search_of(backend: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """The form of the search on checked scores."""
    if backend == "gpu":
        from gpuparse.inference.triton import chu_liu_edmonds as kernels  # imports Triton

        return kernels.chu_liu_edmonds
    return _search_native if backend == "cpu" else chu_liu_edmonds_torch


def _search_native(
    arc_scores: Tensor, lengths: Tensor, *, single_root: bool
) -> tuple[Tensor, Tensor]:
    """`chu_liu_edmonds_torch` in native code, for scores in main memory."""
    arcs, words = arc_scores.numpy(), lengths.numpy()
    heads = np.empty(arcs.shape[:2], np.int64)
    totals = np.empty(len(arcs), arcs.dtype)

    def search(part: slice) -> None:
        native.call(
            "chu_liu_edmonds_batch", arcs[part], words[part], single_root, heads[part], totals[part]
        )

    # A cell costs about sixteen times as much as a split does in Eisner's algorithm.
    run_in_threads(search, words, 2, torch.get_num_threads(), worth=WORTH_A_THREAD // 16)
    return torch.from_numpy(heads), torch.from_numpy(totals)
