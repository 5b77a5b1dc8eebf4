"""From token values to heads and labels in native code, batch by batch in threads."""

from collections.abc import Callable

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.engines.admission import run_in_parts
from gpuparse.engines.found import Found, GraphArcs, Scored, arcs_of_cells, found_graphs
from gpuparse.inference.decoders import DECODERS
from gpuparse.scorers.linear.pruning import all_cells, prune
from gpuparse.scorers.native import (
    ArcCells,
    GraphHeads,
    make_scorer,
    make_search,
    require_all,
    sentences_of,
)


class NativeParser:
    """A parser's native form; many threads may use it at once."""

    def __init__(self, scored: Scored) -> None:
        self._scored = scored
        self._decoder = DECODERS[scored.decoder]
        self._vectors = None
        if scored.vectors:
            self._vectors = native.struct("WordVectors", scored.vectors)
        self._scorer = make_scorer(
            scored.plan, scored.arcs, scored.features.rows, scored.joint, self._vectors
        )
        limits = {} if scored.limits is None else scored.limits._asdict()
        self._search = make_search(
            scored.decoder,
            single_root=scored.single_root,
            min_gain=scored.min_gain,
            granularity=1.0,  # scores are whole numbers: two different ones are at least 1 apart
            **limits,
        )
        self._label_plan = None
        if scored.label_plan and scored.label_weights:
            self._label_plan = native.struct("LabelPlan", scored.label_plan)

    def parse(
        self,
        batch: Batch,
        known: np.ndarray,
        batch_size: int,
        threads: int,
        progress: Callable[[int], None],
    ) -> Found:
        """Trees or graphs of all sentences of a batch.

        Args:
            known: (T,) heads by token that all trees have, -1 for none; empty: nothing is known.
            batch_size: most sentences that a thread takes at a time.
            progress: called with the number of sentences finished.
        Raises: NoTreeError: a sentence has no tree with its known heads.
        """
        found, firsts = self.empty(batch), self.empty_firsts(batch)
        if self._decoder.gives_graphs:
            return self._parse_graphs(batch, known, found, batch_size, threads, progress)

        def work(part: np.ndarray) -> int:
            some = batch.select(part)
            vectors = self._kept_vectors(some)
            self.find_trees(some, known, found, firsts, vectors)
            self.label_trees(some, found, vectors)
            return len(part)

        run_in_parts(work, batch, batch_size, threads, progress)
        return found

    def empty(self, batch: Batch) -> Found:
        """Room for what is found, by token."""
        n_tokens = batch.values.shape[1]
        heads, labels = np.full((2, n_tokens), -1, np.int64)
        certificates = np.zeros((2, n_tokens), np.int64) if self._decoder.certifies else None
        return Found(heads, labels, certificates=certificates)

    def empty_firsts(self, batch: Batch) -> np.ndarray:
        """Room for where the arcs begin that pruning leaves, by token; none without pruning."""
        return np.zeros(batch.values.shape[1] if self._scored.pruner else 0, np.int64)

    def _kept_vectors(self, batch: Batch) -> np.ndarray | None:
        """Room for the numbers of vectors that labels of finished trees are scored with."""
        vectors = self._scored.vectors
        if self._label_plan is None or vectors is None or not len(vectors.labels):
            return None
        nodes = int((batch.lengths + 1).sum())
        return np.empty((nodes, 4 * len(vectors.labels)), np.int16)

    def find_trees(
        self,
        batch: Batch,
        known: np.ndarray,
        found: Found,
        firsts: np.ndarray,
        vectors: np.ndarray | None = None,
    ) -> None:
        """Fill in the best trees, and their labels if these are found with the trees.

        firsts: of `empty_firsts`. vectors: filled for `label_trees`.
        """
        sentences = sentences_of(batch, known, vectors)
        require_all(
            native.call(
                "parse_batch", sentences, self._scorer, self._search,
                self._allowed(batch, known, firsts),
                found.heads, found.labels, found.certificates,
            )
        )  # fmt: skip

    def label_trees(self, batch: Batch, found: Found, vectors: np.ndarray | None = None) -> None:
        """Fill in the labels of finished trees, if that is when they are found.

        vectors: of `find_trees` with the same batch.
        """
        self._label(batch, found.heads, None, found.labels, vectors)

    def label_graphs(
        self, batch: Batch, heads: np.ndarray, arcs: GraphArcs, starts: np.ndarray
    ) -> None:
        """Fill in the labels of arcs of a batch's graphs; `arcs` may be of more sentences.

        heads: (T,) primary heads by token. starts: (T + 1,) where the arcs of each token begin.
        """
        graphs = GraphHeads(starts, arcs.heads, self._scored.may_be_primary)
        self._label(batch, heads, graphs, arcs.labels)

    def _label(
        self,
        batch: Batch,
        heads: np.ndarray,
        graphs: GraphHeads | None,
        labels: np.ndarray,
        vectors: np.ndarray | None = None,
    ) -> None:
        if self._label_plan is None:
            return
        assert self._scored.label_weights is not None
        native.call(
            "label_batch", sentences_of(batch, vectors=vectors), self._label_plan,
            self._scored.label_weights.array, self._vectors, heads, graphs, labels,
        )  # fmt: skip

    def _allowed(self, batch: Batch, known: np.ndarray, firsts: np.ndarray) -> ArcCells | None:
        """The arcs that pruning leaves; None: all."""
        scored = self._scored
        if scored.pruner is None:
            return None
        arcs = all_cells(batch, firsts)
        prune(
            batch, scored.plan, scored.features.rows, scored.pruner, known, arcs,
            single_root=scored.single_root,
        )  # fmt: skip
        return ArcCells(*arcs)

    def _parse_graphs(
        self,
        batch: Batch,
        known: np.ndarray,
        found: Found,
        batch_size: int,
        threads: int,
        progress: Callable[[int], None],
    ) -> Found:
        runs: list[GraphArcs] = []

        def search(part: np.ndarray) -> int:
            some = batch.select(part)
            sizes = (some.lengths + 1) ** 2
            firsts, cells = np.cumsum(sizes) - sizes, np.zeros(sizes.sum(), np.bool_)
            require_all(
                native.call(
                    "parse_graphs_batch", sentences_of(some, known), self._scorer, self._search,
                    firsts, found.heads, cells,
                )
            )  # fmt: skip
            runs.append(arcs_of_cells(np.flatnonzero(cells), firsts, some.starts, some.lengths))
            return len(part)

        def label(part: np.ndarray) -> int:
            self.label_graphs(batch.select(part), found.heads, arcs, starts)
            return len(part)

        run_in_parts(search, batch, batch_size, threads, progress)
        graphs = found_graphs(found.heads, found.labels, runs)
        assert graphs.arcs is not None
        arcs, starts = graphs.arcs, graphs.arcs.starts(len(found.heads))
        run_in_parts(label, batch, batch_size, threads)
        return found_graphs(found.heads, found.labels, [arcs])
