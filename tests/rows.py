"""Weight rows of arcs and siblings as the kernels find them: the tests know how here alone."""

from itertools import pairwise

import numpy as np
import torch

from gpuparse.data.batch import Batch
from gpuparse.features.keys import part_keys, side_keys
from gpuparse.features.label_plan import LabelPlan
from gpuparse.features.plan import LINE, ArcPlan, Plan
from gpuparse.scoring.cpu import arc_rows, fill_parts, make_scratch, max_rows
from gpuparse.scoring.cpu_graph_labels import turn_to_arc
from gpuparse.scoring.cpu_labels import fill_lines, fill_positions, make_label_scratch
from gpuparse.scoring.cpu_siblings import (
    end_rows,
    fill_sibling_parts,
    max_sibling_rows,
    sibling_rows,
)
from gpuparse.scoring.feature_map import FeatureMap, frozen_map
from gpuparse.scoring.tensor_batch import as_tensors


def rows_of_arcs(
    batch: Batch, b: int, plan: ArcPlan, features: FeatureMap
) -> dict[tuple[int, int], list[int]]:
    """The rows of every arc (h, m) of sentence b, each as often as its feature fires."""
    values, start, n = batch.values, int(batch.starts[b]), int(batch.lengths[b])
    scratch = make_scratch(plan, n, features.is_exact, np.dtype(np.float32))
    fill_parts(values, start, n, plan, features.rows, scratch)
    found = np.empty(max_rows(plan, n), np.int64)
    rows = {}
    for m in range(1, n + 1):
        for h in range(n + 1):
            if h != m:
                count = arc_rows(values, start, n, h, m, plan, features.rows, scratch, found)
                rows[h, m] = found[:count].tolist()
    return rows


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
    assert plan.siblings is not None
    values, start, n = batch.values, int(batch.starts[b]), int(batch.lengths[b])
    pairs = plan.siblings.pairs
    scratch = make_scratch(pairs, n, features.is_exact, np.dtype(np.float32))
    fill_sibling_parts(values, start, n, pairs, features.rows, scratch)
    found = np.empty(max_sibling_rows(plan.siblings), np.int64)
    rows = {}
    for h, m, s in sibling_parts(n):
        count = sibling_rows(
            values, start, n, h, m, s, plan.siblings, features.rows, scratch, found
        )
        rows[h, m, s] = found[:count].tolist()
    return rows


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
    assert plan.siblings is not None
    values, start, n = batch.values, int(batch.starts[b]), int(batch.lengths[b])
    ends = plan.siblings.ends
    scratch = make_scratch(ends, n, features.is_exact, np.dtype(np.float32))
    fill_parts(values, start, n, ends, features.rows, scratch)
    found = np.empty(max_sibling_rows(plan.siblings), np.int64)
    rows = {}
    for h, m, side in end_parts(n):
        count = end_rows(n, h, m, side == "right", plan.siblings, features.rows, scratch, found)
        rows[h, m, side] = found[:count].tolist()
    return rows


def full_exact_map(batch: Batch, plan: ArcPlan | Plan) -> FeatureMap:
    """An exact map with the features of every arc of every sentence, a line for each value."""
    plans = [plan] if isinstance(plan, ArcPlan) else [plan.arcs]
    if isinstance(plan, Plan) and plan.siblings:
        plans += [plan.siblings.pairs, plan.siblings.ends]
    if isinstance(plan, Plan) and plan.guide:
        plans.append(plan.guide.arcs)
    keys = np.concatenate([_keys(batch, each) for each in plans])
    assert len(np.unique(keys)) == len(keys), "two families have a key in common"
    first_row = LINE + plan.dense_lines * LINE
    bases = first_row + LINE * np.arange(len(keys))
    return frozen_map(keys, bases, first_row + LINE * len(keys))


def _keys(batch: Batch, plan: ArcPlan) -> np.ndarray:
    """The exact keys of all words and pairs of words."""
    tensors = as_tensors(batch)
    places = tensors.places()
    sides = []
    for first, end in pairwise(plan.side_start.tolist()):
        atoms = iter(plan.atoms.tolist())
        listed = [tuple(map(int, atom)) for atom in list(atoms)[first:end]]
        sides.append(side_keys(tensors.values, places, listed, True)[0])
    found = [torch.empty(0, dtype=torch.int64)]
    for side, seed in zip(plan.word["side"].tolist(), plan.word["seed"].tolist(), strict=True):
        found.append(part_keys(sides[side], seed, 0, True).unique())
    pairs = (plan.pair[name].tolist() for name in ("head_side", "modifier_side", "seed"))
    for head, modifier, seed in zip(*pairs, strict=True):
        parts = part_keys(sides[head], seed, 0, True), part_keys(sides[modifier], seed, 1, True)
        found.append((parts[0].unsqueeze(2) ^ parts[1].unsqueeze(1)).unique())
    return torch.cat(found).numpy()


def silence(weights: np.ndarray, plan: ArcPlan | Plan, features: FeatureMap) -> np.ndarray:
    """A copy of weights (R,) with zeros where learning never writes, as kernels rely on.

    These are the lines of words in between that have no value, the line of unknown exact keys, and
    the first line of every family of three words.
    """
    weights = weights.copy()
    if isinstance(plan, Plan):
        for line in plan.siblings.triple["line"].tolist() if plan.siblings else []:
            weights[features.rows.dense + line * LINE :][:LINE] = 0
        plan = plan.arcs
    if features.is_exact:
        weights[:LINE] = 0
    sizes = (plan.between[name].tolist() for name in ("n_heads", "n_middles", "n_modifiers"))
    for line, heads, middles, modifiers in zip(plan.between["line"].tolist(), *sizes, strict=True):
        first = features.rows.dense + line * LINE
        lines = weights[first : first + heads * middles * modifiers * LINE]
        lines.reshape(heads, middles, modifiers * LINE)[:, 0] = 0
    return weights


def lines_of_words(batch: Batch, b: int, heads: np.ndarray, plan: LabelPlan, n_lines: int) -> list:
    """For each word of sentence b the lines of its label features, -1 for a silent one."""
    arcs = [(h, m) for m, h in enumerate(heads.tolist(), start=1)]
    return lines_of_arcs(batch, b, heads, arcs, plan, n_lines)


def lines_of_arcs(
    batch: Batch, b: int, heads: np.ndarray, arcs: list[tuple[int, int]], plan: LabelPlan,
    n_lines: int,
) -> list[list[int]]:  # fmt: skip
    """For each of some arcs of sentence b the lines of its label features, -1 for a silent one.

    heads: the tree of the primary arcs. Rows are turned from arc to arc in the order given.
    """
    values, start, n = batch.values, int(batch.starts[b]), int(batch.lengths[b])
    placed = np.full(batch.values.shape[1], -1, np.int64)
    placed[start + 1 : start + n + 1] = heads
    scratch = make_label_scratch(len(plan.direction), 1, n, np.dtype(np.float32))
    fill_positions(placed, start, n, scratch.positions)
    lines = []
    for h, m in arcs:
        turn_to_arc(placed, start, n, h, m, scratch.positions)
        fill_lines(values, start, m, plan, n_lines, 1, scratch.positions, scratch.lines)
        lines.append(scratch.lines.tolist())
    return lines
