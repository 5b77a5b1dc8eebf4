"""The interface of searchers: they find trees, their probabilities and labels under scores."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import numpy as np

from gpuparse.data.batch import Encoded, word_places
from gpuparse.errors import ScoreError, require
from gpuparse.inference.decoders import DECODERS, Engine
from gpuparse.model.engines.results import GraphArcs, LabelLimits, SearchResult


class Scales(NamedTuple):
    """Nats of one point of a tree's score, and of a label's score.

    is_calibrated: whether they were fitted to trees that were not learned from.
    """

    arc: float = 1.0
    label: float = 1.0
    is_calibrated: bool = False


@dataclass(frozen=True, eq=False)
class SearchTask:
    """The task of a search: the fields of `Parser` that are no scores.

    n_labels: 0 without labels. may_be_primary: (labels,) bool, of graphs: the labels that arcs from
    primary heads may have. limits: see `LabelLimits`.
    """

    decoder: str
    single_root: bool
    min_gain: float
    scales: Scales
    n_labels: int
    may_be_primary: np.ndarray | None = None
    limits: LabelLimits | None = None


@dataclass(frozen=True, eq=False)
class BatchOptions:
    """Resources for a batch, which change no result of exact scorers, and what is asked for.

    batch_size: most sentences at a time. threads: CPU threads, each with batches of its own; on
    another device there is one. sent: the batch on the device, of `send`, if it is there already.
    progress: called with the number of sentences finished. probabilities: whether those of heads
    and labels are asked for. least_risk: whether `marginals` finds the trees with the most heads
    expected to be right, in place of the best ones.
    """

    batch_size: int = 64
    threads: int = 1
    sent: Any = None
    progress: Callable[[int], None] = field(default=lambda sentences: None)
    probabilities: bool = False
    least_risk: bool = False


class Marginals(NamedTuple):
    """Probabilities by token, NaN where nothing is asked or known.

    heads: (K, T) of the arcs of K trees. labels: (K, T) of their labels, given the arcs.
    """

    heads: np.ndarray
    labels: np.ndarray


def empty_marginals(k: int, n_tokens: int) -> Marginals:
    """Probabilities to be filled in."""
    return Marginals(np.full((k, n_tokens), np.nan), np.full((k, n_tokens), np.nan))


class BestTrees(NamedTuple):
    """K trees of each of B sentences of a batch, the best first.

    heads, labels: (K, T) int64 by token, -1 where a sentence has fewer trees. scores: (K, B) in
    points, -inf where there is no such tree. log_partitions: (B,) in nats, and marginals, if
    probabilities are asked for.
    """

    heads: np.ndarray
    labels: np.ndarray
    scores: np.ndarray
    log_partitions: np.ndarray
    marginals: Marginals

    @classmethod
    def empty(cls, k: int, batch: Encoded) -> "BestTrees":
        """Room for what is found."""
        heads, labels = np.full((2, k, batch.n_tokens), -1, np.int64)
        scores = np.full((k, len(batch)), -np.inf)
        marginals = empty_marginals(k, batch.n_tokens)
        return cls(heads, labels, scores, np.zeros(len(batch)), marginals)

    def copy_sentences(self, which: np.ndarray, some: Encoded, found: "BestTrees") -> None:
        """Take over the trees of some sentences, of the given numbers (S,)."""
        tokens = word_places(some)
        self.scores[:, which] = found.scores
        self.log_partitions[which] = found.log_partitions
        for mine, its in (
            (self.heads, found.heads), (self.labels, found.labels),
            *zip(self.marginals, found.marginals, strict=True),
        ):  # fmt: skip
            mine[:, tokens] = its[:, tokens]


class Searcher(Protocol):
    """Finds trees of a batch of sentences; many threads may use it at once.

    known: (T,) heads by token that all trees have, -1 for none; empty: nothing is known.
    """

    def send(self, batch: Encoded) -> Any:
        """The batch on its way to the device, for `BatchOptions`; None for native code."""

    def best(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """The best trees or graphs, and their labels.

        Raises: NoTreeError: a sentence has no tree with its known heads.
        """

    def marginals(self, batch: Encoded, known: np.ndarray, options: BatchOptions) -> SearchResult:
        """The best trees, or those of the least risk, with their probabilities.

        Raises: NoTreeError: as `best`.
        """

    def k_best(self, batch: Encoded, known: np.ndarray, k: int, options: BatchOptions) -> BestTrees:
        """The k best trees, with labels and, if asked for, probabilities.

        Raises: NoTreeError: as `best`.
        """

    def probabilities_of(
        self, batch: Encoded, heads: np.ndarray, labels: np.ndarray, which: str,
        options: BatchOptions,
    ) -> Marginals:  # fmt: skip
        """(1, T) those of given heads, and of given labels under them, (T,) each, -1 for none.

        which: "heads", "labels" or "both"; labels that are found with the trees come with them.
        """

    def label_trees(self, batch: Encoded, found: SearchResult) -> None:
        """Fill in the labels of finished trees, if that is when they are found."""

    def label_graphs(self, batch: Encoded, heads: np.ndarray, arcs: GraphArcs) -> None:
        """Fill in the labels of arcs of a batch's graphs; heads: (T,) the primary ones."""


def engine_of(decoder: str, device: str, engine: str, *, is_fused: bool) -> Engine:
    """The engine of tree search that runs: "native", "torch" or "triton".

    Args:
        decoder: a name in `DECODERS`.
        device: "cpu" or "cuda".
        engine: "auto" or one of `ENGINES`.
        is_fused: whether the scorers have native forms, which alone score parts of higher orders.
    Raises:
        ScoreError: an unknown engine, or one that cannot run this decoder there.
        MissingPackageError: the device or the engine needs torch, which is not installed.
    """
    is_native = device == "cpu" and engine in ("auto", "native")
    if is_fused and DECODERS[decoder].is_higher_order and not is_native:
        raise ScoreError(
            f"decoder {decoder} parses in native code, on the CPU: give device cpu, and engine"
            " auto or native"
        )
    if is_native:
        return "native"
    require(f"device {device}" if device != "cpu" else f"engine {engine}", "torch")
    import torch  # native code needs none of it

    from gpuparse.inference.engines import choose_engine

    has_kernels = not DECODERS[decoder].is_higher_order
    return choose_engine(engine, torch.device(device), has_kernels=has_kernels)
