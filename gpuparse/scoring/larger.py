"""Scores of parts of three and four words in torch: what compiled blocks are made of."""

import numpy as np
import torch
from torch import Tensor

from gpuparse.features.keys import fold_torch, mix_torch
from gpuparse.features.larger_plan import BELOW, RIGHT, SLOTS, LargerPlan
from gpuparse.features.templates import LARGER_PARTS
from gpuparse.inference.kernels.cpu.larger_parts import NOBODY
from gpuparse.scoring.cpu_larger import HEAD_SLOT, MODIFIER_SLOT, SEED
from gpuparse.scoring.feature_map import FeatureMap
from gpuparse.scoring.tensor_batch import AnyBatch, TensorBatch, as_tensors
from gpuparse.scoring.weights import Weights, sum_bags


def larger_scores(
    kind: str,
    parts: Tensor,
    batch: AnyBatch,
    plan: LargerPlan,
    features: FeatureMap,
    weights: Weights,
) -> Tensor:
    """Scores of parts of one kind.

    Args:
        kind: a name in `LARGER_PARTS`.
        parts: (P, 1 + words) int64: the sentence, then the part's words in the order of its roles,
            0 for who is not there; on the device of the batch.
        batch, plan, features, weights: as of `gpuparse.scoring.arcs.arc_scores`.
    Returns:
        (P,) float64 for whole-number weights, exact; else float32.
    Cost: a row a template and part.
    Source: Carreras (2007), section 2.2; the parts of Koo & Collins (2010).
    """
    bag = weights.bag(parts.device, max(1, len(plan.sides)))
    rows = larger_rows(kind, parts, batch, plan, features, len(weights.array))
    dtype = torch.float64 if weights.is_integer else torch.float32
    if rows.shape[1] == 0:
        return torch.zeros(len(parts), dtype=dtype, device=parts.device)
    return sum_bags(bag, rows)[:, 0].to(dtype)


def larger_rows(
    kind: str, parts: Tensor, batch: AnyBatch, plan: LargerPlan, features: FeatureMap, silent: int
) -> Tensor:
    """(P, F) rows of the F templates of a kind, `silent` where one does not fire."""
    batch, number = as_tensors(batch), LARGER_PARTS.index(kind)
    first, last = plan.family_start[number : number + 2].tolist()
    places = batch.starts[parts[:, 0], None] + parts[:, 1:]
    h, m = parts[:, 1 + HEAD_SLOT[number]], parts[:, 1 + MODIFIER_SLOT[number]]
    lines = []
    for look in range(first, last):
        key = torch.zeros_like(h)
        fires = torch.ones_like(h, dtype=torch.bool)
        for slot in range(parts.shape[1] - 1):
            side = int(plan.sides[look, slot])
            if side == 0:
                continue
            of_word, is_there = _side(side, places[:, slot], parts[:, 1 + slot], batch, plan)
            key ^= mix_torch(of_word, SEED + SLOTS * look + slot)
            fires &= is_there
        if plan.with_direction[look]:
            key ^= torch.where(h < m, RIGHT, 0)
            if HEAD_SLOT[number] == 1:
                key ^= torch.where(parts[:, 1] < h, BELOW, 0)
        lines.append(torch.where(fires, (key * features.rows.rows) >> 32, silent))
    return torch.stack(lines, 1) if lines else parts.new_zeros((len(parts), 0))


def _side(
    side: int, places: Tensor, words: Tensor, batch: TensorBatch, plan: LargerPlan
) -> tuple[Tensor, Tensor]:
    """What is read of each word by one side, and whether all of it has a value."""
    key, is_there = torch.zeros_like(places), torch.ones_like(places, dtype=torch.bool)
    atoms = plan.atoms[plan.side_start[side] : plan.side_start[side + 1]]
    for row, offset in np.asarray(atoms).tolist():
        value = batch.values[row].long()[places + offset]
        key = fold_torch(key, value)
        is_there &= (value != 0) & ((words != NOBODY) | (offset == 0))
    return key, is_there
