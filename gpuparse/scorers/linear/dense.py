"""The scores of templates as dense tensors, on any device."""

from gpuparse.errors import ScoreError
from gpuparse.features.plan import Plan
from gpuparse.inference.scores import Scores
from gpuparse.scorers.linear.arcs import arc_scores, guide_scores
from gpuparse.scorers.linear.siblings import sibling_scores
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import TensorBatch


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
