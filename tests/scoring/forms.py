"""Dense scores of templates by native code, as explanations read them, in torch or by kernels."""

import importlib
from typing import Any

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import ArcPlan, GuidePlan, Plan, SiblingPlan
from gpuparse.scorers.linear import arcs, siblings
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.native import make_scorer, sentences_of
from gpuparse.scorers.tensors import TensorBatch

AnyBatch = Batch | TensorBatch


def device_of(batch: AnyBatch) -> torch.device:
    """Where a batch lies: arrays lie in main memory."""
    return batch.values.device if isinstance(batch, TensorBatch) else torch.device("cpu")


def as_tensors(batch: AnyBatch) -> TensorBatch:
    """The batch as tensors; arrays are not copied."""
    if isinstance(batch, TensorBatch):
        return batch
    return TensorBatch(
        torch.from_numpy(batch.values),
        torch.from_numpy(batch.starts),
        torch.from_numpy(batch.lengths),
        batch.n_nodes - 1,
    )


def as_arrays(batch: AnyBatch) -> Batch:
    """A batch in main memory as arrays; nothing is copied."""
    if isinstance(batch, Batch):
        return batch
    return Batch(batch.values.numpy(), batch.starts.numpy(), batch.lengths.numpy())


def arc_scores(
    batch: AnyBatch, plan: ArcPlan, features: FeatureMap, weights: Weights, *,
    engine: str = "auto", **options: int,
) -> Tensor:  # fmt: skip
    """`gpuparse.scorers.linear.arcs.arc_scores`, or the same of native code."""
    if engine == "triton":
        return _kernels().arc_scores(_on_device(batch), plan, features, weights).cpu()
    if not _is_native(batch, engine):
        return arcs.arc_scores(as_tensors(batch), plan, features, weights, **options)
    [found] = _scored("score_arcs_batch", as_arrays(batch), Plan(plan), features, weights, 3)
    return found


def guide_scores(
    batch: AnyBatch, plan: GuidePlan, features: FeatureMap, weights: Weights, *,
    engine: str = "auto", **options: int,
) -> Tensor:  # fmt: skip
    """`gpuparse.scorers.linear.arcs.guide_scores`, or the same of native code."""
    if engine == "triton":
        return _kernels().guide_scores(_on_device(batch), plan, features, weights).cpu()
    if not _is_native(batch, engine):
        return arcs.guide_scores(as_tensors(batch), plan, features, weights, **options)
    given = Plan(plan.arcs, guide=plan)
    [found] = _scored("score_guides_batch", as_arrays(batch), given, features, weights, 3)
    return found


def sibling_scores(
    batch: AnyBatch, plan: SiblingPlan, features: FeatureMap, weights: Weights, *,
    engine: str = "auto", **options: int,
) -> tuple[Tensor, Tensor]:  # fmt: skip
    """`gpuparse.scorers.linear.siblings.sibling_scores`, or the same of native code."""
    if engine == "triton":
        two = _kernels().sibling_scores(_on_device(batch), plan, features, weights)
        return two[0].cpu(), two[1].cpu()
    if not _is_native(batch, engine):
        return siblings.sibling_scores(as_tensors(batch), plan, features, weights, **options)
    given = Plan(plan.pairs, plan)
    found, ends = _scored("score_siblings_batch", as_arrays(batch), given, features, weights, 4, 3)
    return found, ends


def _kernels() -> Any:
    """The module of kernels, which Triton is imported with."""
    return importlib.import_module("gpuparse.scorers.linear.triton_sums")


def _on_device(batch: AnyBatch) -> TensorBatch:
    """The batch where kernels run: on a GPU, or in main memory in Triton's interpreter."""
    return as_tensors(batch).to(torch.device("cuda" if torch.cuda.is_available() else "cpu"))


def _is_native(batch: AnyBatch, engine: str) -> bool:
    return engine == "native" or (engine == "auto" and device_of(batch).type == "cpu")


def _scored(
    name: str, batch: Batch, plan: Plan, features: FeatureMap, weights: Weights, *axes: int
) -> list[Tensor]:
    """The scores that a native function writes, zeros elsewhere."""
    dtype: Any = np.float64 if weights.is_integer else np.float32
    found = [np.zeros((len(batch), *[batch.n_nodes] * (n - 1)), dtype) for n in axes]
    native.call(name, sentences_of(batch), make_scorer(plan, weights, features.rows), *found)
    return [torch.from_numpy(part) for part in found]
