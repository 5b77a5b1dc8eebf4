"""Random word vectors, and their scores by definition, number by number."""

from collections.abc import Callable, Sequence

import numpy as np
import torch
from torch import Tensor

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.word_vectors import FURTHER, VectorPlan
from gpuparse.scorers.native import sentences_of
from gpuparse.scorers.tensors import TensorBatch
from gpuparse.scorers.vectors.scores import DeviceVectors, NodeVectors
from gpuparse.scorers.vectors.word_vectors import (
    BETWEEN_TERMS,
    KINDS,
    MOST_POINTS,
    OCCURRENCES,
    TERMS,
    VectorWeights,
    WordVectors,
)
from tests.scoring.forms import AnyBatch, as_arrays, as_tensors


def random_plan(
    random: np.random.Generator,
    batch: Batch,
    offsets: Sequence[int],
    n_rows: int,
    n_buckets: int = 3,
    n_between: int = 3,
) -> VectorPlan:
    """Templates that read rows of the values in turn; a fifth of the values have no row.

    The last row is that of words in between, of whose values the first ones have a number.
    """
    rows = np.arange(len(offsets)) % len(batch.values)
    sizes = batch.values.max(1)[rows].astype(np.int64) + 1
    sizes[0] -= 1  # the last value is one that is not known
    places = random.integers(0, n_rows, sizes.sum())
    places[random.random(len(places)) < 0.2] = -1
    starts = np.cumsum(sizes) - sizes
    places[starts] = -1
    buckets = np.minimum(np.arange(n_buckets + 2), n_buckets - 1)
    offsets = np.array(offsets, np.int64)
    between = np.arange(batch.values[-1].max(initial=0)) - 1  # the last one is not known
    between[between >= n_between] = -1
    n_between = int(between.max(initial=-1)) + 1
    return VectorPlan(
        rows, offsets, starts, sizes, places.astype(np.int32), buckets, n_buckets,
        len(batch.values) - 1, between.astype(np.int32), n_between,
    )  # fmt: skip


def random_weights(
    random: np.random.Generator,
    plan: VectorPlan,
    hidden: int,
    arc: int,
    label: int,
    n_labels: int,
    **further: int,
) -> VectorWeights:
    """Weights as learned, some rows much larger than others; further: sizes of kinds of pairs."""
    pairs = [arc, *(further.get(kind, 0) for kind in FURTHER)]
    columns = sum(pairs) + label
    width, n_rows = 2 * (hidden or columns), int(plan.places.max()) + 1

    def draw(*shape: int) -> np.ndarray:
        return random.normal(size=shape).astype(np.float32)

    return VectorWeights(
        draw(n_rows, width) * random.lognormal(size=(n_rows, 1)).astype(np.float32),
        draw(width), draw(hidden, columns), draw(hidden, columns),
        *(draw(2 * plan.n_buckets if size else 0, 3 * size + 1) for size in pairs),
        draw(n_labels, 3 * label + 1),
        draw(2 * OCCURRENCES * plan.n_between, 2 * arc + 1),
    )  # fmt: skip


def float_scores(
    weights: VectorWeights, plan: VectorPlan, batch: Batch, b: int
) -> tuple[np.ndarray, np.ndarray]:
    """(N, N) of arcs and (N, N, labels) of one sentence by learned weights, in float64."""
    n, start, (arc, *_, label) = int(batch.lengths[b]), int(batch.starts[b]), weights.cuts
    wide = VectorWeights(*(array.astype(np.float64) for array in weights))
    heads, modifiers = [], []
    for i in range(n + 1):
        x = wide.bias + sum(wide.table[row] for row in rows_of(plan, batch, start + i))
        u, v = np.split(x, 2)
        if len(wide.heads):
            u, v = np.maximum(u, 0) @ wide.heads, np.maximum(v, 0) @ wide.modifiers
        heads.append(u)
        modifiers.append(v)
    arcs, labels = np.zeros((n + 1, n + 1)), np.zeros((n + 1, n + 1, len(weights.labels)))
    for h in range(n + 1):
        for m in range(1, n + 1):
            u, v = heads[h], modifiers[m]
            terms = wide.arcs[combination(plan, h, m)]
            arcs[h, m] = terms @ np.concatenate([(u * v)[:arc], u[:arc], v[:arc], [1.0]])
            for z in between(plan, batch, start, h, m):
                arcs[h, m] += wide.between[z] @ np.concatenate([u[:arc], v[:arc], [1.0]])
            of_label = np.concatenate([(u * v)[label:], u[label:], v[label:], [1.0]])
            of_labels = wide.labels @ of_label
            labels[h, m] = of_labels - of_labels.max(initial=-np.inf)
    return arcs, labels


def float_pairs(
    kind: str, weights: VectorWeights, plan: VectorPlan, batch: Batch, b: int
) -> np.ndarray:
    """(N, N) of pairs of a kind of one sentence: arcs by weights whose arcs are these pairs."""
    q, number = sum(weights.sizes), KINDS.index(kind)
    columns = np.split(np.arange(q), weights.cuts)[number]
    heads, modifiers = (matrix[:, columns] for matrix in (weights.heads, weights.modifiers))
    table, bias = weights.table, weights.bias
    if not len(weights.heads):
        both = np.concatenate([columns, q + columns])
        table, bias = table[:, both], bias[both]
    none = np.zeros((0, 1), np.float32)
    more = [none] * (len(weights) - 5)
    alone = VectorWeights(table, bias, heads, modifiers, weights.scored[number], *more)
    return float_scores(alone, plan._replace(n_between=0), batch, b)[0]


def rows_of(plan: VectorPlan, batch: Batch, token: int) -> list[int]:
    """The rows of the table of one token, without those of values that have none."""
    found = (row_of(plan, batch, token, k) for k in range(len(plan.rows)))
    return [row for row in found if row >= 0]


def row_of(plan: VectorPlan, batch: Batch, token: int, k: int) -> int:
    """The row of the table of one value of a token; -1 for none."""
    row, offset, start, size = (int(each[k]) for each in plan[:4])
    value = int(batch.values[row, token + offset])
    return int(plan.places[start + value]) if 0 <= value < size else -1


def combination(plan: VectorPlan, h: int, m: int) -> int:
    """The number of a combination of direction and distance."""
    if h == m:
        return 0
    bucket = int(plan.buckets[min(abs(h - m), len(plan.buckets)) - 1])
    return (plan.n_buckets if h > m else 0) + bucket


def between(plan: VectorPlan, batch: Batch, start: int, h: int, m: int) -> list[int]:
    """The combinations of direction, occurrence and value that words between two have."""
    found = []
    for number in range(plan.n_between):
        values = batch.values[plan.between_row, start + min(h, m) + 1 : start + max(h, m)]
        known = values[(values >= 0) & (values < len(plan.between_places))]
        count = int((plan.between_places[known] == number).sum())
        for occurrence in range(min(count, OCCURRENCES)):
            found.append((int(m < h) * OCCURRENCES + occurrence) * plan.n_between + number)
    return found


def whole_scores(
    vectors: WordVectors, batch: Batch, b: int
) -> tuple[list[list[int]], list[list[list[int]]]]:
    """Scores [h][m] of the arcs of one sentence, and [h][m][label], by whole numbers alone."""
    plan, n = vectors.plan, int(batch.lengths[b])
    heads, modifiers = whole_vectors(vectors, batch, b)
    n_arc = vectors.arcs.shape[1]
    label = vectors.cuts[-1]
    of_labels = [
        blocks.transpose(1, 0, 2).reshape(blocks.shape[1], -1)
        for blocks in (vectors.labels, vectors.label_heads, vectors.label_modifiers)
    ]
    of_arcs = (vectors.arcs, vectors.arc_heads, vectors.arc_modifiers, vectors.arc_constants)
    fraction = vectors.arc_multiplier, vectors.arc_shift
    arcs = whole_pairs(
        plan, [u[:n_arc] for u in heads], [v[:n_arc] for v in modifiers], of_arcs, fraction,
        lambda h, m: whole_between(vectors, batch, b, h, m, heads[h], modifiers[m]),
    )  # fmt: skip
    labels = [[[0] * len(vectors.label_constants)] * (n + 1) for _ in range(n + 1)]
    for h in range(n + 1):
        for m in range(1, n + 1):
            of_arc = [
                product(heads[h][label:], modifiers[m][label:], of_labels, k) + constant
                for k, constant in enumerate(vectors.label_constants.tolist())
            ]
            labels[h][m] = [
                cut(shifted((score - max(of_arc)) * vectors.label_multiplier, vectors.label_shift))
                for score in of_arc
            ]
    return arcs, labels


def whole_between(
    vectors: WordVectors, batch: Batch, b: int, h: int, m: int, u: list[int], v: list[int]
) -> int:
    """The score that words in between add to an arc."""
    score = 0
    for z in between(vectors.plan, batch, int(batch.starts[b]), h, m):
        of_head, of_modifier, constant = (getattr(vectors, name)[z] for name in BETWEEN_TERMS)
        pairs = [
            *zip(of_head.tolist(), u, strict=False),
            *zip(of_modifier.tolist(), v, strict=False),
        ]
        score += int(constant) + sum(x * y for x, y in pairs)
    return score


def whole_further(kind: str, vectors: WordVectors, batch: Batch, b: int) -> list[list[int]]:
    """Scores [i][m] of the pairs of a further kind of one sentence, by whole numbers alone."""
    heads, modifiers = whole_vectors(vectors, batch, b)
    first, last = [*vectors.cuts, sum(vectors.sizes)][FURTHER.index(kind) :][:2]
    return whole_pairs(
        vectors.plan, [u[first:last] for u in heads], [v[first:last] for v in modifiers],
        [getattr(vectors, name) for name in TERMS[kind]],
        (getattr(vectors, f"{kind}_multiplier"), getattr(vectors, f"{kind}_shift")),
    )  # fmt: skip


def whole_pairs(
    plan: VectorPlan,
    heads: list[list[int]],
    modifiers: list[list[int]],
    terms: Sequence[np.ndarray],
    fraction: tuple[int, int],
    more: Callable[[int, int], int] = lambda _h, _m: 0,
) -> list[list[int]]:
    """Scores of all pairs of words by numbers of direction and distance; more: is added."""
    *of_words, constants = terms
    multiplier, shift = fraction
    scores = [[0] * len(heads) for _ in heads]
    for i, u in enumerate(heads):
        for j, v in enumerate(modifiers[1:], start=1):
            c = combination(plan, i, j)
            score = product(u, v, of_words, c) + int(constants[c]) + more(i, j)
            scores[i][j] = cut(shifted(score * multiplier, shift))
    return scores


def whole_vectors(
    vectors: WordVectors, batch: Batch, b: int
) -> tuple[list[list[int]], list[list[int]]]:
    """The vectors of all nodes of one sentence, as heads and as modifiers."""
    plan, n, start = vectors.plan, int(batch.lengths[b]), int(batch.starts[b])
    heads, modifiers = [], []
    for i in range(n + 1):
        sums = vectors.bias.tolist()
        for row in rows_of(plan, batch, start + i):
            scale = int(vectors.scales[row])
            sums = [x + scale * y for x, y in zip(sums, vectors.table[row].tolist(), strict=True)]
        half = len(sums) // 2
        heads.append(vector(sums[:half], vectors.heads, vectors.head_shifts, vectors.shift))
        modifiers.append(
            vector(sums[half:], vectors.modifiers, vectors.modifier_shifts, vectors.shift)
        )
    return heads, modifiers


def shifted(number: int, shift: int) -> int:
    """To the right, rounded to the nearest, half up."""
    return (number + ((1 << shift) >> 1)) >> shift


def cut(score: int) -> int:
    """Within what is added to other scores."""
    return min(max(score, -MOST_POINTS), MOST_POINTS)


def vector(sums: list[int], matrix: np.ndarray, shifts: np.ndarray, shift: int) -> list[int]:
    """The vector of a node, from the sums of one of its roles."""
    if len(matrix):
        active = [min(max(shifted(x, shift), 0), 127) for x in sums]
        groups, q, size = matrix.shape
        whole = matrix.transpose(0, 2, 1).reshape(groups * size, q).tolist()
        sums = [sum(a * row[k] for a, row in zip(active, whole, strict=True)) for k in range(q)]
    return [min(max(shifted(x, s), -127), 127) for x, s in zip(sums, shifts.tolist(), strict=True)]


def product(u: list[int], v: list[int], terms: Sequence[np.ndarray], at: int) -> int:
    """A score without its constant."""
    products, of_heads, of_modifiers = (term[at].tolist() for term in terms)
    return sum(
        t * x * y + a * x + z * y
        for t, a, z, x, y in zip(products, of_heads, of_modifiers, u, v, strict=True)
    )


def nodes_of(batch: TensorBatch, vectors: WordVectors) -> NodeVectors:
    """The vectors of the nodes of a batch, on its device."""
    return DeviceVectors(vectors, batch.values.device).nodes(batch)


def vector_arc_scores(batch: AnyBatch, vectors: WordVectors, *, engine: str = "native") -> Tensor:
    """(B, N, N) float64 whole scores of arcs; engine: "native" (native code) or "torch"."""
    if engine == "torch":
        return nodes_of(as_tensors(batch), vectors).arcs()
    return _native_pairs(batch, vectors, 0)


def vector_pair_scores(
    kind: str, batch: AnyBatch, vectors: WordVectors, *, engine: str = "native"
) -> Tensor:
    """(B, N, N) float64 whole scores of pairs of a further kind, as `vector_arc_scores`."""
    if engine == "torch":
        return nodes_of(as_tensors(batch), vectors).pairs(kind)
    return _native_pairs(batch, vectors, 1 + FURTHER.index(kind))


def _native_pairs(batch: AnyBatch, vectors: WordVectors, kind: int) -> Tensor:
    arrays = as_arrays(batch)
    out = np.zeros((len(arrays), arrays.n_nodes, arrays.n_nodes))
    native.call("score_vectors_batch", sentences_of(arrays), vectors, kind, out)
    return torch.from_numpy(out)


def labels_of_trees(nodes: NodeVectors, heads: Tensor) -> Tensor:
    """(B, N, labels) of the arcs of finished trees (B, N); nothing of use where there is none."""
    b = torch.arange(len(heads), device=heads.device).unsqueeze(1)
    m = torch.arange(heads.shape[1], device=heads.device)
    return nodes.labels(b, heads.clamp(min=0), m)
