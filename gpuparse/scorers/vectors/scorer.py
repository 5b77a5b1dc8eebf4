"""The scorer of word vectors: what they add to the scores of templates, in whole numbers."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch, Encoded
from gpuparse.data.cached import cached_property
from gpuparse.data.tag_columns import Column
from gpuparse.data.treebank import Treebank
from gpuparse.errors import ScoreError
from gpuparse.inference.decoders import Engine
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.scorer import Scorer, TorchScorer
from gpuparse.scorers.sizes import PartSize, sentence_cells
from gpuparse.scorers.vectors.explained import ExplainedVectors
from gpuparse.scorers.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from torch import device

    from gpuparse.scorers.vectors.scores import DeviceVectors

KIND = "vectors"


@dataclass(frozen=True, eq=False)
class VectorScorer:
    """Word vectors after a scorer of templates, whose encoding they read.

    labels_with_trees: that of the templates. n_labels: of the parser.
    """

    numbers: WordVectors
    n_labels: int
    labels_with_trees: bool = False

    kind = KIND
    is_exact = True
    replaces_arcs = False
    nats_per_point = (1.0, 1.0)
    reads_guides = False
    fills = ()

    def __getstate__(self) -> dict[str, Any]:
        """The fields, for pickle and copy; what was made of them is made again."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @classmethod
    def after(cls, linear: LinearScorer, numbers: WordVectors) -> VectorScorer:
        """Word vectors after a scorer of templates."""
        labels = linear.label_weights
        n_labels = 0 if labels is None else labels.array.shape[1]
        return cls(numbers, n_labels, linear.labels_with_trees)

    def explained(self, sentences: native.Struct, n_nodes: int) -> ExplainedVectors:
        """Its scores in one sentence, for explanations."""
        return ExplainedVectors(self.numbers, sentences, n_nodes)

    @property
    def has_labels(self) -> bool:
        """True if there are columns of labels."""
        return bool(self.n_labels) and self.numbers.scores("label")

    @property
    def reads(self) -> Mapping[int, Sequence[str]]:
        """Nothing beyond what the scorer before it reads."""
        return {}

    def encode(self, treebank: Treebank, guides: np.ndarray | None = None) -> Encoded:
        """Raises: ScoreError: the scorer before it encodes."""
        raise ScoreError("word vectors are no scorer of their own: templates encode for them")

    def fill(
        self, treebank: Treebank, place: str, threads: int
    ) -> tuple[dict[int, Column], np.ndarray]:
        """No columns."""
        return {}, np.full(treebank.n_words, np.nan)

    def generated(self, lengths: Sequence[int], *, only_known: bool = False) -> Encoded:
        """Raises: ScoreError: as `encode`."""
        raise ScoreError("word vectors are no scorer of their own: templates encode for them")

    def size(self, lengths: np.ndarray) -> np.ndarray:
        """(S,) cells of arcs; those of further kinds are counted with the templates of these."""
        return sentence_cells(lengths, PartSize(2))

    def lower_order(self, *, is_replaced: bool = False) -> VectorScorer:
        """The same vectors; of no weight for arcs whose other scores are in another unit."""
        if not is_replaced:
            return self
        return replace(self, numbers=self.numbers._replace(arc_multiplier=0))

    @cached_property
    def of_devices(self) -> dict[device, DeviceVectors]:
        """The vectors on devices; `in_torch` fills it."""
        return {}

    @cached_property
    def struct(self) -> native.Struct:
        """The vectors as native code takes them."""
        return native.struct("WordVectors", self.numbers)

    def room(self, batch: Batch) -> np.ndarray | None:
        """Room for the numbers of vectors that labels of finished trees are scored with."""
        if self.labels_with_trees or not self.has_labels:
            return None
        nodes = int((batch.lengths + 1).sum())
        return np.empty((nodes, 4 * len(self.numbers.labels)), np.int16)

    def in_torch(self, engine: Engine = "torch") -> TorchScorer:
        """The same scores as dense tensors."""
        from gpuparse.scorers.vectors.dense import DenseVectors  # and torch with it

        return DenseVectors(self)


def vectors_of(scorers: Iterable[Scorer]) -> WordVectors | None:
    """The word vectors among scorers; None: there are none."""
    found = (each.numbers for each in scorers if isinstance(each, VectorScorer))
    return next(found, None)
