"""The fused engine: token values to heads and labels in native calls that score and search."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch, Encoded, incomplete
from gpuparse.inference.decoders import DECODERS
from gpuparse.model.engines.admission import run_in_parts
from gpuparse.model.engines.results import GraphArcs, SearchResult, arcs_of_cells, found_graphs
from gpuparse.model.engines.searcher import (
    BatchOptions,
    BestTrees,
    Marginals,
    SearchTask,
    empty_marginals,
)
from gpuparse.scorers.linear.pruning import all_cells, prune
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.native import (
    ArcCells,
    GraphHeads,
    make_scorer,
    make_search,
    require_all,
    sentences_of,
)
from gpuparse.scorers.scorer import Scorer
from gpuparse.scorers.vectors.scorer import VectorScorer

_NONE = np.zeros(0, np.int64)


def fused_engine(scorers: Sequence[Scorer], task: SearchTask) -> Fused | None:
    """The engine of scorers that have native forms; None for others."""
    first, *others = scorers
    if not isinstance(first, LinearScorer) or len(others) > 1:
        return None
    vectors = others[0] if others else None
    if vectors is None or isinstance(vectors, VectorScorer):
        return Fused(first, vectors, task)
    return None


class Fused:
    """Scoring and search of templates, and of word vectors beside them, in native code."""

    def __init__(
        self, linear: LinearScorer, vectors: VectorScorer | None, task: SearchTask
    ) -> None:
        self.linear, self.vectors, self.task = linear, vectors, task
        self._decoder = DECODERS[task.decoder]
        self.added = None if vectors is None else vectors.struct
        self.scorer = make_scorer(
            linear.plan, linear.arcs, linear.features.rows, linear.plans.joint, self.added
        )
        limits = {} if task.limits is None else task.limits._asdict()
        self.search = make_search(
            task.decoder,
            single_root=task.single_root,
            min_gain=task.min_gain,
            granularity=1.0,  # scores are whole numbers: two different ones are at least 1 apart
            **limits,
        )
        self._label_plan = None
        if linear.label_plan and linear.label_weights:
            self._label_plan = native.struct("LabelPlan", linear.label_plan)

    def send(self, batch: Encoded) -> None:
        """Nothing: native code reads main memory."""

    def best(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        assert isinstance(batch, Batch)
        found, firsts = self.empty(batch), self.empty_firsts(batch)
        if self._decoder.gives_graphs:
            return self._best_graphs(batch, known, found, options)

        def work(part: np.ndarray) -> int:
            some = batch.select(part)
            sentences = sentences_of(some, known, self.kept(some))
            self.find_trees(some, known, found, firsts, sentences)
            self.label_trees(some, found, sentences)
            return len(part)

        run_in_parts(work, batch, options)
        return found

    def marginals(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """See `Searcher`."""
        assert isinstance(batch, Batch)
        found, firsts = self.empty(batch), self.empty_firsts(batch)
        of_trees = empty_marginals(1, batch.n_tokens)

        def work(part: np.ndarray) -> int:
            some = batch.select(part)
            if not options.least_risk:
                self.find_trees(some, known, found, firsts)
            self._find_marginals(
                some, known, found.heads[None], found.labels[None], of_trees,
                least_risk=options.least_risk,
            )  # fmt: skip
            self.label_trees(some, found)
            if options.probabilities:
                self._find_label_marginals(some, found, of_trees.labels[0])
            return len(part)

        run_in_parts(work, batch, options)
        if not options.probabilities:
            return found
        return SearchResult(
            found.heads, found.labels,
            head_probabilities=of_trees.heads[0], label_probabilities=of_trees.labels[0],
        )  # fmt: skip

    def k_best(self, batch: Encoded, known: np.ndarray, k: int, options: BatchOptions) -> BestTrees:
        """See `Searcher`."""
        assert isinstance(batch, Batch)
        trees = BestTrees.empty(k, batch)

        def work(part: np.ndarray) -> int:
            some = batch.select(part)
            scores = np.full((k, len(some)), -np.inf)
            require_all(
                native.call(
                    "find_k_best_batch", sentences_of(some, known), self.scorer, self.search,
                    trees.heads, trees.labels, scores,
                )
            )  # fmt: skip
            trees.scores[:, part] = scores
            for j in range(k):
                there = np.flatnonzero(scores[j] > -np.inf)
                if not len(there):
                    continue
                found, with_tree = SearchResult(trees.heads[j], trees.labels[j]), some.select(there)
                self.label_trees(with_tree, found)
                if options.probabilities:
                    self._find_label_marginals(with_tree, found, trees.marginals.labels[j])
            if options.probabilities:
                trees.log_partitions[part] = self._find_marginals(
                    some, known, trees.heads, trees.labels, trees.marginals
                )
            return len(part)

        run_in_parts(work, batch, options)
        return trees

    def probabilities_of(
        self, batch: Encoded, heads: np.ndarray, labels: np.ndarray, which: str,
        options: BatchOptions,
    ) -> Marginals:  # fmt: skip
        """See `Searcher`."""
        assert isinstance(batch, Batch)
        marginals = empty_marginals(1, batch.n_tokens)
        is_whole = ~incomplete(batch, heads)
        found = SearchResult(heads, labels)

        def work(part: np.ndarray) -> int:
            if which != "labels" or self.linear.plans.joint:
                self._find_marginals(
                    batch.select(part), _NONE, heads[None], labels[None], marginals
                )
            whole = part[is_whole[part]]
            if len(whole) and which != "heads":
                self._find_label_marginals(batch.select(whole), found, marginals.labels[0])
            return len(part)

        run_in_parts(work, batch, options)
        return marginals

    def label_trees(
        self, batch: Encoded, found: SearchResult, sentences: native.Struct | None = None
    ) -> None:
        """See `Searcher`; sentences: those of the batch that `find_trees` was given."""
        self._label(batch, found.heads, None, found.labels, sentences)

    def label_graphs(self, batch: Encoded, heads: np.ndarray, arcs: GraphArcs) -> None:
        """See `Searcher`; `arcs` may be of more sentences."""
        graphs = GraphHeads(arcs.starts(len(heads)), arcs.heads, self.task.may_be_primary)
        self._label(batch, heads, graphs, arcs.labels)

    def score_trees(self, batch: Batch, heads: np.ndarray, scores: np.ndarray) -> None:
        """Fill in what given trees score as the decoder adds it; heads: (T,) scores: (B,).

        Raises: NoTreeError: the decoder could not find one.
        """
        require_all(
            native.call(
                "score_trees_batch", sentences_of(batch), self.scorer, self.search, heads, scores
            )
        )

    def empty(self, batch: Batch) -> SearchResult:
        """Room for what is found, by token."""
        heads, labels = np.full((2, batch.n_tokens), -1, np.int64)
        certificates = np.zeros((2, batch.n_tokens), np.int64) if self._decoder.certifies else None
        return SearchResult(heads, labels, certificates=certificates)

    def empty_firsts(self, batch: Batch) -> np.ndarray:
        """Room for where the arcs begin that pruning leaves, by token; none without pruning."""
        return np.zeros(batch.n_tokens if self.linear.pruner else 0, np.int64)

    def kept(self, batch: Batch) -> np.ndarray | None:
        """Room for what trees and labels share."""
        if self._label_plan is None or self.vectors is None:
            return None
        return self.vectors.room(batch)

    def find_trees(
        self,
        batch: Batch,
        known: np.ndarray,
        found: SearchResult,
        firsts: np.ndarray,
        sentences: native.Struct | None = None,
    ) -> None:
        """Fill in the best trees, and their labels if these are found with the trees.

        firsts: of `empty_firsts`. sentences: of the batch, with `kept`, for `label_trees`.
        """
        require_all(
            native.call(
                "parse_batch", sentences or sentences_of(batch, known), self.scorer, self.search,
                self._allowed(batch, known, firsts),
                found.heads, found.labels, found.certificates,
            )
        )  # fmt: skip

    def _find_marginals(
        self,
        batch: Batch,
        known: np.ndarray,
        heads: np.ndarray,
        labels: np.ndarray,
        marginals: Marginals,
        *,
        least_risk: bool = False,
    ) -> np.ndarray:
        """Fill in the probabilities of K trees, and of labels if found with the trees.

        Args:
            heads, labels: (K, T) int64 by token, -1 where nothing is asked.
            least_risk: whether heads[0], and labels[0] if found with the trees, are first to be
                filled with the trees of the most expected right heads.
        Returns: (B,) logarithms of the sums over all trees.
        Cost: one scoring of all arcs and the sums over trees.
        """
        log_partitions, scales = np.zeros(len(batch)), self.task.scales
        require_all(
            native.call(
                "find_marginals_batch", sentences_of(batch, known), self.scorer, self.search,
                scales.arc, scales.label, least_risk, heads, labels, *marginals, log_partitions,
            )
        )  # fmt: skip
        return log_partitions

    def _find_label_marginals(
        self, batch: Batch, found: SearchResult, marginals: np.ndarray
    ) -> None:
        """Fill in those of labels of finished trees, if that is when they are found."""
        if self._label_plan is None:
            return
        assert self.linear.label_weights is not None
        native.call(
            "find_label_marginals_batch", sentences_of(batch), self._label_plan,
            self.linear.label_weights.array, self.added, self.task.scales.label, found.heads,
            found.labels, marginals,
        )  # fmt: skip

    def _label(
        self,
        batch: Any,
        heads: np.ndarray,
        graphs: GraphHeads | None,
        labels: np.ndarray,
        sentences: native.Struct | None = None,
    ) -> None:
        if self._label_plan is None:
            return
        assert self.linear.label_weights is not None
        native.call(
            "label_batch", sentences or sentences_of(batch), self._label_plan,
            self.linear.label_weights.array, self.added, heads, graphs, labels,
        )  # fmt: skip

    def _allowed(self, batch: Batch, known: np.ndarray, firsts: np.ndarray) -> ArcCells | None:
        """The arcs that pruning leaves; None: all."""
        linear = self.linear
        if linear.pruner is None:
            return None
        arcs = all_cells(batch, firsts)
        prune(
            batch, linear.plan, linear.features.rows, linear.pruner, known, arcs,
            single_root=self.task.single_root,
        )  # fmt: skip
        return ArcCells(*arcs)

    def _best_graphs(
        self, batch: Batch, known: np.ndarray, found: SearchResult, options: BatchOptions
    ) -> SearchResult:
        runs: list[GraphArcs] = []

        def search(part: np.ndarray) -> int:
            some = batch.select(part)
            sizes = (some.lengths + 1) ** 2
            firsts, cells = np.cumsum(sizes) - sizes, np.zeros(sizes.sum(), np.bool_)
            require_all(
                native.call(
                    "parse_graphs_batch", sentences_of(some, known), self.scorer, self.search,
                    firsts, found.heads, cells,
                )
            )  # fmt: skip
            runs.append(arcs_of_cells(np.flatnonzero(cells), firsts, some.starts, some.lengths))
            return len(part)

        def label(part: np.ndarray) -> int:
            self._label(batch.select(part), found.heads, heads_of_arcs, arcs.labels)
            return len(part)

        run_in_parts(search, batch, options)
        graphs = found_graphs(found.heads, found.labels, runs)
        assert graphs.arcs is not None
        arcs = graphs.arcs
        starts = arcs.starts(len(found.heads))
        heads_of_arcs = GraphHeads(starts, arcs.heads, self.task.may_be_primary)
        run_in_parts(label, batch, BatchOptions(options.batch_size, options.threads))
        return found_graphs(found.heads, found.labels, [arcs])
