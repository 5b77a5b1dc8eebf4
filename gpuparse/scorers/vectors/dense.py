"""The scores of word vectors as dense tensors, on any device."""

import torch
from torch import Tensor

from gpuparse.data.batch import Batch, Encoded
from gpuparse.inference.scores import Scores
from gpuparse.scorers.tensors import Arcs, SentValues, tensors_over
from gpuparse.scorers.vectors.scorer import VectorScorer
from gpuparse.scorers.vectors.scores import DeviceVectors, NodeVectors, added_vectors


class DenseVectors:
    """The scores of word vectors in torch; see `gpuparse.scorers.scorer.TorchScorer`."""

    def __init__(self, scorer: VectorScorer) -> None:
        self._numbers, self._n_labels = scorer.numbers, scorer.n_labels
        self.has_labels = scorer.has_labels
        self._of_devices = scorer.of_devices

    def send(self, encoded: Encoded, device: torch.device) -> SentValues:
        """The values of the batch, on their way to the device."""
        assert isinstance(encoded, Batch)
        return SentValues.to(encoded.values, device)

    def part(self, sent: SentValues, some: Encoded) -> NodeVectors:
        """The vectors of all nodes of some sentences."""
        values = sent.arrived()
        if values.device not in self._of_devices:
            self._of_devices[values.device] = DeviceVectors(self._numbers, values.device)
        return self._of_devices[values.device].nodes(tensors_over(values, some))

    def score(self, part: NodeVectors, before: Scores | None = None) -> Scores:
        """The scores of arcs and of further pairs; those before count for open arcs alone."""
        return added_vectors(part, before)

    def label_scores(
        self, part: NodeVectors, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L); scores before count for the arcs whose labels the vectors leave open."""
        found = part.labels(*arcs)[..., : self._n_labels]
        return found if before is None else part.with_labels(before, found)

    def arc_label_scores(self, part: NodeVectors, before: Tensor | None = None) -> Tensor:
        """(B, N, N, L), added to those before."""
        found = part.all_labels()[..., : self._n_labels]
        return found if before is None else before + found
