"""A batch cut into slices of about equal work, a Python thread each; native code frees the GIL."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise

import numpy as np

# Starting threads costs about 0.1 ms, in which a core does a few million operations.
WORTH_A_THREAD = 5_000_000


def run_in_threads(
    work: Callable[[slice], None],
    lengths: np.ndarray,
    power: int,
    threads: int,
    worth: int = WORTH_A_THREAD,
) -> None:
    """Call `work` on slices that together cover the batch, in up to `threads` threads at once.

    Args:
        work: fills its slice of the results; it must not depend on how the batch is cut.
        lengths: words of each sentence, int64 (B,).
        power: a sentence of n words costs about n ** power operations.
        threads: most threads to use.
        worth: operations for which one more thread pays.
    """
    if threads > 1 and len(lengths) > 1:
        done = np.cumsum((lengths + 1) ** power)
        pieces = min(threads, len(lengths), int(done[-1]) // worth)
        if pieces > 1:
            cuts = np.searchsorted(done, done[-1] * np.arange(1, pieces) / pieces).tolist()
            slices = [slice(a, b) for a, b in pairwise([0, *cuts, len(lengths)])]
            with ThreadPoolExecutor(pieces) as pool:
                list(pool.map(work, slices))
            return
    work(slice(0, len(lengths)))
