"""Native best trees, k best trees, sums and random trees, of all decoders that have them.

Each function takes the name of a decoder, lengths (B,) and checked scores in main memory, all of
one type: those of arcs, and for a decoder that reads siblings those of siblings and ends. It raises
NoTreeError for the first sentence without a tree. `find_best` checks arcs and lengths itself, and
raises ScoreError as `require_usable_arcs`.
"""

from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.engines import WORTH_A_THREAD, run_in_threads
from gpuparse.inference.operators import operation
from gpuparse.inference.scores import require_usable_arcs, rows_of_parts, without_tree

MAX_TREES, MAX_SAMPLES = (1 << 20) - 1, (1 << 31) - 1
"""The most trees of a sentence that can be asked for: the best ones, and random ones."""


class _Costs(NamedTuple):
    """Costs that decide the number of threads: a power of n, and Eisner-like steps.

    search: of the best tree; more_steps: of a further tree of the k best. sums: of sums.
    """

    search: tuple[int, int]
    more_steps: int
    sums: tuple[int, int]


_COSTS = {
    "eisner": _Costs((3, 1), 1, (3, 5)),
    "eisner_sibling": _Costs((3, 3), 1, (3, 15)),
    "chu_liu_edmonds": _Costs((2, 16), 60, (3, 2)),
}


class NativeScores:
    """The arrays of a batch, as native functions take them."""

    def __init__(self, decoder: str, lengths: Tensor, parts: tuple[Tensor, ...]) -> None:
        self.decoder = DECODERS[decoder].number
        arcs, *others = (part.detach().contiguous() for part in parts)
        self.arcs, self.lengths = arcs.numpy(), lengths.numpy()
        self.siblings = rows_of_parts(others[0]) if others else None
        self.ends = others[1].numpy() if others else None
        self.shape: tuple[int, int] = self.arcs.shape[:2]

    def slices(self, part: slice) -> tuple[np.ndarray | None, ...]:
        """The scores of arcs, siblings and ends, and the lengths, of some sentences."""
        siblings, ends, n_nodes = self.siblings, self.ends, self.shape[1]
        if siblings is not None and ends is not None:
            siblings = siblings[part.start * n_nodes : part.stop * n_nodes]
            ends = ends[part]
        return self.arcs[part], siblings, ends, self.lengths[part]

    def run(
        self, name: str, single_root: bool, cost: tuple[int, int], *more: np.ndarray | None
    ) -> None:
        """Call a function with the scores and `more` arrays, which have one row per sentence."""
        missing = []

        def work(part: slice) -> None:
            of_sentences = (None if array is None else array[part] for array in more)
            b = native.call(name, self.decoder, *self.slices(part), single_root, *of_sentences)
            if b >= 0:
                missing.append(part.start + b)

        power, steps = cost
        worth = max(WORTH_A_THREAD // steps, 1)
        run_in_threads(work, self.lengths, power, torch.get_num_threads(), worth)
        if missing:
            require_usable_arcs(torch.from_numpy(self.arcs), torch.from_numpy(self.lengths))
            raise without_tree(min(missing))


def find_best(
    decoder: str, lengths: Tensor, *parts: Tensor, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Heads (B, N) and scores (B,) of the best trees."""
    heads, scores = best_native_trees(decoder, single_root, lengths, list(parts), 1)
    return heads[:, 0], scores[:, 0]


def find_k_best(
    decoder: str, lengths: Tensor, *parts: Tensor, k: int, single_root: bool
) -> tuple[Tensor, Tensor]:
    """Heads (B, k, N) and scores (B, k) of the k best trees, -1 and -inf where there are fewer."""
    heads, scores = best_native_trees(decoder, single_root, lengths, list(parts), k)
    return heads, scores


def _new_trees(lengths: Tensor, arcs: Tensor, count: int) -> Tensor:
    return lengths.new_empty((len(arcs), count, arcs.shape[1]))


def new_k_best(
    decoder: str, single_root: bool, lengths: Tensor, parts: list[Tensor], k: int
) -> list[Tensor]:
    """Empty tensors like k best trees and their scores."""
    scores = parts[0].new_empty((len(lengths), k), dtype=torch.float64)
    return [_new_trees(lengths, parts[0], k), scores]


@operation(new_k_best)
def best_native_trees(
    decoder: str, single_root: bool, lengths: Tensor, parts: list[Tensor], k: int
) -> list[Tensor]:
    """Heads (B, k, N) and scores (B, k)."""
    batch = NativeScores(decoder, lengths, tuple(parts))
    n_batch, n_nodes = batch.shape
    heads = np.empty((n_batch, k, n_nodes), np.int64)
    scores = np.empty((n_batch, k))
    (power, steps), more_steps, _ = _COSTS[decoder]
    cost = power, steps + (k - 1) * more_steps
    batch.run("find_trees_batch", single_root, cost, heads, scores)
    return [torch.from_numpy(heads), torch.from_numpy(scores)]


def sum_trees(
    decoder: str, lengths: Tensor, *parts: Tensor, single_root: bool, n_marginals: int
) -> list[Tensor]:
    """Log-partitions (B,) of float64 scores, and marginals of the first parts, like their scores.

    Args: n_marginals: 0, 1 for those of arcs, or the number of parts.
    """
    batch = NativeScores(decoder, lengths, parts)
    log_partitions = np.empty(batch.shape[0])
    found: list[np.ndarray | None] = [np.empty(part.shape) for part in parts[:n_marginals]]
    missing = [None] * (3 - n_marginals)
    cost = _COSTS[decoder].sums
    batch.run("sum_trees_batch", single_root, cost, *found, *missing, log_partitions)
    return [torch.from_numpy(array) for array in (log_partitions, *found)]


@operation(lambda decoder, root, lengths, parts, seeds, n_samples: [
    _new_trees(lengths, parts[0], n_samples)
])  # fmt: skip
def draw_native_trees(
    decoder: str, single_root: bool, lengths: Tensor, parts: list[Tensor], seeds: Tensor,
    n_samples: int,
) -> list[Tensor]:  # fmt: skip
    """Heads (B, n_samples, N) of random trees under float64 scores, which may be on any device.

    Args: seeds: int64 (B,), in main memory.
    """
    batch = NativeScores(decoder, lengths.cpu(), tuple(part.cpu() for part in parts))
    n_batch, n_nodes = batch.shape
    heads = np.empty((n_batch, n_samples, n_nodes), np.int64)
    cost, log_partitions = _COSTS[decoder].sums, np.empty(n_batch)
    batch.run("draw_trees_batch", single_root, cost, seeds.numpy(), heads, log_partitions)
    return [torch.from_numpy(heads).to(lengths.device)]


def require_tree_count(k: object) -> None:
    """Raise ScoreError for anything but an integer from 1 to `MAX_TREES`."""
    if not (_is_integer(k) and 1 <= k <= MAX_TREES):  # type: ignore[operator]
        raise ScoreError(f"k is {k!r}, expected a number of trees from 1 to {MAX_TREES}")


def require_sample_count(n_samples: int) -> None:
    """Raise ScoreError for anything but an integer from 0 to `MAX_SAMPLES`."""
    if not (_is_integer(n_samples) and 0 <= n_samples <= MAX_SAMPLES):
        raise ScoreError(f"n_samples is {n_samples!r}, expected a number from 0 to {MAX_SAMPLES}")


def _is_integer(number: object) -> bool:
    return isinstance(number, (int, np.integer)) and not isinstance(number, bool)
