"""The native engine of an encoder with weights of 8 bits: best trees, without torch.

All else that an engine finds is found by the dense engine, from the same scores.
"""

from collections.abc import Callable, Sequence

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Encoded
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.engines.admission import run_in_parts
from gpuparse.model.engines.results import GraphArcs, SearchResult
from gpuparse.model.engines.searcher import (
    BatchOptions,
    BestTrees,
    Marginals,
    Searcher,
    SearchTask,
)
from gpuparse.scorers.encoder.pieces import EncodedPieces
from gpuparse.scorers.encoder.scorer import EncoderScorer
from gpuparse.scorers.scorer import Scorer

_DECODERS = ("eisner", "chu_liu_edmonds")


def quantised_engine(
    scorers: Sequence[Scorer], task: SearchTask, dense: Callable[[], Searcher]
) -> "Quantised | None":
    """The engine of an encoder with weights of 8 bits; None for other scorers and decoders."""
    first, *others = scorers
    if others or not isinstance(first, EncoderScorer) or first.quantised is None:
        return None
    return Quantised(first, task, dense) if task.decoder in _DECODERS else None


class Quantised:
    """Native scoring and search under the scores of an encoder.

    Args: dense: makes the engine of what this one does not find.
    """

    def __init__(
        self, scorer: EncoderScorer, task: SearchTask, dense: Callable[[], Searcher]
    ) -> None:
        self._scorer, self._task, self._dense = scorer, task, dense
        self._decoder = DECODERS[task.decoder].number

    def send(self, batch: Encoded) -> None:
        """Nothing: native code reads main memory."""

    def best(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        if len(known):
            return self._dense().best(batch, known, options)
        assert isinstance(batch, EncodedPieces)
        states = self._scorer.states(batch, options.threads)
        heads, labels = np.full((2, batch.n_tokens), -1, np.int64)

        def work(part: np.ndarray) -> int:
            starts, lengths = batch.starts[part], batch.lengths[part]
            arcs = self._scorer.arc_points(states, starts, lengths, 1)
            trees = np.empty((len(part), 1, arcs.shape[1]), np.int64)
            scores = np.empty((len(part), 1))
            failed = native.call(
                "find_trees_batch", self._decoder, arcs, None, None, lengths,
                self._task.single_root, trees, scores,
            )  # fmt: skip
            if failed >= 0:
                raise ScoreError("scores of arcs are not finite")
            b, m = np.nonzero(np.arange(1, arcs.shape[1]) <= lengths[:, None])
            tokens, of_words = starts[b] + m + 1, trees[b, 0, m + 1]
            heads[tokens] = of_words
            if self._task.n_labels:
                points = self._scorer.label_points(states, starts[b] + of_words, tokens, 1)
                labels[tokens] = points.argmax(1)
            return len(part)

        run_in_parts(work, batch, options)
        return SearchResult(heads, labels)

    def marginals(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        return self._dense().marginals(batch, known, options)

    def k_best(self, batch: Encoded, known: np.ndarray, k: int, options: BatchOptions) -> BestTrees:
        """See `Searcher`."""
        return self._dense().k_best(batch, known, k, options)

    def probabilities_of(
        self, batch: Encoded, heads: np.ndarray, labels: np.ndarray, which: str,
        options: BatchOptions,
    ) -> Marginals:  # fmt: skip
        """See `Searcher`."""
        return self._dense().probabilities_of(batch, heads, labels, which, options)

    def label_trees(self, batch: Encoded, found: SearchResult) -> None:
        """See `Searcher`."""
        self._dense().label_trees(batch, found)

    def label_graphs(self, batch: Encoded, heads: np.ndarray, arcs: GraphArcs) -> None:
        """See `Searcher`."""
        self._dense().label_graphs(batch, heads, arcs)
