"""Sentences that are too long for a parser's own search: lower orders, and chains."""

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.scoring.admission import CHAIN, LOWER, OWN, permitted_orders
from gpuparse.scoring.found import Found

__all__ = ["CHAIN", "LOWER", "OWN", "permitted_orders", "write_chains"]


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
