"""The k best trees with crossing arcs: the public function."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.backends import require_native, run_in_threads
from gpuparse.inference.scores import Lengths, check_scores, require_trees


def chu_liu_edmonds_kbest(
    arc_scores: Tensor,
    lengths: Lengths,
    k: int,
    *,
    single_root: bool = False,
    backend: str = "auto",
) -> tuple[Tensor, Tensor]:
    """The k best trees of every sentence of a batch, crossing arcs allowed, all different.

    Args:
        arc_scores: score of head h -> modifier m, (B, N, N), in main memory; -inf forbids. Column
            0, the diagonal and padding are never read. Integers are computed with as float64.
        lengths: words of each sentence, int (B,), 0..N-1; None: N-1 of each.
        k: trees of each sentence, from 1 on.
        single_root: exactly one modifier of the root; otherwise one or more.
        backend: "auto" or "cpu"; there is no other form.

    Returns:
        heads int64 (B, k, N), -1 at position 0 and in padding; scores (B, k), falling. Where fewer
        than k trees avoid forbidden arcs, the rest have heads -1 and score -inf. The first tree is
        that of `chu_liu_edmonds`. A score is the sum of the tree's arcs in the order of the words;
        where rounding would put that above a better tree's, which differ by no more than that, it
        is the better tree's. Ties: as `textbook.spanning_trees` says.

    Raises:
        ScoreError: wrong shapes, types, lengths or values; k below 1; another backend or device.
        NoTreeError: a sentence, named by its index, has no tree without forbidden arcs.

    Cost: as measured about two searches of O(n^2) for each tree, at the worst n of them; O(k n)
    memory.
    Source: Lawler 1972, with the dual prices of Chu-Liu/Edmonds as bounds; differs from Camerini,
    Fratta & Maffioli 1980 and Zmigrod, Vieira & Cotterell 2021, who find the second best tree of a
    part exactly: here bounds say which parts are worth a search, with a single root too.
    """
    require_native("chu_liu_edmonds_kbest", backend, arc_scores.device)
    if k < 1:
        raise ScoreError(f"k is {k}, expected a number from 1 on")
    checked = check_scores(arc_scores, lengths)
    arcs, words = checked.arc.numpy(), checked.lengths.numpy()
    heads = np.empty((len(arcs), k, arcs.shape[1]), np.int64)
    totals = np.empty((len(arcs), k), arcs.dtype)

    def search(part: slice) -> None:
        native.call(
            "chu_liu_edmonds_kbest_batch", arcs[part], words[part], single_root, heads[part],
            totals[part],
        )  # fmt: skip

    # About two searches of 30 operations a cell for each tree.
    run_in_threads(search, words, 2, torch.get_num_threads(), worth=max(80_000 // k, 1))
    require_trees(torch.from_numpy(totals[:, 0]))
    return torch.from_numpy(heads), torch.from_numpy(totals)
