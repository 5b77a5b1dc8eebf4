"""The k best first-order projective trees, compiled: lazily, over the maxima of `eisner`'s chart.

The best tree is unfolded from the top. Each item in it gets the list of its best splits; then, from
the bottom up, each item that needs its next best derivation takes it from its list, to which the
next ones of the last are added. The top item then has the next best tree, which is unfolded in its
turn. Only items of the trees that are found are ever looked at, O(n) a tree.
"""

from typing import NamedTuple

import numpy as np
import torch

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.derivations import (
    ASKS,
    END,
    KIND,
    N_FIELDS,
    ONE_LEFT,
    ONE_RIGHT,
    RANK,
    START,
    Derivations,
    Pointer,
    enter,
    insert,
    make_derivations,
    parts_of_place,
    place_of,
    pointers_to,
)
from gpuparse.inference.kernels.cpu.eisner import eisner_scratch_size, fill_chart
from gpuparse.inference.kernels.cpu.lanes import aligned, pointer_to, whole_vectors
from gpuparse.inference.kernels.cpu.threads import run_in_threads
from gpuparse.tensors import NO_HEAD

# Kinds of items, in the order of their planes in the chart. TOP is there for a single root:
# C_L(1,m), C_R(m,n) and the arc from the root to m. I is S and an arc, and needs no list.
C_R, C_L, S, TOP = range(4)


class EisnerKBestScratch(NamedTuple):
    """Working memory of `eisner_kbest_sentence`; contents do not matter."""

    floats: np.ndarray
    derivations: Derivations


def make_eisner_kbest_scratch(
    n: int, k: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> EisnerKBestScratch:
    """Working memory for scores of this type, up to n words and up to k trees."""
    itemsize = np.dtype(dtype).itemsize
    cells = 4 * (n + 1) * whole_vectors(n + 1, itemsize)
    return EisnerKBestScratch(
        np.empty(eisner_scratch_size(n, itemsize), dtype),
        make_derivations(n, k, dtype, 3 * n * (n + 1) // 2 + 1, cells),
    )


@inlined
def _item(kind: int, i: int, j: int, last: int, stride: int) -> int:
    """The number of an item; from C_R on, its maximum stands there in the chart."""
    return (kind * (last + 1) + j - i) * stride + i


@inlined
def _left_kind(kind: int) -> int:
    return S if kind == C_R else (C_R if kind == S else C_L)


@inlined
def _right_kind(kind: int) -> int:
    return S if kind == C_L else (C_L if kind == S else C_R)


@inlined
def _sum(kind: int, left: float, right: float, arc: float) -> float:
    """The value of a derivation from those of its parts and the arc, added as in the chart."""
    if kind == S:
        return left + right
    if kind == C_R:
        return (left + arc) + right
    if kind == C_L:
        return left + (right + arc)
    return (left + right) + arc


@inlined
def _operands(kind: int, i: int, j: int, last: int, stride: int) -> tuple[int, int, int, int]:
    """Where the maxima of both parts stand for the first split, this split, and the last one.

    With every further split, the left part is one row on and the right one, one row less, one cell.
    """
    plane = (last + 1) * stride
    c_R = (2 * last + 1) * stride
    c_L, at = c_R + plane, (j - i) * stride + i
    if kind == C_R:  # I_R(i,r) + C_R(r,j)
        return (last + 1) * stride + i, c_R + at + 1 - stride, i + 1, j
    if kind == S:
        return c_R + i, c_L + at + 1 - stride, i, j - 1
    if kind == C_L:  # C_L(i,r) + I_L(r,j)
        return c_L + i, c_R + 3 * plane + at, i, j - 1
    return c_L + i, c_R + at, i, j


@inlined
def _fill_list(
    of_root: Pointer,
    last: int,
    stride: int,
    chart: Pointer,
    kind: int,
    i: int,
    j: int,
    values: Pointer,
    places: Pointer,
    start: int,
    room: int,
) -> int:
    """The best splits of an item, both parts at their best; returns how many.

    Args: of_root: for TOP, the arcs from the root by r.
    """
    left, right, r, end = _operands(kind, i, j, last, stride)
    least, length = -np.inf, 0
    while r <= end:
        value = chart[left] + chart[right]
        if kind == TOP:
            value += of_root[r]
        if value > least:
            length = insert(values, places, start, length, room, value, place_of(r, 0, 0))
            if length == room:
                least = values[start + room - 1]
        left += stride
        right += 1 - stride
        r += 1
    return length


@compiled
def _unfold(
    first: int,
    k: int,
    t: int,
    last: int,
    stride: int,
    chart: Pointer,
    of_root: Pointer,
    derivations: tuple[Pointer, ...],
    n_lists: int,
    heads: np.ndarray,
) -> tuple[int, int]:
    """Put the items of tree t on the agenda, its top item being there, and its heads into heads[t].

    Items that have no list get one. Returns: items on the agenda, lists.
    """
    values, places, lengths, asked, list_of, agenda = derivations
    size, p = 1, 0
    while p < size:
        at = p * N_FIELDS
        p += 1
        kind, i, j = agenda[at + KIND], agenda[at + START], agenda[at + END]
        if kind < S and j - i == 1 and size > 1:  # a single derivation
            m = j if kind == C_R else i
            heads[t, m + first] = i + j - m + first
            agenda[at + ASKS] = 0
            continue
        item = _item(kind, i, j, last, stride)
        x, rank = list_of[item], agenda[at + RANK]
        if x < 0:
            x = n_lists
            n_lists += 1
            list_of[item] = x
            lengths[x] = _fill_list(
                of_root, last, stride, chart, kind, i, j, values, places, x * k, k - t
            )
            asked[x] = 1
            if lengths[x] == 0:  # of the top item
                return 0, n_lists
        if asked[x] > rank + 1:
            agenda[at + ASKS] = 0
        asks = agenda[at + ASKS]
        r, a, b = parts_of_place(places[x * k + rank])
        start = r
        if kind == S:
            start = r + 1
        elif kind == TOP:
            heads[t, r + first] = 0
        else:
            heads[t, r + first] = (i if kind == C_R else j) + first
        # An S of two words has a single derivation and no arc.
        if r - i > (1 if kind == C_R else 0):
            size = enter(agenda, size, _left_kind(kind), i, r, a, asks if b == 0 else 0)
        if j - start > (1 if kind == C_L else 0):
            size = enter(agenda, size, _right_kind(kind), start, j, b, asks)
    return size, n_lists


@compiled
def _advance(
    arc_scores: np.ndarray,
    first: int,
    k: int,
    t: int,
    last: int,
    stride: int,
    chart: Pointer,
    derivations: tuple[Pointer, ...],
    size: int,
) -> None:
    """Find the next derivation of all items of tree t that are asked for it, parts first."""
    values, places, lengths, asked, list_of, agenda = derivations
    c_R = (2 * last + 1) * stride
    for p in range(size - 1, -1, -1):
        at = p * N_FIELDS
        if agenda[at + ASKS] == 0:
            continue
        kind, i, j, rank = (
            agenda[at + KIND],
            agenda[at + START],
            agenda[at + END],
            agenda[at + RANK],
        )
        x = list_of[_item(kind, i, j, last, stride)]
        asked[x] = rank + 2
        place = places[x * k + rank]
        r, a, b = parts_of_place(place)
        left = _item(_left_kind(kind), i, r, last, stride)
        right = _item(_right_kind(kind), r + 1 if kind == S else r, j, last, stride)
        of_left, of_right = list_of[left], list_of[right]
        more_left = b == 0 and of_left >= 0 and lengths[of_left] > a + 1
        more_right = of_right >= 0 and lengths[of_right] > b + 1
        h = 0 if kind == TOP else (i if kind == C_R else j) + first
        arc = arc_scores[h, r + first] if kind != S else arc_scores.dtype.type(0)
        room, length, start = k - t + rank, lengths[x], x * k
        if more_left:
            value_b = chart[c_R + right]
            value = _sum(kind, values[of_left * k + a + 1], value_b, arc)
            length = insert(values, places, start, length, room, value, place + ONE_LEFT)
        if more_right:
            value_a = chart[c_R + left] if a == 0 else values[of_left * k + a]
            value = _sum(kind, value_a, values[of_right * k + b + 1], arc)
            length = insert(values, places, start, length, room, value, place + ONE_RIGHT)
        lengths[x] = length


@compiled
def eisner_kbest_sentence(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    k: int,
    scratch: EisnerKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> int:
    """The k best projective trees of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1), n >= 1; k from 1 to `MAX_RANK`; scratch of
    `make_eisner_kbest_scratch(n, k)` or for more of both, in the type of the scores; heads
    (>= k, >= n+1), scores (>= k,): filled at [0:count, 1:n+1] and [0:count].
    Returns: count, the number of trees; less than k if there are no more. Scores are the sums of
    the chart, and never rise; in another order the same arcs may give other last bits.
    """
    first = 1 if single_root else 0
    last = n - first
    stride = whole_vectors(last + 1, scratch.floats.itemsize)
    chart = aligned(scratch.floats)
    fill_chart(arc_scores, first, last, stride, chart)
    if single_root:
        # A list by r of the arcs from the root, in the place of those to the left of all words.
        for r in range(n):
            chart[r] = arc_scores[0, r + 1]
    cells = pointer_to(chart)
    derivations = pointers_to(scratch.derivations)
    scratch.derivations.list_of[: 4 * (last + 1) * stride] = -1
    values, lengths, agenda = derivations[0], derivations[2], derivations[5]
    n_lists = 0
    for t in range(k):
        enter(agenda, 0, TOP if single_root else C_R, 0, last, t, 1)
        size, n_lists = _unfold(
            first, k, t, last, stride, cells, cells, derivations, n_lists, heads
        )
        if size == 0:
            return 0
        scores[t] = values[t]
        if t + 1 < k:
            _advance(arc_scores, first, k, t, last, stride, cells, derivations, size)
            if lengths[0] == t + 1:
                return t + 1
    return k


@compiled
def eisner_kbest_batch(
    arc_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    scratch: EisnerKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The k best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores float (B, N, N), C order; lengths int64 (B,); scratch for the longest sentence;
    heads int64 (B, k, N) and scores float (B, k): filled. Trees that do not exist get -inf and no
    heads.
    """
    k = scores.shape[1]
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        scores[b] = -np.inf
        if n == 0:
            scores[b, 0] = 0
            continue
        arcs, trees, sums = arc_scores[b], heads[b], scores[b]
        count = eisner_kbest_sentence(arcs, n, single_root, k, scratch, trees, sums)
        for t in range(count):
            total = arcs.dtype.type(0)
            for m in range(1, n + 1):
                total += arcs[trees[t, m], m]
            sums[t] = total if t == 0 else min(total, sums[t - 1])


def eisner_kbest(
    arc_scores: torch.Tensor, lengths: torch.Tensor, k: int, *, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_kbest` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets -inf only.
    """
    arcs, words = arc_scores.numpy(), lengths.numpy()
    heads = np.empty((len(arcs), k, arcs.shape[1]), np.int64)
    scores = np.empty((len(arcs), k), arcs.dtype)

    def search(part: slice) -> None:
        scratch = make_eisner_kbest_scratch(int(words[part].max(initial=0)), k, arcs.dtype.type)
        eisner_kbest_batch(arcs[part], words[part], single_root, scratch, heads[part], scores[part])

    run_in_threads(search, words, 3, torch.get_num_threads())
    return torch.from_numpy(heads), torch.from_numpy(scores)
