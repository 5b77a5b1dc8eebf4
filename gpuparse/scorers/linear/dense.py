"""The scores of templates as dense tensors, on any device."""

import torch
from torch import Tensor

from gpuparse.data.batch import Batch, Encoded
from gpuparse.errors import ScoreError
from gpuparse.features.plan import Plan
from gpuparse.inference.scores import Scores
from gpuparse.scorers.linear.arcs import arc_scores, guide_scores
from gpuparse.scorers.linear.labels import all_label_scores, arc_label_scores
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.linear.siblings import sibling_scores
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import Arcs, SentValues, TensorBatch, added, tensors_over


class DenseTemplates:
    """The scores of templates in torch; see `gpuparse.scorers.scorer.TorchScorer`."""

    def __init__(self, scorer: LinearScorer) -> None:
        self._scorer, self.has_labels = scorer, scorer.has_labels

    def send(self, encoded: Encoded, device: torch.device) -> SentValues:
        """The values of the batch, on their way to the device."""
        assert isinstance(encoded, Batch)
        return SentValues.to(encoded.values, device)

    def part(self, sent: SentValues, some: Encoded) -> TensorBatch:
        """Some sentences over the values that were sent."""
        return tensors_over(sent.arrived(), some)

    def score(self, part: TensorBatch, before: Scores | None = None) -> Scores:
        """The scores of arcs, siblings and ends, added to those before.

        Raises: ScoreError: there are templates of higher orders, whose scores are no tensors.
        """
        scorer = self._scorer
        return added(before, template_scores(part, scorer.plan, scorer.features, scorer.arcs))

    def label_scores(
        self, part: TensorBatch, heads: Tensor, arcs: Arcs, before: Tensor | None = None
    ) -> Tensor:
        """(A, L) the sums of the features of the labels of arcs."""
        plan, weights = self._scorer.label_plan, self._scorer.label_weights
        assert plan is not None
        assert weights is not None
        found = arc_label_scores(part, heads, arcs, plan, weights)
        return found if before is None else before + found

    def arc_label_scores(self, part: TensorBatch, before: Tensor | None = None) -> Tensor:
        """(B, N, N, L) the sums of the features of labels that are found with the trees."""
        plan, weights = self._scorer.joint_plan, self._scorer.label_weights
        assert plan is not None
        assert weights is not None
        found = all_label_scores(part, plan, weights)
        return found if before is None else before + found


def template_scores(
    batch: TensorBatch, plan: Plan, features: FeatureMap, weights: Weights
) -> Scores:
    """The scores of arcs, siblings and ends of a batch, on its device.

    Raises: ScoreError: the plan has parts of higher orders, which native code alone scores.
    """
    if plan.higher is not None and len(plan.higher.sides):
        raise ScoreError("templates of higher orders are scored in native code, on the CPU")
    given = features, weights
    arcs = arc_scores(batch, plan.arcs, *given)
    if plan.guide:
        arcs += guide_scores(batch, plan.guide, *given)
    if plan.siblings is None:
        return Scores(arcs, batch.lengths)
    siblings, ends = sibling_scores(batch, plan.siblings, *given)
    return Scores(arcs, batch.lengths, sibling=siblings, end=ends)
