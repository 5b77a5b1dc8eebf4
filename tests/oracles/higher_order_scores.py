"""Rows and scores of parts of three and four words in torch: of listed parts, and dense."""

import torch
from torch import Tensor

from gpuparse.data.parts import BY_NAME, HIGHER_ORDER, MOST_WORDS
from gpuparse.features.plan import HigherPlan
from gpuparse.scorers.linear.embedding_bag import sum_rows
from gpuparse.scorers.linear.hashing import fold, mix
from gpuparse.scorers.linear.part_rows import ABSENT_WORD
from gpuparse.scorers.linear.weights import FeatureMap, Weights
from gpuparse.scorers.tensors import TensorBatch
from tests.scoring.forms import AnyBatch, as_tensors

RIGHT, BELOW = 0x5BD1E995, 0xB5297A4D  # into the hash: m stands to the right of h, h to that of g
PART_SEED = 1 << 16  # of higher-order templates; families of arcs and siblings have smaller ones


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
        kind: the name of one of `gpuparse.data.parts.HIGHER_ORDER`.
        parts: (P, 1 + words) int64: the sentence, then the part's words in the order of its roles,
            0 for absent words; on the device of the batch.
        batch, plan, features, weights: as in `gpuparse.scorers.linear.arcs.arc_scores`.
    Returns: (P, D) float64 for integer weights, exact; else float32. D: columns of the weights.
    Cost: a row per template and part.
    Source: Carreras (2007), section 2.2; the parts of Koo & Collins (2010).
    """
    return sum_rows(weights, higher_rows(kind, parts, batch, plan, features, len(weights.array)))


def dense_higher_scores(
    kind: str,
    is_arc: Tensor,
    batch: TensorBatch,
    plan: HigherPlan,
    features: FeatureMap,
    weights: Weights,
) -> Tensor:
    """Scores of all parts of one kind whose arcs are among some, as decoders read them.

    Args: is_arc: (B, N, N) bool, [b, h, m]. Others: as in `higher_scores`.
    Returns: (B, N, ..., D) float64, by the axes of the kind; 0 for what is no part.
    """
    roles, axes, absent = BY_NAME[kind].roles, BY_NAME[kind].axes, dict(BY_NAME[kind].absent)
    cells = part_cells(kind, is_arc)
    at = {axis: cells[:, 1 + number] for number, axis in enumerate(axes)}
    words = [cells[:, 0]]
    for role in roles:
        word = at[role]
        if role in absent:
            word = torch.where(word == at[absent[role]], ABSENT_WORD, word)
        words.append(word)
    scores = higher_scores(kind, torch.stack(words, 1), batch, plan, features, weights)
    dense = scores.new_zeros(*is_arc.shape, *[is_arc.shape[1]] * (len(axes) - 2), scores.shape[1])
    dense[cells.unbind(1)] = scores
    return dense.double()


def part_cells(kind: str, is_arc: Tensor) -> Tensor:
    """The parts of a kind whose arcs are among some: (P, 1 + axes) the sentence, and a cell.

    Args: is_arc: (B, N, N) bool, [b, h, m].
    """
    absent, nodes = dict(BY_NAME[kind].absent), torch.arange(is_arc.shape[1], device=is_arc.device)
    cells = is_arc.nonzero()
    for axis in BY_NAME[kind].axes[2:]:
        b, h, m = (cells[:, column, None] for column in range(3))
        if axis == "g":
            among = is_arc[b[:, 0], :, h[:, 0]] & (nodes != m)
            among |= (h == 0) & (nodes == 0)
        else:
            of = m if absent[axis] == "m" else h
            end = cells[:, 3:4] if axis == "t" else m
            among = ((nodes > h) & (nodes < end)) | ((nodes < h) & (nodes > end))
            if kind == "outer_grandchild":
                among = torch.where(h < m, nodes > m, nodes < m)
            among &= is_arc[b[:, 0], of[:, 0]]
            among |= nodes == of
        part, word = among.nonzero(as_tuple=True)
        cells = torch.cat([cells[part], word[:, None]], 1)
    return cells


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
