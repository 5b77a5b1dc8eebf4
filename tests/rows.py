"""Weight rows of parts as native code lists them: the tests know how here alone."""

import numpy as np
import torch

from gpuparse.data.batch import Batch
from gpuparse.features.plan import LINE, ArcPlan, LabelPlan, Plan
from gpuparse.scorers.linear.labels import LabelTables, arc_positions, label_lines
from gpuparse.scorers.linear.part_rows import ListedPart, list_part_rows, listed_number
from gpuparse.scorers.linear.weights import FeatureMap, JointLabels, Weights, hashed_map
from gpuparse.scorers.native import make_scorer
from tests.scoring.forms import as_tensors

WIDE = 1 << 32  # rows of a table in which the features of a few sentences do not collide


def rows_of_parts(
    batch: Batch,
    b: int,
    plan: Plan,
    features: FeatureMap,
    parts: list[tuple[int, int, int, int, int, int]],
    joint: JointLabels | None = None,
) -> list[list[int]]:
    """The rows of parts of sentence b, each as often as its feature fires.

    parts: of each the kind, h, m, third, fourth and label, as `Part` in native/part_list.h.
    """
    scorer = make_scorer(plan, Weights(np.zeros((1, 1), np.float32)), features.rows, joint)
    rows = list_part_rows(
        batch.select(np.array([b])), scorer, [ListedPart(*part) for part in parts]
    )
    return [row[row >= 0].tolist() for row in rows]


def rows_of_arcs(
    batch: Batch, b: int, plan: ArcPlan | Plan, features: FeatureMap
) -> dict[tuple[int, int], list[int]]:
    """The rows of every arc (h, m) of sentence b, those of guides too if the plan has them."""
    n, kind = int(batch.lengths[b]), listed_number("arc")
    arcs = [(h, m) for m in range(1, n + 1) for h in range(n + 1) if h != m]
    whole = Plan(plan) if isinstance(plan, ArcPlan) else plan
    parts = [(kind, h, m, 0, 0, 0) for h, m in arcs]
    return dict(zip(arcs, rows_of_parts(batch, b, whole, features, parts), strict=True))


def sibling_parts(n: int) -> list[tuple[int, int, int]]:
    """All parts (h, m, s) over n words, s == h where there is no inner sibling."""
    return [
        (h, m, s)
        for h in range(n + 1)
        for m in range(1, n + 1)
        if h != m
        for s in (h, *range(min(h, m) + 1, max(h, m)))
    ]


def rows_of_siblings(
    batch: Batch, b: int, plan: Plan, features: FeatureMap
) -> dict[tuple[int, int, int], list[int]]:
    """The rows of every sibling part (h, m, s) of sentence b."""
    parts, kind = sibling_parts(int(batch.lengths[b])), listed_number("sibling")
    listed = [(kind, h, m, s, 0, 0) for h, m, s in parts]
    return dict(zip(parts, rows_of_parts(batch, b, plan, features, listed), strict=True))


def end_parts(n: int) -> list[tuple[int, int, str]]:
    """All ends (h, m, side) over n words, m == h where h has no modifier on that side."""
    found = [(h, m, "right" if h < m else "left") for h in range(n + 1) for m in range(1, n + 1)]
    none = [
        (h, h, side) for h in range(n + 1) for side in ("right", "left") if (h, side) != (0, "left")
    ]
    return [part for part in found if part[0] != part[1]] + none


def rows_of_ends(
    batch: Batch, b: int, plan: Plan, features: FeatureMap
) -> dict[tuple[int, int, str], list[int]]:
    """The rows of every end (h, m, side) of sentence b."""
    parts = end_parts(int(batch.lengths[b]))
    listed = [(listed_number(f"{side}_end"), h, m, 0, 0, 0) for h, m, side in parts]
    return dict(zip(parts, rows_of_parts(batch, b, plan, features, listed), strict=True))


def wide_map(plan: ArcPlan | Plan) -> FeatureMap:
    """A map with enough rows for every feature of a few sentences to have a row of its own."""
    return hashed_map(WIDE, plan.dense_lines)


def silence(weights: np.ndarray, plan: ArcPlan | Plan, features: FeatureMap) -> np.ndarray:
    """A copy of weights (R,) with zeros where learning never writes, as kernels rely on.

    These are the lines of words in between that have no value, and the first line of every family
    of three words.
    """
    weights = weights.copy()
    if isinstance(plan, Plan):
        for line in plan.siblings.triple["line"].tolist() if plan.siblings else []:
            weights[features.rows.dense + line * LINE :][:LINE] = 0
        plan = plan.arcs
    sizes = (plan.between[name].tolist() for name in ("n_heads", "n_middles", "n_modifiers"))
    for line, heads, middles, modifiers in zip(plan.between["line"].tolist(), *sizes, strict=True):
        first = features.rows.dense + line * LINE
        lines = weights[first : first + heads * middles * modifiers * LINE]
        lines.reshape(heads, middles, modifiers * LINE)[:, 0] = 0
    return weights


def lines_of_arcs(
    batch: Batch, b: int, heads: np.ndarray, arcs: list[tuple[int, int]], plan: LabelPlan,
    n_lines: int,
) -> list[list[int]]:  # fmt: skip
    """For each of some arcs of sentence b the lines of its label features, -1 for a silent one.

    heads: the tree of the primary arcs. The lines are those of the torch form.
    """
    tables = LabelTables(plan, torch.device("cpu"))
    h, m = torch.tensor(arcs, dtype=torch.int64).reshape(len(arcs), 2).unbind(1)
    tree = torch.from_numpy(np.concatenate([[-1], heads]))[None]
    positions = arc_positions(tree, torch.zeros_like(h), h, m)
    starts = torch.full_like(h, int(batch.starts[b]))
    lines = label_lines(as_tensors(batch), starts, positions, tables, n_lines)
    return lines.masked_fill(lines == n_lines, -1).tolist()
