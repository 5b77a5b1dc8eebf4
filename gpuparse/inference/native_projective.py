"""Compiled third-order searches of projective trees over dense scores."""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.inference.higher_order_scores import Parts, native_scores
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads


def search_projective(name: str, parts: Parts, *, single_root: bool) -> tuple[Tensor, Tensor]:
    """Best projective trees of a batch under checked scores in main memory.

    Args:
        name: the function of native/api/higher.h.
        parts: its scores.
        single_root: exactly one modifier of the root.

    Returns:
        heads int64 (B, N), -1 where no word is; scores (B,), -inf for a sentence without a tree.

    Cost: O(n^4) time a sentence.
    """
    scores, words = native_scores(parts), parts.lengths.numpy()
    heads = np.empty(parts.arc.shape[:2], np.int64)
    totals = np.empty(len(heads), scores.arc.dtype)

    def search(part: slice) -> None:
        of_part = scores.of_sentences(part)
        native.call(name, of_part, words[part], single_root, heads[part], totals[part])

    run_in_threads(search, words, 4, torch.get_num_threads(), WORTH_A_THREAD // 4)
    return torch.from_numpy(heads), torch.from_numpy(totals)
