"""All budgets of memory, and how many sentences fit in one before any of it is allocated.

A cell is a number of 8 bytes. Except for MAX_CELLS, no budget changes a result.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.errors import ConfigError
from gpuparse.scoring.engines import Found
from gpuparse.threads import mapped

Result = TypeVar("Result")

MAX_CELLS = 1 << 30  # of one sentence: 8 GiB

# Cells of one batch: in main memory; on a GPU, where more does not make it any faster; and in
# learning in torch.
CPU_BUDGET, GPU_BUDGET, LEARNING_BUDGET = 1 << 25, 1 << 28, 1 << 27
GPU_SHARE = 16  # bytes of a GPU's free memory for each cell of a batch

# What torch forms hold at a time: feature rows of all parts of one kind, and of the parts in which
# trees differ; cells of the dense matrix of differences.
ROWS_AT_ONCE, DIFFERING_ROWS_AT_ONCE = 1 << 22, 1 << 24
SHARED_CELLS = 1 << 23

MATRICES = 8  # N x N cells of scores and charts that a sentence takes


class PartSize(NamedTuple):
    """The largest parts that a search reads scores of, and over how many arcs.

    words: 2 arcs, 3 siblings, 4 those beyond. max_heads: of a word, None: all. labels: of an arc,
    where a search scores all of them.
    """

    words: int
    max_heads: int | None = None
    labels: int = 0


def sentence_cells(lengths: np.ndarray, parts: PartSize) -> np.ndarray:
    """(S,) int64 cells of scores and charts for sentences of the given lengths in words.

    Args:
        lengths: (S,) int64.
        parts: those that have a cell each, as siblings do on a device. With at most k heads a word,
            n k arcs share n heads: a part (g, h, m, s) is one of k g's, and of at most k n^2 / 2
            pairs of modifiers of one head.
    """
    nodes = lengths.astype(np.int64) + 1
    cells = MATRICES * nodes**2
    if parts.words < 4:
        return cells + nodes**3 if parts.words == 3 else cells
    heads = nodes if parts.max_heads is None else np.minimum(nodes, parts.max_heads)
    return cells + (heads * nodes) ** 2 // 2 + parts.labels * nodes**2


OWN, LOWER, CHAIN = range(3)  # how a sentence is parsed


def permitted_orders(lengths: np.ndarray, parts: PartSize, max_cells: int) -> np.ndarray:
    """(S,) int8 OWN, LOWER or CHAIN: which search fits into `max_cells`.

    OWN is the model's own search, LOWER a first-order one, CHAIN none.

    It depends on nothing but the lengths, so that every device gives the same trees.

    Args:
        lengths: (S,) int64 words.
        parts: what the model reads: sentences that are too long for parts of more than two words
            are parsed by arc scores alone. Sentences too long for these get no search, but every
            word the word before it as its head.
        max_cells: of one sentence.
    """
    orders = np.where(sentence_cells(lengths, PartSize(2)) > max_cells, CHAIN, OWN)
    too_long = sentence_cells(lengths, parts) > max_cells
    return np.where((orders == OWN) & too_long, LOWER, orders).astype(np.int8)


class Admission:
    """Sentences, longest first, cut into batches that the budget has room for.

    Args:
        lengths: (S,) words of each sentence, in main memory.
        batch_size: most sentences of a batch.
        budget: cells of a batch; a sentence that needs more is a batch of its own.
        parts: as in `sentence_cells`.
    Raises: ConfigError: the size is no size.
    """

    def __init__(self, lengths: np.ndarray, batch_size: int, budget: int, parts: PartSize) -> None:
        if batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}, at least 1 is needed")
        self._order = np.argsort(-lengths, kind="stable")
        self._cells = sentence_cells(lengths[self._order], parts)
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


def run_in_parts(
    work: Callable[[np.ndarray], int],
    batch: Batch,
    batch_size: int,
    threads: int,
    progress: Callable[[int], None] = lambda sentences: None,
) -> None:
    """Do some work on every part of a batch in threads, sentence numbers (K,)."""
    admission = Admission(batch.lengths, batch_size, CPU_BUDGET, PartSize(2))
    parts = [part for part, _ in admission.run(len)]
    for done in mapped(work, parts, threads):
        progress(done)


def write_chains(batch: Batch, known: np.ndarray, found: Found) -> None:
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
