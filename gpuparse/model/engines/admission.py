"""All budgets of memory, and how many sentences fit in one before any of it is allocated.

A cell is a number of 8 bytes. Except for MAX_CELLS, no budget changes a result.
"""

from collections.abc import Callable, Iterator
from typing import TypeVar

import numpy as np

from gpuparse.data.batch import Encoded
from gpuparse.errors import ConfigError
from gpuparse.model.engines.results import SearchResult
from gpuparse.model.engines.searcher import BatchOptions
from gpuparse.native import mapped
from gpuparse.scorers.sizes import PartSize, sentence_cells

Result = TypeVar("Result")

MAX_CELLS = 1 << 30  # of one sentence: 8 GiB

# Cells of one batch: of native code; of torch on a CPU, which goes over all of them many times, so
# that they should stay in caches; on a GPU, where more does not make it any faster; and in learning
# in torch.
NATIVE_BUDGET, CPU_BUDGET, GPU_BUDGET, LEARNING_BUDGET = 1 << 25, 1 << 21, 1 << 28, 1 << 27
GPU_SHARE = 16  # bytes of a GPU's free memory for each cell of a batch

OWN, LOWER, CHAIN = range(3)  # how a sentence is parsed


def permitted_orders(lengths: np.ndarray, cells: np.ndarray) -> np.ndarray:
    """(S,) int8 OWN, LOWER or CHAIN: which search fits into MAX_CELLS.

    OWN is the model's own search, LOWER a first-order one, CHAIN none.

    It depends on nothing but the lengths, so that every device gives the same trees.

    Args:
        lengths: (S,) int64 words.
        cells: (S,) int64, what scores and search of each sentence take, arcs among them: sentences
            that are too long for these are parsed by arc scores alone. Sentences too long for arcs
            get no search, but every word the word before it as its head.
    """
    orders = np.full(len(lengths), OWN, np.int8)
    if cells.max(initial=0) <= MAX_CELLS:
        return orders
    orders[cells > MAX_CELLS] = LOWER
    orders[sentence_cells(lengths, PartSize(2)) > MAX_CELLS] = CHAIN
    return orders


class Admission:
    """Sentences, longest first, cut into batches that the budget has room for.

    Args:
        lengths: (S,) words of each sentence, in main memory.
        batch_size: most sentences of a batch.
        budget: cells of a batch; a sentence that needs more is a batch of its own.
        cells: (S,) int64, of each sentence.
    Raises: ConfigError: the size is no size.
    """

    def __init__(
        self, lengths: np.ndarray, batch_size: int, budget: int, cells: np.ndarray
    ) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}, at least 1 is needed")
        self._order = np.argsort(-lengths, kind="stable")
        self._cells = cells[self._order]
        self._batch_size = batch_size
        self.budget = budget

    def run(
        self, work: Callable[[np.ndarray], Result | None]
    ) -> Iterator[tuple[np.ndarray, Result | None]]:
        """Do some work on every batch, sentence numbers (K,) int64; yield these and its result.

        The result None says that there was no memory. The batch is retried with half the cells,
        which later batches keep to; a single sentence without memory is yielded with None.
        """
        start = 0
        while start < len(self._order):
            # The first sentence is the longest, and all are made as long as it is.
            of_longest = int(self._cells[start])
            fitting = max(1, self.budget // of_longest)
            batch = self._order[start : start + min(self._batch_size, fitting)]
            result = work(batch)
            if result is None and len(batch) > 1:
                self.budget = max(1, len(batch) * of_longest // 2)
                continue
            start += len(batch)
            yield batch, result


def default_batch_size(device: str) -> int:
    """The default number of sentences of a batch: enough to keep a device busy."""
    return 64 if device == "cpu" else 2048


def gpu_budget(free: int) -> int:
    """The cells that a batch may take on a GPU with that many bytes of free memory."""
    return max(1, min(GPU_BUDGET, free // GPU_SHARE))


def run_in_parts(work: Callable[[np.ndarray], int], batch: Encoded, options: BatchOptions) -> None:
    """Do some work on every part of a batch in threads, sentence numbers (K,).

    Raises: ConfigError: the batch size is no size.
    """
    if len(batch) == 1 and options.batch_size >= 1:  # a short text, which is one part
        options.progress(work(np.zeros(1, np.int64)))
        return
    cells = sentence_cells(batch.lengths, PartSize(2))
    admission = Admission(batch.lengths, options.batch_size, NATIVE_BUDGET, cells)
    parts = [part for part, _ in admission.run(len)]
    for done in mapped(work, parts, options.threads):
        options.progress(done)


def write_chains(batch: Encoded, known: np.ndarray, found: SearchResult) -> None:
    """Write down, for every word, the word before it as its head; beside known heads, the root.

    Args:
        known: (T,) heads by token, -1 for none, or empty.
        found: changed in place. Probabilities become 0.
    """
    for start, n in zip(batch.starts.tolist(), batch.lengths.tolist(), strict=True):
        words = slice(start + 1, start + n + 1)
        if len(known) and (known[words] >= 0).any():
            found.heads[words] = known[words].clip(min=0)
        else:
            found.heads[words] = np.arange(n)
        for probabilities in (found.head_probabilities, found.label_probabilities):
            if probabilities is not None:
                probabilities[words] = 0.0
