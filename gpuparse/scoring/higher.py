"""Scores of parts of three and four words in torch: what native blocks are made of."""

import torch
from torch import Tensor

from gpuparse.features.keys import fold, mix
from gpuparse.features.plan import BELOW, PART_SEED, RIGHT, HigherPlan
from gpuparse.parts import HIGHER_ORDER, MOST_WORDS
from gpuparse.scoring.tensors import AnyBatch, TensorBatch, as_tensors, bag_of, sum_bags
from gpuparse.scoring.weights import FeatureMap, Weights

ABSENT_WORD = 0  # stands for a word that a part does not have


def higher_scores(
    kind: str,
    parts: Tensor,
    batch: AnyBatch,
    plan: HigherPlan,
    features: FeatureMap,
    weights: Weights,
) -> Tensor:
    """Scores of parts of one kind.

    Args:
        kind: the name of one of `gpuparse.parts.HIGHER_ORDER`.
        parts: (P, 1 + words) int64: the sentence, then the part's words in the order of its roles,
            0 for absent words; on the device of the batch.
        batch, plan, features, weights: as in `gpuparse.scoring.arcs.arc_scores`.
    Returns:
        (P,) float64 for integer weights, exact; else float32.
    Cost: a row a template and part.
    Source: Carreras (2007), section 2.2; the parts of Koo & Collins (2010).
    """
    bag = bag_of(weights, parts.device, max(1, len(plan.sides)))
    rows = higher_rows(kind, parts, batch, plan, features, len(weights.array))
    dtype = torch.float64 if weights.is_integer else torch.float32
    if rows.shape[1] == 0:
        return torch.zeros(len(parts), dtype=dtype, device=parts.device)
    return sum_bags(bag, rows)[:, 0].to(dtype)


def higher_rows(
    kind: str, parts: Tensor, batch: AnyBatch, plan: HigherPlan, features: FeatureMap, silent: int
) -> Tensor:
    """(P, F) rows of the F templates of a kind, `silent` where one does not fire."""
    batch, number = as_tensors(batch), [each.name for each in HIGHER_ORDER].index(kind)
    roles = HIGHER_ORDER[number].roles
    first, last = plan.family_start[number : number + 2].tolist()
    places = batch.starts[parts[:, 0], None] + parts[:, 1:]
    h, m = parts[:, 1 + roles.index("h")], parts[:, 1 + roles.index("m")]
    rows = []
    for term in range(first, last):
        key = torch.zeros_like(h)
        fires = torch.ones_like(h, dtype=torch.bool)
        for position in range(len(roles)):
            side = int(plan.sides[term, position])
            if side == 0:
                continue
            of_word, has_values = _side(
                side, places[:, position], parts[:, 1 + position], batch, plan
            )
            key ^= mix(of_word, PART_SEED + MOST_WORDS * term + position)
            fires &= has_values
        if plan.with_direction[term]:
            key ^= torch.where(h < m, RIGHT, 0)
            if roles[0] == "g":
                key ^= torch.where(parts[:, 1] < h, BELOW, 0)
        rows.append(torch.where(fires, (key * features.rows.rows) >> 32, silent))
    return torch.stack(rows, 1) if rows else parts.new_zeros((len(parts), 0))


def _side(
    side: int, places: Tensor, words: Tensor, batch: TensorBatch, plan: HigherPlan
) -> tuple[Tensor, Tensor]:
    """The key of what one side reads of each word, and whether all of it has a value."""
    key, has_values = torch.zeros_like(places), torch.ones_like(places, dtype=torch.bool)
    for row, offset in plan.atoms[plan.side_start[side] : plan.side_start[side + 1]].tolist():
        value = batch.values[row].long()[places + offset]
        key = fold(key, value)
        has_values &= (value != 0) & ((words != ABSENT_WORD) | (offset == 0))
    return key, has_values
