"""The native engine of an encoder with weights of 8 bits: trees, graphs, probabilities, labels."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Encoded, incomplete
from gpuparse.errors import NoTreeError, ScoreError
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.search import ChangeLimits
from gpuparse.model.engines.admission import run_in_parts
from gpuparse.model.engines.results import GraphArcs, SearchResult, found_graphs
from gpuparse.model.engines.searcher import (
    BatchOptions,
    BestTrees,
    Marginals,
    SearchTask,
    empty_marginals,
)
from gpuparse.scorers.encoder.pieces import EncodedPieces
from gpuparse.scorers.encoder.scorer import EncoderScorer
from gpuparse.scorers.scorer import Scorer

_DECODERS = ("eisner", "chu_liu_edmonds", "multi_parent")
_NONE = np.zeros(0, np.int64)


def quantised_engine(scorers: Sequence[Scorer], task: SearchTask) -> "Quantised | None":
    """The engine of an encoder with weights of 8 bits; None for other scorers and decoders."""
    first, *others = scorers
    if others or not isinstance(first, EncoderScorer) or first.quantised is None:
        return None
    return Quantised(first, task) if task.decoder in _DECODERS else None


class _ScoredWords(NamedTuple):
    """Some sentences with the scores of their arcs, (B, N, N), -inf for those against known heads.

    lengths: (B,). sentences, nodes, tokens: (W,) of all words; roots: the tokens of their roots.
    """

    arcs: np.ndarray
    lengths: np.ndarray
    sentences: np.ndarray
    nodes: np.ndarray
    tokens: np.ndarray
    roots: np.ndarray


class Quantised:
    """Native scoring and search under the scores of an encoder."""

    def __init__(self, scorer: EncoderScorer, task: SearchTask) -> None:
        self._scorer, self._task = scorer, task
        self._gives_graphs = DECODERS[task.decoder].gives_graphs
        self._decoder = DECODERS["eisner" if self._gives_graphs else task.decoder].number

    def send(self, batch: Encoded) -> None:
        """Nothing: native code reads main memory."""

    def best(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        heads, labels = np.full((2, batch.n_tokens), -1, np.int64)
        graphs: list[GraphArcs] = []

        def work(states: np.ndarray, scored: _ScoredWords, part: np.ndarray) -> None:
            trees, _ = self._trees(scored.arcs, scored, 1)
            if self._gives_graphs:
                graphs.append(self._graphs(states, scored, trees[:, 0], heads))
            else:
                self._write(states, scored, trees[:, 0], heads, labels)

        self._run(work, batch, known, options)
        if self._gives_graphs:
            return found_graphs(heads, labels, graphs)
        return SearchResult(heads, labels)

    def marginals(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        heads, labels = np.full((2, batch.n_tokens), -1, np.int64)
        found = empty_marginals(1, batch.n_tokens)

        def work(states: np.ndarray, scored: _ScoredWords, part: np.ndarray) -> None:
            marginals, _ = self._sums(scored)
            arcs = scored.arcs
            if options.least_risk:
                arcs = np.where(arcs == -np.inf, -np.inf, marginals)
            trees, _ = self._trees(arcs, scored, 1)
            self._write(states, scored, trees[:, 0], heads, labels)
            if options.probabilities:
                self._fill(states, scored, marginals, heads[None], labels[None], found)

        self._run(work, batch, known, options)
        result = SearchResult(heads, labels)
        if not options.probabilities:
            return result
        return replace(
            result, head_probabilities=found.heads[0], label_probabilities=found.labels[0]
        )

    def k_best(self, batch: Encoded, known: np.ndarray, k: int, options: BatchOptions) -> BestTrees:
        """See `Searcher`."""
        found = BestTrees.empty(k, batch)

        def work(states: np.ndarray, scored: _ScoredWords, part: np.ndarray) -> None:
            trees, scores = self._trees(scored.arcs, scored, k)
            found.scores[:, part] = scores.T
            for j in range(k):
                self._write(states, scored, trees[:, j], found.heads[j], found.labels[j])
            if options.probabilities:
                marginals, found.log_partitions[part] = self._sums(scored)
                self._fill(states, scored, marginals, found.heads, found.labels, found.marginals)

        self._run(work, batch, known, options)
        return found

    def probabilities_of(
        self, batch: Encoded, heads: np.ndarray, labels: np.ndarray, which: str,
        options: BatchOptions,
    ) -> Marginals:  # fmt: skip
        """See `Searcher`."""
        found = empty_marginals(1, batch.n_tokens)
        is_whole = ~incomplete(batch, heads)

        def work(states: np.ndarray, scored: _ScoredWords, part: np.ndarray) -> None:
            marginals = None if which == "labels" else self._sums(scored)[0]
            asked = np.full_like(labels, -1)
            if which != "heads":
                of_whole = scored.tokens[is_whole[part][scored.sentences]]
                asked[of_whole] = labels[of_whole]
            self._fill(states, scored, marginals, heads[None], asked[None], found)

        self._run(work, batch, _NONE, options)
        return found

    def label_trees(self, batch: Encoded, found: SearchResult) -> None:
        """See `Searcher`."""
        assert isinstance(batch, EncodedPieces)
        states = self._scorer.states(batch, 1)

        def work(part: np.ndarray) -> int:
            self._label(states, _words(batch, part), found.heads, found.labels)
            return len(part)

        run_in_parts(work, batch, BatchOptions())

    def label_graphs(self, batch: Encoded, heads: np.ndarray, arcs: GraphArcs) -> None:
        """See `Searcher`."""
        assert isinstance(batch, EncodedPieces)
        starts = np.sort(batch.starts)
        roots = starts[np.searchsorted(starts, arcs.tokens, side="right") - 1]
        self._label_arcs(self._scorer.states(batch, 1), roots, heads, arcs)

    def _run(
        self, work: Callable[[np.ndarray, _ScoredWords, np.ndarray], None], batch: Encoded,
        known: np.ndarray, options: BatchOptions,
    ) -> None:  # fmt: skip
        """Work on parts of a batch: states of all tokens, scores, numbers of sentences."""
        assert isinstance(batch, EncodedPieces)
        states = self._scorer.states(batch, options.threads)

        def score_and_work(part: np.ndarray) -> int:
            arcs = self._scorer.arc_points(states, batch.starts[part], batch.lengths[part], 1)
            scored = _words(batch, part)._replace(arcs=arcs)
            if len(known):
                _keep(scored, known[scored.tokens])
            work(states, scored, part)
            return len(part)

        run_in_parts(score_and_work, batch, options)

    def _trees(
        self, arcs: np.ndarray, scored: _ScoredWords, k: int
    ) -> tuple[np.ndarray, np.ndarray]:
        """The k best trees (B, k, N) under some scores, and what they score (B, k)."""
        trees = np.empty((len(arcs), k, arcs.shape[1]), np.int64)
        scores = np.empty((len(arcs), k))
        failed = native.call(
            "find_trees_batch", self._decoder, arcs, None, None, scored.lengths,
            self._task.single_root, trees, scores,
        )  # fmt: skip
        _require_tree(failed, scored)
        return trees, scores

    def _graphs(
        self, states: np.ndarray, scored: _ScoredWords, trees: np.ndarray, heads: np.ndarray
    ) -> GraphArcs:
        """The graphs found from trees (B, N), with labels; primary heads are written to heads (T,).

        See `multi_parent` and `primary_heads` in gpuparse/inference/approximate/hill_climb.py.
        """
        task, lengths, cells = self._task, scored.lengths, np.empty(scored.arcs.shape, np.bool_)
        native.call(
            "multi_parent_batch", scored.arcs, None, None, lengths,
            ChangeLimits(task.single_root, -1, task.min_gain), np.ascontiguousarray(trees), cells,
            np.empty(len(cells)),
        )  # fmt: skip
        b, m, h = np.nonzero(cells.transpose(0, 2, 1))
        words = (np.cumsum(lengths) - lengths)[b] + m - 1
        arcs = GraphArcs(scored.tokens[words], h, np.full(len(h), -1))
        nearest_last = np.argsort(-2 * abs(h - m) - (h > m), kind="stable")
        heads[arcs.tokens[nearest_last]] = h[nearest_last]
        self._label_arcs(states, scored.roots[words], heads, arcs)
        return arcs

    def _label_arcs(
        self, states: np.ndarray, roots: np.ndarray, heads: np.ndarray, arcs: GraphArcs
    ) -> None:
        """Fill in the best labels of arcs of graphs.

        Args: roots: (A,) the token of each arc's root. heads: (T,) the primary ones.
        """
        task = self._task
        if not task.n_labels:
            return
        points = self._scorer.label_points(states, roots + arcs.heads, arcs.tokens, 1)
        if task.may_be_primary is not None:
            is_primary = heads[arcs.tokens] == arcs.heads
            points[is_primary[:, None] & ~task.may_be_primary] = -np.inf
        arcs.labels[:] = points.argmax(1)

    def _sums(self, scored: _ScoredWords) -> tuple[np.ndarray, np.ndarray]:
        """The probabilities of all arcs (B, N, N), and the logarithms of the sums (B,), in nats."""
        nats = scored.arcs.astype(np.float64) * self._task.scales.arc
        marginals, sums = np.empty(nats.shape), np.empty(len(nats))
        failed = native.call(
            "sum_trees_batch", self._decoder, nats, None, None, scored.lengths,
            self._task.single_root, marginals, None, None, sums,
        )  # fmt: skip
        _require_tree(failed, scored)
        return marginals, sums

    def _write(
        self, states: np.ndarray, scored: _ScoredWords, trees: np.ndarray, heads: np.ndarray,
        labels: np.ndarray,
    ) -> None:  # fmt: skip
        """Write trees (B, N) and their best labels by token."""
        heads[scored.tokens] = trees[scored.sentences, scored.nodes]
        self._label(states, scored, heads, labels)

    def _label(
        self, states: np.ndarray, scored: _ScoredWords, heads: np.ndarray, labels: np.ndarray
    ) -> None:
        """Write the best labels of words with heads; all by token."""
        if self._task.n_labels:
            some = np.flatnonzero(heads[scored.tokens] >= 0)
            points = self._label_points(states, scored, heads, some)
            labels[scored.tokens[some]] = points.argmax(1)

    def _label_points(
        self, states: np.ndarray, scored: _ScoredWords, heads: np.ndarray, some: np.ndarray
    ) -> np.ndarray:
        """(A, L) the scores of labels of some of the words under their heads, by token."""
        tokens = scored.tokens[some]
        return self._scorer.label_points(states, scored.roots[some] + heads[tokens], tokens, 1)

    def _fill(
        self, states: np.ndarray, scored: _ScoredWords, marginals: np.ndarray | None,
        heads: np.ndarray, labels: np.ndarray, found: Marginals,
    ) -> None:  # fmt: skip
        """Fill in the probabilities of K trees, (K, T) heads and labels, -1 for none.

        marginals: of all arcs; None: those of labels alone are asked for.
        """
        for j, (of_heads, of_labels) in enumerate(zip(heads, labels, strict=True)):
            h, label = of_heads[scored.tokens], of_labels[scored.tokens]
            if marginals is not None:
                of_arcs = marginals[scored.sentences, h.clip(min=0), scored.nodes].clip(0.0, 1.0)
                found.heads[j, scored.tokens] = np.where(h >= 0, of_arcs, np.nan)
            some = np.flatnonzero((h >= 0) & (label >= 0))
            if len(some):
                nats = self._label_points(states, scored, of_heads, some).astype(np.float64)
                nats *= self._task.scales.label
                shares = np.exp(nats - nats.max(1, keepdims=True))
                of_best = shares[np.arange(len(some)), label[some]] / shares.sum(1)
                found.labels[j, scored.tokens[some]] = of_best


def _words(batch: EncodedPieces, part: np.ndarray) -> _ScoredWords:
    """The words of some sentences, without scores."""
    starts, lengths = batch.starts[part], batch.lengths[part]
    sentences, nodes = np.nonzero(np.arange(1, lengths.max(initial=0) + 1) <= lengths[:, None])
    roots = starts[sentences]
    return _ScoredWords(_NONE, lengths, sentences, nodes + 1, roots + nodes + 1, roots)


def _keep(scored: _ScoredWords, known: np.ndarray) -> None:
    """Forbid all other heads of words whose heads are known, (W,), -1 for none."""
    b, m, h = (each[known >= 0] for each in (scored.sentences, scored.nodes, known))
    kept = scored.arcs[b, h, m]
    scored.arcs[b, :, m] = -np.inf
    scored.arcs[b, h, m] = kept


def _require_tree(failed: int, scored: _ScoredWords) -> None:
    """Raise the error for a sentence without a tree, -1 for none."""
    if failed >= 0:
        if (scored.arcs[failed] == -np.inf).any():
            raise NoTreeError("a sentence has no tree with its known heads")
        raise ScoreError("scores of arcs are not finite")
