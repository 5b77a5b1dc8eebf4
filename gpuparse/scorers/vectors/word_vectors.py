"""Scores from word vectors: float weights as learned, and the whole numbers that parsing reads.

The rows of a node's values are summed, and the sum makes two vectors, of the node as a head (u) and
as a modifier (v), through a hidden layer or without one. With c the combination of direction and
distance, the score of an arc is a product of both vectors with numbers of c, and products of each:

    sum_k arcs[c, k] u_k v_k + sum_k arc_heads[c, k] u_k + sum_k arc_modifiers[c, k] v_k
        + arc_constants[c]

Words in between add to it. With z the combination of direction, of whether it is the first or the
second word in between with a value, and of that value, each such z adds once

    sum_k between_heads[z, k] u_k + sum_k between_modifiers[z, k] v_k + between_constants[z]

A modifier and its inner sibling, on the same side of a head, are scored as arcs are, but for words
in between, by columns of their own: the sibling's of u, the modifier's of v. So are a modifier and
the head of its head, its grandparent, whose columns are those of u.

Labels have further columns of the vectors, and numbers of the label in place of those of c. The
score of the arc's best label is subtracted from those of all: labels are learned for gold arcs
alone, so that only differences between labels of one arc mean anything.

In frozen form all numbers are whole. The sum of rows' 8-bit numbers times their scales has 32 bits;
hidden numbers have 7 bits, vectors 8, scores 32 again. Every rounding adds half and shifts right.
So all engines find the same scores.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gpuparse.data.batch import Batch, word_places
from gpuparse.errors import ScoreError
from gpuparse.features.word_vectors import FURTHER, VectorPlan
from gpuparse.scorers.whole_numbers import MAX_SHIFT, fraction

BLOCK = 32  # sizes of frozen vectors are multiples of this
GROUP = 4  # hidden numbers that one instruction multiplies
MOST_NETWORKS = 64
LABEL_LANES = 16  # labels are padded to a multiple of this
KINDS = ("arc", *FURTHER, "label")
MARGINS = ("arc_margin", "label_margin")  # fields of `WordVectors`
"""All kinds of scores, in the order of their columns."""
TERMS = {
    kind: (f"{kind}s", f"{kind}_heads", f"{kind}_modifiers", f"{kind}_constants") for kind in KINDS
}
"""The numbers of products, of heads, of modifiers and constants of each kind."""
BETWEEN_TERMS = ("between_heads", "between_modifiers", "between_constants")
OCCURRENCES = 2  # of a value in between that count
POINTS = 1024.0  # of a score a unit of cost, where no templates are added

NO_PAIRS: dict[str, dict[str, Any]] = {
    kind: {
        f"{kind}s": np.zeros((0, 0), np.int8), f"{kind}_heads": np.zeros((0, 0), np.int16),
        f"{kind}_modifiers": np.zeros((0, 0), np.int16), f"{kind}_constants": np.zeros(0, np.int32),
        f"{kind}_multiplier": 0, f"{kind}_shift": 0, f"{kind}_unit": 0.0,
    } for kind in FURTHER
}  # fmt: skip
"""The fields of `WordVectors` for each further kind of pairs that they do not score."""
NO_BETWEEN: dict[str, Any] = {
    "between_heads": np.zeros((0, 0), np.int16), "between_modifiers": np.zeros((0, 0), np.int16),
    "between_constants": np.zeros(0, np.int32),
}  # fmt: skip
"""Their fields for words in between, if they do not look at these."""

_LARGEST_ACTIVATION, _LARGEST_NUMBER = 127, 127  # of hidden numbers; of vectors and of weights
_LARGEST_WORD = 32767
_LARGEST_TERM = _LARGEST_WORD - _LARGEST_NUMBER**2  # added to a product of 8 bits in 16
_LARGEST_SCALE = 255
_MAX_SUM = 1 << 30  # of 32 bits, with room for rounding
MOST_POINTS = (1 << 28) - 1  # that vectors add to a score
_MAX_LEARNED = 1e9  # of a learned weight
_MOST_NODES = 20_000  # that ranges are chosen by
_NODES_AT_ONCE, _ROWS_AT_ONCE = 2_000, 512
_PERCENTILE = 99.9  # of the numbers at nodes; larger ones are cut to the end of their range


class VectorWeights(NamedTuple):
    """Word vectors as learned, float32: R rows, H hidden numbers per role, Q numbers per vector.

    Of Q the first P score arcs, PS siblings, PG grandparents, PL labels: in the order of KINDS.
    H = 0: no hidden layer, and the width W of a row is 2 Q instead of 2 H; its first half is of the
    head. C: combinations, direction * buckets + bucket. What is not scored has no rows.
    """

    table: np.ndarray  # (R, W)
    bias: np.ndarray  # (W,)
    heads: np.ndarray  # (H, Q)
    modifiers: np.ndarray  # (H, Q)
    arcs: np.ndarray  # (C, 3 P + 1): of products, of heads, of modifiers, constant
    siblings: np.ndarray  # (C, 3 PS + 1)
    grandparents: np.ndarray  # (C, 3 PG + 1)
    labels: np.ndarray  # (L, 3 PL + 1)
    # (2 OCCURRENCES T, 2 P + 1), (direction * OCCURRENCES + occurrence) * T + value: of heads, of
    # modifiers, constant
    between: np.ndarray

    @property
    def scored(self) -> list[np.ndarray]:
        """The numbers of each kind of scores."""
        return [getattr(self, TERMS[kind][0]) for kind in KINDS]

    @property
    def sizes(self) -> list[int]:
        """Columns of each kind of scores: P, PS, PG, PL."""
        return [(array.shape[1] - 1) // 3 for array in self.scored]

    @property
    def cuts(self) -> list[int]:
        """The columns that begin those of all kinds but the first."""
        return np.cumsum(self.sizes)[:-1].tolist()


def merged(networks: Sequence[VectorWeights]) -> VectorWeights:
    """One network whose scores are the means of those of several with the same sizes and rows."""
    if len(networks) == 1:
        return networks[0]
    cuts = networks[0].cuts

    def joined(arrays: Sequence[np.ndarray], cuts: Sequence[int]) -> np.ndarray:
        """(..., columns): those before the first cut of all arrays, then those up to the next."""
        runs = zip(*(np.split(a, cuts, -1) for a in arrays), strict=True)
        return np.concatenate([part for run in runs for part in run], -1)

    def of_nodes(arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Tables or biases: what a node has as head, and then as modifier."""
        half = arrays[0].shape[-1] // 2
        if len(networks[0].heads):
            return joined(arrays, [half])
        roles = ([a[..., :half] for a in arrays], [a[..., half:] for a in arrays])
        return np.concatenate([joined(role, cuts) for role in roles], -1)

    def of_matrices(arrays: Sequence[np.ndarray]) -> np.ndarray:
        """(k H, k Q), zero between hidden numbers and vectors of different networks."""
        hidden, q = arrays[0].shape
        apart = [np.zeros((hidden * len(arrays), q), a.dtype) for a in arrays]
        for i, (matrix, array) in enumerate(zip(apart, arrays, strict=True)):
            matrix[i * hidden : (i + 1) * hidden] = array
        return joined(apart, cuts)

    def of_terms(arrays: Sequence[np.ndarray], n_terms: int = 3) -> np.ndarray:
        size = (arrays[0].shape[1] - 1) // n_terms
        terms = [a[:, k * size : (k + 1) * size] for k in range(n_terms) for a in arrays]
        constants = sum(a[:, -1:] for a in arrays)
        return np.concatenate([*terms, constants], 1) / np.float32(len(arrays))

    table, bias, heads, modifiers, *scored, between = zip(*networks, strict=True)
    return VectorWeights._make(
        [
            of_nodes(table), of_nodes(bias), of_matrices(heads), of_matrices(modifiers),
            *map(of_terms, scored), of_terms(between, 2),
        ]
    )  # fmt: skip


class WordVectors(NamedTuple):
    """Word vectors as whole numbers: the struct of native/api/vectors.h.

    Sizes are those of `VectorWeights`, H, P, PS, PG and PL rounded up to multiples of BLOCK,
    Q = P + PS + PG + PL, and L to one of LABEL_LANES; numbers beyond are 0, and labels beyond
    repeat the first. Without labels PL and L are 0. Without siblings PS is 0, and their arrays have
    no rows; so it is with grandparents and PG.
    """

    plan: VectorPlan
    table: np.ndarray  # (R, W) int8
    scales: np.ndarray  # (R,) uint8, by which the numbers of a row are multiplied
    bias: np.ndarray  # (W,) int32
    shift: int  # of sums to hidden numbers
    heads: np.ndarray  # (H / GROUP, Q, GROUP) int8: [k, q, j] is of hidden number GROUP * k + j
    modifiers: np.ndarray  # the same
    networks: int  # with numbers of their own: both matrices have that many blocks, and zeros
    head_shifts: np.ndarray  # (Q,) int32, of sums to the numbers of vectors
    modifier_shifts: np.ndarray  # (Q,) int32
    arcs: np.ndarray  # (C, P) int8
    arc_heads: np.ndarray  # (C, P) int16
    arc_modifiers: np.ndarray  # (C, P) int16
    arc_constants: np.ndarray  # (C,) int32
    siblings: np.ndarray  # (C, PS) int8
    sibling_heads: np.ndarray  # (C, PS) int16
    sibling_modifiers: np.ndarray  # (C, PS) int16
    sibling_constants: np.ndarray  # (C,) int32
    grandparents: np.ndarray  # (C, PG) int8
    grandparent_heads: np.ndarray  # (C, PG) int16
    grandparent_modifiers: np.ndarray  # (C, PG) int16
    grandparent_constants: np.ndarray  # (C,) int32
    between_heads: np.ndarray  # (2 OCCURRENCES T, P) int16
    between_modifiers: np.ndarray  # the same
    between_constants: np.ndarray  # (2 OCCURRENCES T,) int32
    labels: np.ndarray  # (PL / 2, L, 2) int8: [k, l, j] is of number 2 * k + j
    label_heads: np.ndarray  # (PL / 2, L, 2) int16
    label_modifiers: np.ndarray  # the same
    label_constants: np.ndarray  # (L,) int32
    # A score times the multiplier, shifted right, is in points of the templates' whole-number
    # weights, cut to MOST_POINTS; a score times `unit` is in units of cost, as learned weights are.
    arc_multiplier: int
    arc_shift: int
    arc_unit: float
    sibling_multiplier: int
    sibling_shift: int
    sibling_unit: float
    grandparent_multiplier: int
    grandparent_shift: int
    grandparent_unit: float
    label_multiplier: int
    label_shift: int
    label_unit: float
    # Templates score the arcs whose vectors score at most this much less than those of the best
    # head of their word, of words with several such heads; -1: all arcs.
    arc_margin: int = -1
    # Templates score the labels of arcs of trees with several such labels; -1: of all arcs.
    label_margin: int = -1

    @property
    def sizes(self) -> list[int]:
        """Columns of each kind of scores: P, PS, PG, PL."""
        return list(map(self._size, KINDS))

    def _size(self, kind: str) -> int:
        return 2 * len(self.labels) if kind == "label" else getattr(self, TERMS[kind][0]).shape[1]

    @property
    def cuts(self) -> list[int]:
        """The columns that begin those of all kinds but the first."""
        return np.cumsum(self.sizes)[:-1].tolist()

    def scores(self, kind: str) -> bool:
        """True if there are scores of a kind."""
        return bool(self._size(kind))

    def columns(self, kind: str) -> slice:
        """The columns of a kind of scores."""
        first, number = sum(self.sizes[: KINDS.index(kind)]), self.sizes[KINDS.index(kind)]
        return slice(first, first + number)

    def with_points(self, arc_points: float, label_points: float) -> "WordVectors":
        """The same vectors, whose scores count more or less; those of all pairs as those of arcs.

        Args: arc_points, label_points: points of the templates' whole-number weights a unit of
            cost.
        Raises: ScoreError: scores would be too large to be added to those of templates.
        """
        changed: dict[str, Any] = {}
        for kind in KINDS:
            factor = label_points if kind == "label" else arc_points
            found = fraction(getattr(self, f"{kind}_unit") * factor)
            changed[f"{kind}_multiplier"], changed[f"{kind}_shift"] = found
        return self._replace(**changed)

    def with_units(self, arc_factor: float, label_factor: float) -> "WordVectors":
        """The same vectors with scores multiplied by a factor beside learned weights."""
        changed: dict[str, Any] = {}
        for kind in KINDS:
            factor = label_factor if kind == "label" else arc_factor
            changed[f"{kind}_unit"] = getattr(self, f"{kind}_unit") * factor
        return self._replace(**changed)

    def with_margin(self, margin: float | None) -> "WordVectors":
        """The same vectors, which leave arcs and labels close to the best ones to templates.

        margin: in units of cost before `with_units`; None: all are open.
        """
        if margin is None:
            return self._replace(arc_margin=-1, label_margin=-1)
        margins: dict[str, Any] = {
            "arc_margin": int(np.rint(min(margin / self.arc_unit, _MAX_SUM)))
        }
        if self.scores("label"):
            margins["label_margin"] = int(np.rint(min(margin / self.label_unit, _MAX_SUM)))
        return self._replace(**margins)


def frozen(weights: VectorWeights, plan: VectorPlan, batch: Batch) -> WordVectors:
    """Learned weights as whole numbers, whose scores have POINTS; see `with_points`.

    Args:
        weights: finite, of at most _MAX_LEARNED. plan: with their rows.
        batch: training sentences, by whose nodes ranges are chosen.
    Raises: ScoreError: weights are not finite, or scores are too large.
    Cost: one pass over the weights, and over at most _MOST_NODES nodes of the batch.
    """
    if not all(np.abs(array).max(initial=0.0) <= _MAX_LEARNED for array in weights):
        raise ScoreError(
            "word vectors that are not finite, or too large, cannot be stored; learning diverged"
        )
    weights = _padded(weights)
    layer, vectors = _freeze_layer(weights, _node_sums(weights, plan, batch))
    split = zip(*(np.split(scale, weights.cuts) for scale in vectors.pop("scales")), strict=True)
    of_kinds = list(split)
    between = _scaled_terms(weights.between, *of_kinds[0])
    terms: dict[str, Any] = {}
    for kind, scored, (heads, modifiers) in zip(KINDS, weights.scored, of_kinds, strict=True):
        more = between if kind == "arc" else ()
        terms |= _named(kind, *_freeze_products(scored, heads, modifiers, more))
    terms |= _whole_between(between, terms["arc_unit"])
    matrices = vectors["heads"], vectors["modifiers"]
    counts = range(MOST_NETWORKS, 1, -1)
    networks = next((n for n in counts if _are_apart(n, matrices, weights.cuts)), 1)
    made = WordVectors(plan, **layer, **vectors, **terms, networks=networks)
    return _checked(made.with_points(POINTS, POINTS))


def _named(kind: str, whole: Sequence[np.ndarray], unit: float) -> dict[str, Any]:
    """The fields of `WordVectors` of a kind of scores, before `with_points`.

    Args: as `_freeze_products` gives them.
    """
    if kind in FURTHER and not whole[0].shape[1]:
        return NO_PAIRS[kind]
    if kind == "label":
        whole = label_blocks(*whole)
    numbers = {f"{kind}_multiplier": 0, f"{kind}_shift": 0, f"{kind}_unit": unit}
    return dict(zip(TERMS[kind], whole, strict=True)) | numbers


def _checked(vectors: WordVectors) -> WordVectors:
    """The vectors, if they pass `check_vectors`; else ScoreError."""
    try:
        check_vectors(vectors)
    except ValueError as error:
        raise ScoreError(f"word vectors: {error}") from error
    return vectors


def check_vectors(vectors: WordVectors) -> None:
    """Make sure that arrays fit each other, and that no sum of any sentence leaves its range.

    Raises: ValueError, TypeError: something does not; it is named.
    Cost: one pass over the arrays.
    """
    _check_shapes(vectors)
    for name in MARGINS:
        margin = getattr(vectors, name)
        if type(margin) is not int or not -1 <= margin <= _MAX_SUM:
            raise ValueError(f"{name} is a number from -1 to {_MAX_SUM}")
    shifts = [*vectors.head_shifts.tolist(), *vectors.modifier_shifts.tolist(), vectors.shift]
    if not all(0 <= shift <= 30 for shift in shifts):
        raise ValueError("shifts are numbers from 0 to 30")
    # Of each template one row at most is in a sum.
    ends = vectors.table.max(1, initial=0), vectors.table.min(1, initial=0)  # no copy of the table
    largest = np.maximum(*(np.abs(end.astype(np.int64)) for end in ends))
    largest = np.append(largest * vectors.scales, 0)
    of_values = largest[vectors.plan.places]
    most = int(np.abs(vectors.bias.astype(np.int64)).max(initial=0))
    for start, size in zip(vectors.plan.starts.tolist(), vectors.plan.sizes.tolist(), strict=True):
        most += int(of_values[start : start + size].max(initial=0))
    if most + (1 << max(shifts) >> 1) > _MAX_SUM:
        raise ValueError("sums of rows are too large")
    matrices, networks = (vectors.heads, vectors.modifiers), vectors.networks
    if networks != 1 and not (
        1 < networks <= MOST_NETWORKS and _are_apart(networks, matrices, vectors.cuts)
    ):
        raise ValueError("networks are not apart")
    for matrix in matrices:
        sums = np.abs(matrix.astype(np.int64)).sum((0, 2)) * _LARGEST_ACTIVATION
        if sums.max(initial=0) + (1 << max(shifts) >> 1) > _MAX_SUM:
            raise ValueError("sums of hidden numbers are too large")
    between = _most_between([getattr(vectors, name).astype(np.int64) for name in BETWEEN_TERMS])
    for name in KINDS:
        *of_numbers, constants = (getattr(vectors, term) for term in TERMS[name])
        if name == "label":
            of_numbers = [by_label(term) for term in of_numbers]
        _check_scores(*of_numbers, constants, more=between if name == "arc" else 0)
        multiplier, shift = (getattr(vectors, f"{name}_{part}") for part in ("multiplier", "shift"))
        if not 0 <= multiplier <= _MAX_SUM or not 0 <= shift <= MAX_SHIFT:
            raise ValueError(f"{name} scores have a multiplier or shift out of range")
        unit = getattr(vectors, f"{name}_unit")
        if not (0.0 <= unit < np.inf):
            raise ValueError(f"{name}_unit is not a number from 0 on")


def _are_apart(networks: int, matrices: Sequence[np.ndarray], cuts: Sequence[int]) -> bool:
    """True if matrices are zero between the hidden numbers and the vectors of different networks.

    All networks have the same sizes, of whole blocks. matrices: (H / GROUP, Q, GROUP); cuts: of Q.
    """
    groups, q, _ = matrices[0].shape
    runs = np.diff([0, *cuts, q])
    if groups % networks or not groups or (runs % (BLOCK * networks)).any():
        return False
    of_row = np.arange(groups) // (groups // networks)
    of_column = np.concatenate([np.repeat(np.arange(networks), run // networks) for run in runs])
    is_between = of_row[:, None] != of_column
    return not any(matrix[is_between].any() for matrix in matrices)


def _check_scores(*terms: np.ndarray, more: float) -> None:
    """Make sure that no score has more than 32 bits, nor a number that is multiplied more than 16.

    more: the most that is added to a score.
    Raises: ValueError: one has.
    """
    products, of_heads, of_modifiers, constants = (np.abs(term.astype(np.int64)) for term in terms)
    n = _LARGEST_NUMBER
    if (products * n + of_modifiers).max(initial=0) > _LARGEST_WORD:
        raise ValueError("products are too large")
    sums = (products * n**2 + (of_heads + of_modifiers) * n).sum(1) + constants
    if sums.max(initial=0) + more > _MAX_SUM:
        raise ValueError("sums of products are too large")


def _check_shapes(vectors: WordVectors) -> None:
    n_rows, width = vectors.table.shape
    groups, q, _ = vectors.heads.shape
    pairs, n_labels, _ = vectors.labels.shape
    of_pairs: dict[str, tuple[type, tuple[int, ...]]] = {}
    types = (np.int8, np.int16, np.int16, np.int32)
    for kind in ("arc", *FURTHER):
        _, size = getattr(vectors, TERMS[kind][0]).shape
        rows = 2 * vectors.plan.n_buckets if size or kind == "arc" else 0
        shapes: list[tuple[int, ...]] = [*[(rows, size)] * 3, (rows,)]
        of_pairs |= dict(zip(TERMS[kind], zip(types, shapes, strict=True), strict=True))
    n_arc = vectors.sizes[0]
    of_labels = (pairs, n_labels, 2)
    n_between = 2 * OCCURRENCES * vectors.plan.n_between
    of_between = (n_between, n_arc if n_between else 0)
    wanted: dict[str, tuple[type, tuple[int, ...]]] = {
        "table": (np.int8, (n_rows, 2 * (groups * GROUP if groups else q))),
        "scales": (np.uint8, (n_rows,)),
        "bias": (np.int32, (width,)),
        "heads": (np.int8, (groups, sum(vectors.sizes), GROUP)),
        "modifiers": (np.int8, (groups, q, GROUP)),
        "head_shifts": (np.int32, (q,)),
        "modifier_shifts": (np.int32, (q,)),
        **of_pairs,
        "between_heads": (np.int16, of_between),
        "between_modifiers": (np.int16, of_between),
        "between_constants": (np.int32, (n_between,)),
        "labels": (np.int8, of_labels),
        "label_heads": (np.int16, of_labels),
        "label_modifiers": (np.int16, of_labels),
        "label_constants": (np.int32, (n_labels,)),
    }
    for name, (dtype, shape) in wanted.items():
        array = getattr(vectors, name)
        if array.dtype != dtype or array.shape != shape or not array.flags.c_contiguous:
            raise ValueError(f"{name} has another type or shape than {shape}")
    sizes = (groups * GROUP, *vectors.sizes)
    if any(size % BLOCK for size in sizes) or n_labels % LABEL_LANES or not n_arc:
        raise ValueError("sizes are not multiples of whole blocks")
    if bool(n_labels) != bool(pairs):
        raise ValueError("labels without numbers, or numbers without labels")
    if vectors.plan.places.max(initial=-1) >= n_rows or vectors.plan.places.min(initial=0) < -1:
        raise ValueError("values have rows that there are none of")


def _padded(weights: VectorWeights) -> VectorWeights:
    """The same weights with zeros up to whole blocks; the table float32, all others float64."""
    hidden, given_sizes = len(weights.heads), weights.sizes
    sizes = [_whole(size) for size in given_sizes]
    firsts = [0, *np.cumsum(sizes)[:-1].tolist()]
    columns = np.concatenate(  # of numbers of vectors
        [first + np.arange(size) for first, size in zip(firsts, given_sizes, strict=True)]
    )
    q = sum(sizes)
    inner = _whole(hidden) if hidden else q
    one = np.arange(hidden) if hidden else columns
    of_row = np.r_[one, inner + one]
    table, bias = weights.table, np.zeros(2 * inner)
    bias[of_row] = weights.bias
    if len(of_row) < 2 * inner:
        table = np.zeros((len(table), 2 * inner), np.float32)
        table[:, of_row] = weights.table
    matrices = np.zeros((2, inner if hidden else 0, q))
    for matrix, given in zip(matrices, (weights.heads, weights.modifiers), strict=True):
        matrix[:hidden, columns] = given
    scored = []
    for given, size, n_terms in zip(
        (*weights.scored, weights.between), (*sizes, sizes[0]), (*[3] * len(sizes), 2), strict=True,
    ):  # fmt: skip
        n_given = (given.shape[1] - 1) // n_terms
        padded = np.zeros((len(given), n_terms * size + 1))
        for term in range(n_terms):
            padded[:, term * size : term * size + n_given] = given[
                :, term * n_given : (term + 1) * n_given
            ]
        padded[:, -1] = given[:, -1]
        scored.append(padded)
    return VectorWeights(table, bias, *matrices, *scored)


def _whole(size: int) -> int:
    return -(-size // BLOCK) * BLOCK


def _node_sums(weights: VectorWeights, plan: VectorPlan, batch: Batch) -> np.ndarray:
    """(W, nodes) sums of rows and bias at some nodes of a batch, evenly chosen."""
    nodes = np.sort(np.concatenate([word_places(batch), batch.starts]))
    nodes = nodes[:: -(-len(nodes) // _MOST_NODES) or 1]
    table = np.concatenate([weights.table, np.zeros((1, weights.table.shape[1]), np.float32)])
    sums = np.empty((table.shape[1], len(nodes)), np.float32)
    for first in range(0, len(nodes), _NODES_AT_ONCE):
        some = nodes[first : first + _NODES_AT_ONCE]
        part = np.empty((len(some), len(sums)), np.float32)
        part[:] = weights.bias
        for row, offset, start, size in zip(
            plan.rows, plan.offsets, plan.starts, plan.sizes, strict=True
        ):
            values = batch.values[row, some + offset]
            known = (values >= 0) & (values < size)
            part += table[np.where(known, plan.places[start + np.where(known, values, 0)], -1)]
        sums[:, first : first + len(some)] = part.T
    return sums


def _freeze_layer(
    weights: VectorWeights, sums: np.ndarray
) -> tuple[dict[str, Any], dict[str, Any]]:
    """Table and hidden layer as whole numbers; matrices, shifts, and what 1 of a vector is worth.

    sums: (W, nodes) of `_node_sums`.
    """
    hidden, table, bias = len(weights.heads), weights.table, weights.bias
    matrices = [weights.heads, weights.modifiers]
    if hidden:
        # A hidden number may be divided by any factor if its weights are multiplied by it.
        factors = _evening(_most(np.maximum(sums, 0.0)))
        halves = np.split(factors, 2)
        matrices = [
            matrix * factor[:, None] for matrix, factor in zip(matrices, halves, strict=True)
        ]
    else:
        factors = _evening(_most(np.abs(sums)))
    sums, bias = sums / factors[:, None], bias / factors
    blocks = [slice(i, i + _ROWS_AT_ONCE) for i in range(0, len(table), _ROWS_AT_ONCE)]
    largest = np.zeros(len(table))
    for block in blocks:
        largest[block] = np.abs(table[block] / factors).max(1, initial=0.0)
    least = largest.max(initial=0.0) / (_LARGEST_SCALE * _LARGEST_NUMBER)
    least = max(least, np.abs(bias).max(initial=0.0) / (1 << 28), 1e-12)
    if hidden:
        most = float(_most(np.maximum(sums, 0.0)).max(initial=0.0)) or least
        shift = max(int(np.floor(np.log2(most / (_LARGEST_ACTIVATION * least)))), 0)
        unit = max(most / (_LARGEST_ACTIVATION * 2.0**shift), least)
    else:
        shift, unit = 0, least
    scales = np.clip(np.ceil(largest / (unit * _LARGEST_NUMBER) - 1e-9), 1, _LARGEST_SCALE)
    whole = np.empty(table.shape, np.int8)
    for block in blocks:
        whole[block] = _int8(table[block] / factors / (unit * scales[block, None]))
    layer = {
        "table": whole,
        "scales": scales.astype(np.uint8),
        "bias": np.rint(bias / unit).astype(np.int32),
        "shift": shift,
    }
    activation = unit * 2.0**shift
    frozen_matrices, shifts, numbers = [], [], []
    for matrix, part, factor in zip(matrices, np.split(sums, 2), np.split(factors, 2), strict=True):
        if hidden:
            active = np.clip(np.rint(part / activation), 0, _LARGEST_ACTIVATION) * activation
            vectors = np.abs(_multiplied(active, matrix))
            step = np.abs(matrix).max(0, initial=0.0) / _LARGEST_NUMBER * activation
        else:
            vectors, step = np.abs(part), np.full(len(part), unit)
        step = np.maximum(step, 1e-30)
        most = np.maximum(_most(vectors), step)
        of_columns = np.log2(most / (_LARGEST_NUMBER * step))
        of_columns = np.maximum(np.floor(of_columns) if hidden else np.ceil(of_columns), 0)
        if hidden:  # matrices take smaller numbers, so that vectors use their range
            step = np.maximum(most / (_LARGEST_NUMBER * 2.0**of_columns), step)
        frozen_matrices.append(_by_group(_int8(matrix * activation / step)))
        shifts.append(of_columns.astype(np.int32))
        numbers.append(step * 2.0**of_columns * (1.0 if hidden else factor))
    return layer, {
        "heads": frozen_matrices[0], "modifiers": frozen_matrices[1],
        "head_shifts": shifts[0], "modifier_shifts": shifts[1], "scales": numbers,
    }  # fmt: skip


def _multiplied(active: np.ndarray, matrix: np.ndarray) -> np.ndarray:
    """(Q, nodes) products of (H, nodes) and (H, Q), whose zeros between networks are skipped.

    They are summed in the order of hidden numbers, which a library with threads may not do.
    """
    products = np.zeros((matrix.shape[1], active.shape[1]))
    uses, kinds = np.unique(matrix != 0, axis=1, return_inverse=True)
    for kind, rows in enumerate(uses.T):
        columns = np.flatnonzero(kinds.ravel() == kind)
        numbers = matrix[rows][:, columns]
        for first in range(0, active.shape[1], _NODES_AT_ONCE):
            some = slice(first, first + _NODES_AT_ONCE)
            products[columns, some] = np.einsum("hi,hq->qi", active[rows, some], numbers)
    return products


def _most(numbers: np.ndarray) -> np.ndarray:
    """The end of the range of each row, whose order is changed."""
    if not numbers.size:
        return np.zeros(len(numbers))
    return np.percentile(numbers, _PERCENTILE, axis=1, overwrite_input=True).astype(np.float64)


def _evening(most: np.ndarray) -> np.ndarray:
    """Factors that bring ranges closer to each other: rows have one scale for all columns."""
    top = float(most.max(initial=0.0))
    return np.sqrt(np.maximum(most, top / 16) / top) if top > 0.0 else np.ones(len(most))


def _scaled_terms(
    between: np.ndarray, heads: np.ndarray, modifiers: np.ndarray
) -> tuple[np.ndarray, ...]:
    """The terms of words in between, for whole vectors; arguments as in `_freeze_products`."""
    n = len(heads)
    return between[:, :n] * heads, between[:, n : 2 * n] * modifiers, between[:, -1]


def _whole_between(between: Sequence[np.ndarray], unit: float) -> dict[str, np.ndarray]:
    """The same as whole numbers; unit: what 1 is worth."""
    if not len(between[0]):
        return NO_BETWEEN
    types = (np.int16, np.int16, np.int32)
    return {
        name: np.rint(term / unit).astype(dtype)
        for name, term, dtype in zip(BETWEEN_TERMS, between, types, strict=True)
    }


def _most_between(between: Sequence[np.ndarray]) -> float:
    """The most that words in between can add to a score: all that there are of one direction."""
    of_heads, of_modifiers, constants = map(np.abs, between)
    sums = (of_heads + of_modifiers).sum(1) * float(_LARGEST_NUMBER) + constants
    return float(sums.reshape(2, -1).sum(1).max(initial=0.0))


def _freeze_products(
    scored: np.ndarray,
    heads: np.ndarray,
    modifiers: np.ndarray,
    between: Sequence[np.ndarray] = (),
) -> tuple[tuple[np.ndarray, ...], float]:
    """The numbers of combinations or labels as whole numbers, and what 1 of a score is worth.

    scored: (rows, 3 P + 1). heads, modifiers: (P,), what 1 of a number of a vector is worth.
    between: what words in between add, which has the same unit.
    """
    n = len(heads)
    most = _most_between(between) if between else 0.0
    most_of_words = max((float(np.abs(term).max(initial=0.0)) for term in between[:2]), default=0.0)
    products = scored[:, :n] * heads * modifiers
    of_heads, of_modifiers = scored[:, n : 2 * n] * heads, scored[:, 2 * n : 3 * n] * modifiers
    ends = (_LARGEST_NUMBER, _LARGEST_TERM, _LARGEST_TERM, 1 << 28)
    terms = (products, of_heads, of_modifiers, scored[:, -1])
    unit = max(
        float(np.abs(term).max(initial=0.0)) / end for term, end in zip(terms, ends, strict=True)
    )
    unit = max(unit, most_of_words / _LARGEST_WORD)
    # Sums of very many numbers have to fit in 32 bits too, rounding included.
    sums = _LARGEST_NUMBER * (np.abs(of_heads) + np.abs(of_modifiers)).sum(1)
    sums += _LARGEST_NUMBER**2 * np.abs(products).sum(1) + np.abs(scored[:, -1])
    unit = max(unit, (float(sums.max(initial=0.0)) + most) / (0.95 * _MAX_SUM)) or 1.0
    whole = [np.rint(term / unit) for term in terms]
    types = (np.int8, np.int16, np.int16, np.int32)
    return tuple(w.astype(dtype) for w, dtype in zip(whole, types, strict=True)), unit


def label_blocks(*terms: np.ndarray) -> tuple[np.ndarray, ...]:
    """Numbers of labels (L, PL), and constants (L,), as `WordVectors` has them."""
    *of_numbers, constants = terms
    more = -len(constants) % LABEL_LANES
    given = np.concatenate([np.arange(len(constants)), np.zeros(more, np.int64)])
    blocks = [
        np.ascontiguousarray(
            term[given].reshape(len(given), term.shape[1] // 2, 2).transpose(1, 0, 2)
        )
        for term in of_numbers
    ]
    return *blocks, constants[given]


def by_label(blocks: np.ndarray) -> np.ndarray:
    """(L, PL) numbers of labels as `WordVectors` has them."""
    return blocks.transpose(1, 0, 2).reshape(blocks.shape[1], 2 * len(blocks))


def _by_group(matrix: np.ndarray) -> np.ndarray:
    """(H / GROUP, Q, GROUP) from (H, Q)."""
    hidden, q = matrix.shape
    return np.ascontiguousarray(matrix.reshape(hidden // GROUP, GROUP, q).transpose(0, 2, 1))


def _int8(numbers: np.ndarray) -> np.ndarray:
    return np.clip(np.rint(numbers), -_LARGEST_NUMBER, _LARGEST_NUMBER).astype(np.int8)
