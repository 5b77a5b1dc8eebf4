"""The scores of templates as dense tensors, on any device."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor

from gpuparse.data.batch import Batch, Encoded
from gpuparse.errors import ScoreError
from gpuparse.features.plan import Plan
from gpuparse.inference.decoders import Engine
from gpuparse.inference.scores import Scores
from gpuparse.scorers.linear.arcs import arc_scores, guide_scores
from gpuparse.scorers.linear.labels import all_label_scores, arc_label_scores
from gpuparse.scorers.linear.scorer import LinearScorer
from gpuparse.scorers.linear.siblings import sibling_scores
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import Arcs, SentValues, TensorBatch, added, tensors_over


class DenseTemplates:
    """The scores of templates in torch; see `gpuparse.scorers.scorer.TorchScorer`."""

    def __init__(self, scorer: LinearScorer, engine: Engine) -> None:
        self._scorer, self._engine, self.has_labels = scorer, engine, scorer.has_labels

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
        given = scorer.plan, scorer.features, scorer.arcs
        return added(before, template_scores(part, *given, self._engine))

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


class _SumFunctions(NamedTuple):
    """The functions that sum the weights of parts."""

    arcs: Callable[..., Tensor]
    guides: Callable[..., Tensor]
    siblings: Callable[..., tuple[Tensor, Tensor]]


_BAGS = _SumFunctions(arc_scores, guide_scores, sibling_scores)


def _kernels() -> _SumFunctions:
    from gpuparse.scorers.linear import triton_sums as kernels  # and Triton with it

    return _SumFunctions(kernels.arc_scores, kernels.guide_scores, kernels.sibling_scores)


def template_scores(
    batch: TensorBatch, plan: Plan, features: FeatureMap, weights: Weights, engine: Engine
) -> Scores:
    """The scores of arcs, siblings and ends of a batch, on its device.

    engine: "triton": the kernels sum them; else bags.

    Raises: ScoreError: the plan has parts of higher orders, which native code alone scores.
    """
    if plan.higher is not None and len(plan.higher.sides):
        raise ScoreError("templates of higher orders are scored in native code, on the CPU")
    given, sums = (features, weights), _kernels() if engine == "triton" else _BAGS
    arcs = sums.arcs(batch, plan.arcs, *given)
    if plan.guide:
        arcs += sums.guides(batch, plan.guide, *given)
    if plan.siblings is None:
        return Scores(arcs, batch.lengths)
    siblings, ends = sums.siblings(batch, plan.siblings, *given)
    return Scores(arcs, batch.lengths, sibling=siblings, end=ends)
