"""Online learning of sequences: perceptron and passive-aggressive steps, averaged.

Collins (2002): the weights change where the best sequence is wrong; the model is the mean of the
weights after each sequence. Crammer et al. (2006): the step is just long enough for the gold
sequence to score higher by the cost, and at most `max_step` long.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.limits import MAX_MARGIN
from gpuparse.text.sequences.model import FILTER_BITS, SequenceModel, Sequences
from gpuparse.text.sequences.tags import TagTable
from gpuparse.text.sequences.templates import SequenceTemplates

_CHUNK = 500  # sequences between two reports of progress
Watch = Callable[[float, str], None]  # called with the share that is done, and a note


def unwatched(done: float, note: str) -> None:
    """A `Watch` that ignores what it is called with."""


class Learning(NamedTuple):
    """The sizes and steps of learning.

    epochs: passes over all sequences, each in another random order.
    rows: of the table of weights, a power of two.
    min_count: positions in which a feature must occur.
    cost: of a wrong tag in the search. max_step: 0 for the perceptron.
    beam: as in SequenceModel. margin: of the beam of the result, in the unit of `cost`.
    """

    epochs: int
    rows: int
    min_count: int
    cost: float = 1.0
    max_step: float = 0.05
    beam: tuple[int, int] = (3, 8)
    margin: float | None = None


def learn_sequences(
    sequences: Sequences,
    gold: np.ndarray,
    templates: SequenceTemplates,
    table: TagTable,
    learning: Learning,
    *,
    bits: int = 16,
    seed: int = 1,
    watch: Watch = unwatched,
) -> SequenceModel:
    """Learn a model with weights of whole numbers.

    Args:
        sequences: of training. gold: (N,) int32, the numbers of their tags.
        bits: of a whole number.
        watch: called with the share that is done, and the share of wrong tags in the epoch.
    Cost: one search per sequence and epoch; 12 bytes per row.
    """
    epochs, cost, max_step = learning.epochs, learning.cost, learning.max_step
    weights, sums = np.zeros(learning.rows, np.float32), np.zeros(learning.rows)
    changed = np.zeros(1 << (FILTER_BITS - 5), np.uint32)  # the features that have got weights
    known = known_features(sequences.features, learning.min_count)
    model = SequenceModel(templates, table, weights, known, 1.0, np.array(learning.beam, np.int64))
    generator = np.random.default_rng(seed)
    n_sequences, n_tags, seen = len(sequences.starts) - 1, len(gold), 0
    for epoch in range(epochs):
        order, wrong = generator.permutation(n_sequences), np.zeros(1, np.int64)
        for first in range(0, n_sequences, _CHUNK):
            some = np.ascontiguousarray(order[first : first + _CHUNK])
            native.call(
                "learn_sequences", model.struct, sequences, gold, some, seen, cost, max_step,
                weights, sums, wrong, changed,
            )  # fmt: skip
            seen += len(some)
            done = (epoch + (first + len(some)) / n_sequences) / epochs
            watch(done, f"epoch {epoch + 1} of {epochs}, {100 * wrong[0] / n_tags:.2f} % wrong")
    mean = (weights - sums / max(seen, 1)).astype(np.float32)
    learned = replace(model, weights=mean).rounded(bits)
    if learning.margin is not None:
        points = min(round(learning.margin / learned.scale), MAX_MARGIN)
        learned = replace(learned, beam=np.append(learned.beam, points))
    # A feature that never got a weight would add those of others in the same row.
    return replace(learned, known=changed)


def known_features(features: np.ndarray, min_count: int) -> np.ndarray:
    """The filter of the features that occur often enough: (2^24 / 32,) uint32."""
    buckets = features[features != 0] >> np.uint32(32 - FILTER_BITS)
    buckets.sort()
    firsts = np.flatnonzero(np.diff(buckets, prepend=~buckets[:1]))  # of each run of equal ones
    often = buckets[firsts[np.diff(firsts, append=len(buckets)) >= min_count]]
    is_known = np.zeros(1 << FILTER_BITS, np.bool_)
    is_known[often] = True
    return np.packbits(is_known, bitorder="little").view(np.uint32)
