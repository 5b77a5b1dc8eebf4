"""Native searches and sums over projective trees of the first order and with siblings.

Each takes checked scores in main memory, all of one type, and lengths (B,): `arcs, lengths` of the
first order, `arcs, siblings, ends, lengths` of the second.
"""

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.inference.backends import WORTH_A_THREAD, run_in_threads
from gpuparse.inference.scores import NO_HEAD

MAX_TREES = (1 << 20) - 1
"""The most trees of a sentence that can be asked for."""


class _Batch:
    """The arrays of a batch, and the names of the native functions that read them."""

    def __init__(self, *parts: Tensor) -> None:
        *self.arrays, self.lengths = (part.detach().contiguous().numpy() for part in parts)
        self.shape = self.arrays[0].shape[:2]
        self.dtype = self.arrays[0].dtype
        self.prefix = "eisner" if len(self.arrays) == 1 else "eisner_sibling"

    def of_sentences(self, part: slice) -> list[np.ndarray]:
        """Scores and lengths of these sentences; sibling scores have one row (N, N) a head."""
        scores = [array[part] for array in self.arrays]
        if len(scores) > 1:
            scores[1] = scores[1].reshape(-1, *self.arrays[1].shape[2:])
        return [*scores, self.lengths[part]]

    def worth(self, cost: int) -> int:
        """Operations for which one more thread pays, if each costs `cost` steps of a search."""
        # Each step of a search with siblings costs about three times as much as one without.
        return WORTH_A_THREAD // (cost if len(self.arrays) == 1 else 3 * cost)


def find_best(*parts: Tensor, single_root: bool) -> tuple[Tensor, Tensor]:
    """Heads (B, N) and scores (B,) of the best trees; a sentence without a tree gets -inf."""
    batch = _Batch(*parts)
    heads, totals = np.empty(batch.shape, np.int64), np.empty(batch.shape[0], batch.dtype)
    name = f"{batch.prefix}_batch"

    def work(part: slice) -> None:
        native.call(name, *batch.of_sentences(part), single_root, heads[part], totals[part])

    run_in_threads(work, batch.lengths, 3, torch.get_num_threads(), batch.worth(1))
    return torch.from_numpy(heads), torch.from_numpy(totals)


def find_k_best(*parts: Tensor, k: int, single_root: bool) -> tuple[Tensor, Tensor]:
    """Heads (B, k, N) and scores (B, k) of the k best trees, -1 and -inf where there are fewer."""
    batch = _Batch(*parts)
    n_batch, n_nodes = batch.shape
    heads, totals = np.empty((n_batch, k, n_nodes), np.int64), np.empty((n_batch, k), batch.dtype)
    name = f"{batch.prefix}_kbest_batch"

    def work(part: slice) -> None:
        native.call(name, *batch.of_sentences(part), single_root, heads[part], totals[part])

    run_in_threads(work, batch.lengths, 3, torch.get_num_threads(), batch.worth(1))
    return torch.from_numpy(heads), torch.from_numpy(totals)


def sum_trees(
    *parts: Tensor, single_root: bool, with_marginals: bool = True
) -> tuple[Tensor, Tensor | None]:
    """Log-partitions (B,) and marginals of arcs (B, N, N) of float64 scores.

    A sentence without a tree has -inf and zeros.
    """
    batch = _Batch(*parts)
    log_partitions = np.empty(batch.shape[0])
    marginals = np.empty((*batch.shape, batch.shape[1])) if with_marginals else None
    name = f"{batch.prefix}_sums_batch"

    def work(part: slice) -> None:
        cells = None if marginals is None else marginals[part]
        native.call(name, *batch.of_sentences(part), single_root, cells, log_partitions[part])

    run_in_threads(work, batch.lengths, 3, torch.get_num_threads(), batch.worth(5))
    return (
        torch.from_numpy(log_partitions),
        None if marginals is None else torch.from_numpy(marginals),
    )


def draw_trees(
    *parts: Tensor, n_samples: int, seeds: Tensor, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Log-partitions (B,) and heads (B, n_samples, N) of random trees under float64 scores.

    Args:
        seeds: int64 (B,).

    Returns:
        -inf and no heads for a sentence without a tree.
    """
    batch, numbers = _Batch(*parts), seeds.numpy()
    n_batch, n_nodes = batch.shape
    log_partitions = np.empty(n_batch)
    heads = np.full((n_batch, n_samples, n_nodes), NO_HEAD, np.int64)
    name = f"{batch.prefix}_sample_batch"

    def work(part: slice) -> None:
        of_sentences = batch.of_sentences(part)
        native.call(
            name, *of_sentences, single_root, numbers[part], heads[part], log_partitions[part]
        )

    run_in_threads(work, batch.lengths, 3, torch.get_num_threads(), batch.worth(5))
    return torch.from_numpy(log_partitions), torch.from_numpy(heads)
