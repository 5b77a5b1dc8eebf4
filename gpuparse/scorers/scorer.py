"""The interface of scorers, which turn sentences into scores of parts by any computation.

The scorers of a parser are summed: each is given the scores of those before it, and returns the
sums. The first one encodes the sentences for all. Decoders and labels read nothing but tensors.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from gpuparse.data.batch import Encoded
from gpuparse.data.tag_columns import Column
from gpuparse.data.treebank import Treebank

if TYPE_CHECKING:
    from torch import Tensor, device

    from gpuparse.inference.decoders import Engine
    from gpuparse.inference.scores import Scores
    from gpuparse.scorers.tensors import Arcs


class Scorer(Protocol):
    """Scores of the parts and labels of sentences; frozen, many threads may use it at once.

    kind: its name in the manifest of a model folder.
    is_exact: whether scores are whole numbers, the same on every device and in every batch.
    has_labels: whether it scores labels. labels_with_trees: whether these are found with the trees,
    so that their scores are those of any arc, and count in the score of a tree.
    """

    @property
    def kind(self) -> str: ...

    @property
    def is_exact(self) -> bool: ...

    @property
    def has_labels(self) -> bool: ...

    @property
    def labels_with_trees(self) -> bool: ...

    @property
    def replaces_arcs(self) -> bool:
        """True if `lower_order` scores arcs by other weights than this scorer, as a pruner does."""

    @property
    def nats_per_point(self) -> tuple[float, float]:
        """Nats of one point of a tree's score and of a label's score, before any calibration."""

    @property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """The columns of CoNLL-U that it reads, 0 to 9, and for each the names of its fields."""

    @property
    def reads_guides(self) -> bool:
        """True if it reads heads that another parser proposes."""

    @property
    def fills(self) -> tuple[int, ...]:
        """The columns of CoNLL-U that it fills from the same pass, 0 to 9; see `fill`."""

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Encoded:
        """The sentences of a treebank as one batch; guides: (W,) heads, -1 for none."""

    def fill(
        self, treebank: Treebank, place: str, threads: int
    ) -> tuple[dict[int, Column], np.ndarray]:
        """The columns of `fills`, and (W,) float64 probabilities of UPOS, NaN without it.

        Args: place: "cpu" or "cuda". threads: of native code.
        """

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> Encoded:
        """Random sentences of given lengths, for self-tests; only_known: of known values alone."""

    def size(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) int64 cells of 8 bytes that scores and search of single sentences take."""

    def lower_order(self, *, is_replaced: bool = False) -> Scorer:
        """The scorer of the arcs of sentences that are too long for the parts of higher orders.

        is_replaced: whether arc scores before it are those of another model, in another unit, so
        that nothing may be added to them.
        """

    def in_torch(self, engine: Engine = "torch") -> TorchScorer:
        """The same scores as dense tensors, on any device.

        engine: of tree search; with "triton" scores may come from kernels too.
        """


class TorchScorer(Protocol):
    """The scores of a `Scorer` as dense tensors.

    has_labels: as there.
    """

    @property
    def has_labels(self) -> bool: ...

    def send(self, encoded: Encoded, device: device) -> Any:
        """The data of a batch that `part` reads, on a device; copying may go on meanwhile."""

    def part(self, sent: Any, some: Encoded) -> Any:
        """Some sentences of the batch that was sent: what all scores of them are computed from."""

    def score(self, part: Any, before: Scores | None = None) -> Scores:
        """The scores of the parts of sentences, as dense tensors, added to those before it."""

    def label_scores(
        self, part: Any, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L) the scores of all labels of some arcs of finished trees or graphs.

        heads: (B, N) int64 trees of the primary heads, -1 where there is no word. arcs: sentences,
        heads and modifiers, (A,) each. Only with labels of finished trees.
        """

    def arc_label_scores(self, part: Any, before: Tensor | None = None) -> Tensor:
        """(B, N, N, L) the scores of all labels of all arcs, if they are found with the trees."""


@runtime_checkable
class FillsTags(Protocol):
    """A scorer that fills columns of tags, whose probabilities can be calibrated."""

    @property
    def tag_scale(self) -> float:
        """The factor of scores of UPOS in its probabilities."""

    def tag_losses(self, treebank: Treebank) -> Callable[[float], float] | None:
        """The mean -ln of the probability of known gold UPOS, as a function of the scale.

        Returns: a function of the scale; None where no word has such a tag.
        """

    def with_tag_scale(self, scale: float) -> Self:
        """The same with another scale of tags; the tags that it finds do not change."""


@runtime_checkable
class ReadsWholes(Protocol):
    """A scorer of arcs that reads sentences as wholes: a score is no sum of weights of features.

    What a word does to a score is found by leaving the word out.
    """

    def without_words(self, encoded: Encoded, words: np.ndarray) -> Iterator[Encoded]:
        """One sentence, once for each of some words, which is left out, so that places stay.

        Args: encoded: of one sentence. words: (V,) from 1 on; 0: no word is left out.
        Returns: the V sentences, in batches that are read at once.
        """

    def head_scores(self, encoded: Encoded, m: int) -> np.ndarray:
        """(B, N) float64 the scores of all heads of word m of sentences of N nodes, on the CPU."""


def cells_of(scorers: Sequence[Scorer], lengths: np.ndarray) -> np.ndarray:
    """The most cells that any of several scorers takes: they are asked one after the other."""
    return functools.reduce(np.maximum, [scorer.size(lengths) for scorer in scorers])


class Sum:
    """The sum of several scorers in torch, which are asked in their order."""

    def __init__(self, scorers: Sequence[Scorer], engine: Engine) -> None:
        self._scorers = [scorer.in_torch(engine) for scorer in scorers]

    def send(self, encoded: Encoded, device: device) -> Any:
        """The data that the first one sends: all read its encoding."""
        return self._scorers[0].send(encoded, device)

    def part(self, sent: Any, some: Encoded) -> list[Any]:
        """A part for each of them."""
        return [scorer.part(sent, some) for scorer in self._scorers]

    def score(self, part: list[Any]) -> Scores:
        """The sums of all scores."""
        total: Any = None
        for scorer, own in zip(self._scorers, part, strict=True):
            total = scorer.score(own, total)
        return total

    def label_scores(self, part: list[Any], heads: Tensor, arcs: Arcs) -> Tensor:
        """(A, L) the sums of all labels of arcs; see `TorchScorer`."""
        total: Any = None
        for scorer, own in zip(self._scorers, part, strict=True):
            if scorer.has_labels:
                total = scorer.label_scores(own, heads, arcs, total)
        return total

    def arc_label_scores(self, part: list[Any]) -> Tensor:
        """(B, N, N, L) the sums of all labels of all arcs; see `TorchScorer`."""
        total: Any = None
        for scorer, own in zip(self._scorers, part, strict=True):
            if scorer.has_labels:
                total = scorer.arc_label_scores(own, total)
        return total
