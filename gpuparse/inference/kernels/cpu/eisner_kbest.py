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
    ONE_LEFT,
    ONE_RIGHT,
    Derivations,
    insert,
    make_derivations,
    parts_of_place,
    place_of,
)
from gpuparse.inference.kernels.cpu.eisner import eisner_scratch_size, fill_chart
from gpuparse.inference.kernels.cpu.lanes import aligned, whole_vectors
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
def _sum(
    arc_scores: np.ndarray, first: int, kind: int, i: int, j: int, r: int, left: float, right: float
) -> float:
    """The value of a derivation from those of its parts, added as in the chart."""
    if kind == S:
        return left + right
    if kind == C_R:
        return left + arc_scores[i + first, r + first] + right
    if kind == C_L:
        return left + (right + arc_scores[j + first, r + first])
    return left + right + arc_scores[0, r + 1]


@inlined
def _fill_list(
    arc_scores: np.ndarray,
    last: int,
    stride: int,
    chart: np.ndarray,
    kind: int,
    i: int,
    j: int,
    values: np.ndarray,
    places: np.ndarray,
    start: int,
    room: int,
) -> int:
    """The best splits of an item, both parts at their best; returns how many."""
    plane = (last + 1) * stride
    I_R = last * stride
    c_R = (2 * last + 1) * stride
    c_L = c_R + plane
    left, right = I_R, c_R
    if kind == S:
        left, right = c_R, c_L + 1 - stride
    elif kind == C_L:
        left, right = c_L, c_R + 3 * plane  # I_L
    elif kind == TOP:
        left, right = c_L, c_R
    left, right = left + i, right + (j - i) * stride + i
    r, end = i, j + 1 if kind == TOP else j
    if kind == C_R:
        left, right, r, end = left + stride, right + 1 - stride, i + 1, j + 1
    least, length = chart.dtype.type(-np.inf), 0
    while r < end:
        value = chart[np.uint64(left)] + chart[np.uint64(right)]
        if kind == TOP:
            value += arc_scores[0, r + 1]
        if value > least:
            length = insert(values, places, start, length, room, value, place_of(r, 0, 0))
            if length == room:
                least = values[start + room - 1]
        left += stride
        right += 1 - stride
        r += 1
    return length


@inlined
def _enter(
    agenda: np.ndarray,
    size: int,
    heads: np.ndarray,
    t: int,
    first: int,
    kind: int,
    i: int,
    j: int,
    rank: int,
    asks: int,
) -> int:
    """Put a part on the agenda, or its arc into the tree if it has only one derivation."""
    if j - i > 1:
        agenda[size, 0], agenda[size, 1], agenda[size, 2] = kind, i, j
        agenda[size, 3], agenda[size, 4] = rank, asks
        return size + 1
    if j > i:
        if kind == C_R:
            heads[t, j + first] = i + first
        elif kind == C_L:
            heads[t, i + first] = j + first
    return size


@compiled
def _unfold(
    arc_scores: np.ndarray,
    single_root: bool,
    k: int,
    t: int,
    last: int,
    stride: int,
    chart: np.ndarray,
    derivations: Derivations,
    n_lists: int,
    heads: np.ndarray,
) -> tuple[int, int]:
    """Put the items of tree t on the agenda, its top item being there, and its heads into heads[t].

    Items that have no list get one. Returns: items on the agenda, lists.
    """
    values, places, lengths, asked, list_of, agenda = derivations
    first = 1 if single_root else 0
    size, p = 1, 0
    while p < size:
        kind, i, j = agenda[p, 0], agenda[p, 1], agenda[p, 2]
        rank, asks = agenda[p, 3], agenda[p, 4]
        item = _item(kind, i, j, last, stride)
        x = list_of[item]
        if x < 0:
            x = n_lists
            n_lists += 1
            list_of[item] = x
            lengths[x] = _fill_list(
                arc_scores, last, stride, chart, kind, i, j, values, places, x * k, k - t
            )
            asked[x] = 1
            if lengths[x] == 0:  # of the top item
                return 0, n_lists
        if asked[x] > rank + 1:
            asks = 0
        agenda[p, 4] = asks
        r, a, b = parts_of_place(places[x * k + rank])
        if kind == C_R:
            heads[t, r + first] = i + first
        elif kind == C_L:
            heads[t, r + first] = j + first
        elif kind == TOP:
            heads[t, r + first] = 0
        asks_left = asks if b == 0 else 0
        size = _enter(agenda, size, heads, t, first, _left_kind(kind), i, r, a, asks_left)
        start = r + 1 if kind == S else r
        size = _enter(agenda, size, heads, t, first, _right_kind(kind), start, j, b, asks)
        p += 1
    return size, n_lists


@compiled
def _advance(
    arc_scores: np.ndarray,
    first: int,
    k: int,
    t: int,
    last: int,
    stride: int,
    chart: np.ndarray,
    derivations: Derivations,
    size: int,
) -> None:
    """Find the next derivation of all items of tree t that are asked for it, parts first."""
    values, places, lengths, asked, list_of, agenda = derivations
    c_R = (2 * last + 1) * stride
    for p in range(size - 1, -1, -1):
        if agenda[p, 4] == 0:
            continue
        kind, i, j, rank = agenda[p, 0], agenda[p, 1], agenda[p, 2], agenda[p, 3]
        x = list_of[_item(kind, i, j, last, stride)]
        place = places[x * k + rank]
        r, a, b = parts_of_place(place)
        left = _item(_left_kind(kind), i, r, last, stride)
        right = _item(_right_kind(kind), r + 1 if kind == S else r, j, last, stride)
        of_left, of_right = list_of[left], list_of[right]
        value_a = chart[c_R + left] if a == 0 else values[of_left * k + a]
        value_b = chart[c_R + right] if b == 0 else values[of_right * k + b]
        room, length = k - t + rank, lengths[x]
        if b == 0 and of_left >= 0 and lengths[of_left] > a + 1:
            more = values[of_left * k + a + 1]
            value = _sum(arc_scores, first, kind, i, j, r, more, value_b)
            length = insert(values, places, x * k, length, room, value, place + ONE_LEFT)
        if of_right >= 0 and lengths[of_right] > b + 1:
            more = values[of_right * k + b + 1]
            value = _sum(arc_scores, first, kind, i, j, r, value_a, more)
            length = insert(values, places, x * k, length, room, value, place + ONE_RIGHT)
        lengths[x] = length
        asked[x] = rank + 2


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
    `make_eisner_kbest_scratch(n, k)` or for more words, in the type of the scores; heads
    (>= k, >= n+1), scores (>= k,): filled at [0:count, 1:n+1] and [0:count].
    Returns: count, the number of trees; less than k if there are no more. Scores are the sums of
    the chart, and never rise; in another order the same arcs may give other last bits.
    """
    first = 1 if single_root else 0
    last = n - first
    stride = whole_vectors(last + 1, scratch.floats.itemsize)
    chart = aligned(scratch.floats)
    fill_chart(arc_scores, first, last, stride, chart)
    derivations = scratch.derivations
    lists, agenda = derivations.list_of, derivations.agenda
    lists[: 4 * (last + 1) * stride] = -1
    n_lists = 0
    for t in range(k):
        agenda[0, 0], agenda[0, 1], agenda[0, 2] = TOP if single_root else C_R, 0, last
        agenda[0, 3], agenda[0, 4] = t, 1
        size, n_lists = _unfold(
            arc_scores, single_root, k, t, last, stride, chart, derivations, n_lists, heads
        )
        if size == 0:
            return 0
        scores[t] = derivations.values[t]
        if t + 1 < k:
            _advance(arc_scores, first, k, t, last, stride, chart, derivations, size)
            if derivations.lengths[0] == t + 1:
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
