"""Weight rows of arcs, as the kernels find them: the one place of the tests that knows how."""

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.features.label_plan import LabelPlan
from gpuparse.features.plan import LINE, ArcPlan
from gpuparse.learning.online import has_room, insert_arcs
from gpuparse.scoring.cpu import (
    HASHED_POWER,
    arc_rows,
    fill_parts,
    find_base,
    make_scratch,
    max_rows,
)
from gpuparse.scoring.cpu_labels import fill_lines, fill_positions, make_label_scratch
from gpuparse.scoring.feature_map import FeatureMap, exact_map, grown


def rows_of_arcs(
    batch: Batch, b: int, plan: ArcPlan, features: FeatureMap
) -> dict[tuple[int, int], list[int]]:
    """The rows of every arc (h, m) of sentence b, each as often as its feature fires."""
    values, start, n = batch.values.numpy(), int(batch.starts[b]), int(batch.lengths[b])
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


def compiled_base(features: FeatureMap, key: int) -> int:
    """The base row of a key as the kernels find it."""
    rows = features.rows
    if rows.kind == HASHED_POWER:
        key &= rows.rows - 1  # kernels mask both parts of a key before they meet
    return int(find_base(np.uint64(key), rows.kind, rows.rows, rows.keys, rows.bases))


def full_exact_map(batch: Batch, plan: ArcPlan) -> FeatureMap:
    """An exact map with the features of every arc of every sentence."""
    families = len(plan.word_seed) + len(plan.pair_seed)
    arcs = int(((batch.lengths + 1) ** 2).sum())
    features = grown(exact_map(plan.dense_lines), 2 * arcs * families)
    values, heads = batch.values.numpy(), np.zeros(batch.values.shape[1], np.int64)
    for b in range(len(batch)):
        start, n = int(batch.starts[b]), int(batch.lengths[b])
        scratch = make_scratch(plan, n, True, np.dtype(np.float32))
        fill_parts(values, start, n, plan, features.rows, scratch)
        for h in range(n + 1):
            # Arcs count where the two trees differ: here h -> m of every m but h itself.
            gold = np.full(len(heads), h)
            heads[:] = (h + 1) % (n + 1)
            heads[start + h] = h
            assert has_room(features.rows, 2 * n * families, features.n_rows)
            insert_arcs(values, start, n, gold, heads, plan, features.rows, scratch)
    return features


def silence(weights: np.ndarray, plan: ArcPlan, features: FeatureMap) -> np.ndarray:
    """A copy of weights (R,) with zeros where learning never writes, as kernels rely on.

    These are the lines of words in between that have no value, and the line of unknown exact keys.
    """
    weights = weights.copy()
    if features.is_exact:
        weights[:LINE] = 0
    for family, (heads, middles, modifiers) in enumerate(plan.between_size.tolist()):
        first = features.rows.dense + int(plan.between_line[family]) * LINE
        lines = weights[first : first + heads * middles * modifiers * LINE]
        lines.reshape(heads, middles, modifiers * LINE)[:, 0] = 0
    return weights


def lines_of_words(batch: Batch, b: int, heads: np.ndarray, plan: LabelPlan, n_lines: int) -> list:
    """For each word of sentence b the lines of its label features, -1 for a silent one."""
    values, start, n = batch.values.numpy(), int(batch.starts[b]), int(batch.lengths[b])
    placed = np.full(batch.values.shape[1], -1, np.int64)
    placed[start + 1 : start + n + 1] = heads
    scratch = make_label_scratch(len(plan.direction), 1, n, np.dtype(np.float32))
    fill_positions(placed, start, n, scratch.positions)
    lines = []
    for m in range(1, n + 1):
        fill_lines(values, start, m, plan, n_lines, 1, scratch.positions, scratch.lines)
        lines.append(scratch.lines.tolist())
    return lines
