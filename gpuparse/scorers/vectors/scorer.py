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
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.scorer import Scorer
from gpuparse.scorers.sizes import PartSize, sentence_cells
from gpuparse.scorers.vectors.explained import ExplainedVectors
from gpuparse.scorers.vectors.word_vectors import WordVectors

if TYPE_CHECKING:
    from torch import Tensor, device

    from gpuparse.inference.scores import Scores
    from gpuparse.scorers.scorer import Arcs
    from gpuparse.scorers.tensors import SentValues
    from gpuparse.scorers.vectors.scores import DeviceVectors, NodeVectors

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
    def _of_device(self) -> dict[device, DeviceVectors]:
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

    def send(self, encoded: Encoded, device: device) -> SentValues:
        """The values of the batch, on their way to the device."""
        from gpuparse.scorers.tensors import SentValues  # and torch with it

        assert isinstance(encoded, Batch)
        return SentValues.to(encoded.values, device)

    def part(self, sent: SentValues, some: Encoded) -> NodeVectors:
        """The vectors of all nodes of some sentences."""
        from gpuparse.scorers.tensors import tensors_over
        from gpuparse.scorers.vectors.scores import DeviceVectors

        values = sent.arrived()
        if values.device not in self._of_device:
            self._of_device[values.device] = DeviceVectors(self.numbers, values.device)
        return self._of_device[values.device].nodes(tensors_over(values, some))

    def score(self, part: NodeVectors, before: Scores | None = None) -> Scores:
        """The scores of arcs and of further pairs; those before count for open arcs alone."""
        from gpuparse.scorers.vectors.scores import added_vectors

        return added_vectors(part, before)

    def label_scores(
        self, part: NodeVectors, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L); scores before count for the arcs whose labels the vectors leave open."""
        found = part.labels(*arcs)[..., : self.n_labels]
        return found if before is None else part.with_labels(before, found)

    def arc_label_scores(self, part: NodeVectors, before: Tensor | None = None) -> Tensor:
        """(B, N, N, L), added to those before."""
        found = part.all_labels()[..., : self.n_labels]
        return found if before is None else before + found


def vectors_of(scorers: Iterable[Scorer]) -> WordVectors | None:
    """The word vectors among scorers; None: there are none."""
    found = (each.numbers for each in scorers if isinstance(each, VectorScorer))
    return next(found, None)
