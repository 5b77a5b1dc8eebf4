"""The k best projective trees with sibling parts, compiled: lazily, as in `eisner_kbest.py`.

Here the arcs I_R and I_L are items with lists of their own: their splits are the inner siblings.
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
from gpuparse.inference.kernels.cpu.eisner_sibling import (
    C_L,
    C_R,
    E_L,
    E_R,
    FIRST_L,
    FIRST_R,
    I_L,
    I_R,
    S_L,
    S_R,
    SiblingScratch,
    fill_sibling_chart,
    make_sibling_scratch,
    sibling_tree_score,
)
from gpuparse.inference.kernels.cpu.lanes import aligned, whole_vectors
from gpuparse.inference.kernels.cpu.siblings import (
    DenseSiblings,
    Siblings,
    part_of_pair,
    part_of_three,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD

# Kinds of items are planes of the chart: I_R, I_L, C_R, C_L and S_R, which stands for S. TOP is
# there for a single root: C_L(1,m), C_R(m,n) and the arc from the root to m.
TOP = S_L


class EisnerSiblingKBestScratch(NamedTuple):
    """Working memory of `eisner_sibling_kbest_sentence`; contents do not matter."""

    chart: SiblingScratch
    derivations: Derivations


@compiled
def _item_cells(n: int, stride: int) -> int:
    """Cells of the numbers of all items."""
    return (TOP * (n + 2) + 2) * stride


def make_eisner_sibling_kbest_scratch(
    n: int, k: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> EisnerSiblingKBestScratch:
    """Working memory for scores of this type, up to n words and up to k trees."""
    cells = _item_cells(n, whole_vectors(n + 1, np.dtype(dtype).itemsize))
    return EisnerSiblingKBestScratch(
        make_sibling_scratch(n, dtype),
        make_derivations(n, k, dtype, 5 * n * (n + 1) // 2 + 1, cells),
    )


@inlined
def _item(kind: int, i: int, j: int, n: int, stride: int) -> int:
    """The number of an item, which is the place of its maximum in the chart (S: of S_R)."""
    return (kind * (n + 2) + i) * stride + j


@inlined
def _parts(kind: int, i: int, j: int, r: int) -> tuple[int, int, int, int, int, int]:
    """The two parts of a derivation, each (kind, i, j)."""
    if kind == S_R:
        return C_R, i, r, C_L, r + 1, j
    if kind == C_R:
        return I_R, i, r, C_R, r, j
    if kind == C_L:
        return C_L, i, r, I_L, r, j
    if kind == TOP:
        return C_L, i, r, C_R, r, j
    if r == i:  # no sibling
        return (
            C_R,
            i,
            i,
            C_L if kind == I_R else C_R,
            i + 1 if kind == I_R else i,
            (j if kind == I_R else j - 1),
        )
    if kind == I_R:
        return I_R, i, r, S_R, r, j
    return S_R, i, r, I_L, r, j


@inlined
def _added(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    stride: int,
    chart: np.ndarray,
    kind: int,
    i: int,
    j: int,
    r: int,
) -> tuple[float, float, float, float]:
    """What is added to the values in the lists of the two parts, then what for this derivation."""
    plane = (n + 2) * stride
    zero = chart.dtype.type(0)
    if kind == C_R:
        return arc_scores[i, r], zero, siblings.ends[i, r], zero
    if kind == C_L:
        return zero, arc_scores[j, r], zero, siblings.ends[j, r]
    if kind == I_R:
        if r == i:
            return zero, zero, zero, chart[FIRST_R * plane + i * stride + j]
        return (
            arc_scores[i, r], part_of_pair(siblings, j, r),
            zero, part_of_three(siblings, i, j, r),
        )  # fmt: skip
    if kind == I_L:
        if r == i:
            return zero, zero, zero, chart[FIRST_L * plane + i * stride + j]
        return (
            part_of_pair(siblings, i, r), arc_scores[j, r],
            part_of_three(siblings, j, i, r), zero,
        )  # fmt: skip
    return zero, zero, zero, zero


@inlined
def _of_root(
    arc_scores: np.ndarray, siblings: Siblings, n: int, stride: int, chart: np.ndarray, m: int
) -> tuple[float, float]:
    """What is added for the only modifier of the root."""
    first = chart[FIRST_R * (n + 2) * stride + m]
    return first + siblings.ends[0, m], arc_scores[0, m]


@compiled
def _fill_list(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
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
    plane = (n + 2) * stride
    row, none = i * stride, -1
    r, end = i, j
    if kind == S_R:
        left, right = C_R * plane + row, C_L * plane + stride + j
    elif kind == C_R:
        left, right, r, end = E_R * plane + row, C_R * plane + j, i + 1, j + 1
    elif kind == C_L:
        left, right = C_L * plane + row, E_L * plane + j
    elif kind == TOP:
        left, right, end = C_L * plane + row, C_R * plane + j, j + 1
    elif kind == I_R:
        left, right, none = I_R * plane + row, S_R * plane + j, C_L * plane + row + stride + j
    else:
        left, right, none = S_L * plane + row, I_L * plane + j, C_R * plane + row + j - 1
    least, length = chart.dtype.type(-np.inf), 0
    while r < end:
        of_left, of_right = chart[np.uint64(left + r)], chart[np.uint64(right + r * stride)]
        if kind == I_R and r > i:
            value = of_left + (of_right + part_of_three(siblings, i, j, r))
        elif kind == I_L and r > i:
            value = (of_left + part_of_three(siblings, j, i, r)) + of_right
        elif none >= 0:
            first = FIRST_R if kind == I_R else FIRST_L
            value = chart[none] + chart[first * plane + row + j]
        else:
            value = of_left + of_right
        if kind == TOP:
            part, arc = _of_root(arc_scores, siblings, n, stride, chart, r)
            value = value + part + arc
        if value > least:
            length = insert(values, places, start, length, room, value, place_of(r, 0, 0))
            if length == room:
                least = values[start + room - 1]
        r += 1
    return length


@inlined
def _enter(
    agenda: np.ndarray,
    size: int,
    heads: np.ndarray,
    t: int,
    kind: int,
    i: int,
    j: int,
    rank: int,
    asks: int,
) -> int:
    """Put a part on the agenda if it may have several derivations, and its arc into the tree."""
    if kind == I_R or (kind == C_R and j - i == 1):
        heads[t, j] = i
    elif kind == I_L or (kind == C_L and j - i == 1):
        heads[t, i] = j
    if j - i > 1:
        agenda[size, 0], agenda[size, 1], agenda[size, 2] = kind, i, j
        agenda[size, 3], agenda[size, 4] = rank, asks
        return size + 1
    return size


@compiled
def _unfold(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    k: int,
    t: int,
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
    size, p = 1, 0
    while p < size:
        kind, i, j = agenda[p, 0], agenda[p, 1], agenda[p, 2]
        rank, asks = agenda[p, 3], agenda[p, 4]
        item = _item(kind, i, j, n, stride)
        x = list_of[item]
        if x < 0:
            x = n_lists
            n_lists += 1
            list_of[item] = x
            lengths[x] = _fill_list(
                arc_scores, siblings, n, stride, chart, kind, i, j, values, places, x * k, k - t
            )
            asked[x] = 1
            if lengths[x] == 0:  # of the top item
                return 0, n_lists
        if asked[x] > rank + 1:
            asks = 0
        agenda[p, 4] = asks
        r, a, b = parts_of_place(places[x * k + rank])
        if kind == TOP:
            heads[t, r] = 0
        left, left_i, left_j, right, right_i, right_j = _parts(kind, i, j, r)
        asks_left = asks if b == 0 else 0
        size = _enter(agenda, size, heads, t, left, left_i, left_j, a, asks_left)
        size = _enter(agenda, size, heads, t, right, right_i, right_j, b, asks)
        p += 1
    return size, n_lists


@compiled
def _advance(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    k: int,
    t: int,
    stride: int,
    chart: np.ndarray,
    derivations: Derivations,
    size: int,
) -> None:
    """Find the next derivation of all items of tree t that are asked for it, parts first."""
    values, places, lengths, asked, list_of, agenda = derivations
    for p in range(size - 1, -1, -1):
        if agenda[p, 4] == 0:
            continue
        kind, i, j, rank = agenda[p, 0], agenda[p, 1], agenda[p, 2], agenda[p, 3]
        x = list_of[_item(kind, i, j, n, stride)]
        asked[x] = rank + 2
        place = places[x * k + rank]
        r, a, b = parts_of_place(place)
        left, left_i, left_j, right, right_i, right_j = _parts(kind, i, j, r)
        left = _item(left, left_i, left_j, n, stride)
        right = _item(right, right_i, right_j, n, stride)
        of_left, of_right = list_of[left], list_of[right]
        more_left = b == 0 and of_left >= 0 and lengths[of_left] > a + 1
        more_right = of_right >= 0 and lengths[of_right] > b + 1
        if not (more_left or more_right):
            continue
        to_left, to_right, then_left, then_right = _added(
            arc_scores, siblings, n, stride, chart, kind, i, j, r
        )
        if kind == I_L and r > i:
            left += (S_L - S_R) * (n + 2) * stride
        value_a = chart[left] if a == 0 else values[of_left * k + a] + to_left
        value_b = chart[right] if b == 0 else values[of_right * k + b] + to_right
        room, length = k - t + rank, lengths[x]
        for side in range(2):
            more, step = value_a, ONE_RIGHT
            if side == 0:
                if not more_left:
                    continue
                more, step = values[of_left * k + a + 1] + to_left, ONE_LEFT
                value = (more + then_left) + (value_b + then_right)
            else:
                if not more_right:
                    continue
                more = values[of_right * k + b + 1] + to_right
                value = (value_a + then_left) + (more + then_right)
            if kind == TOP:
                part, arc = _of_root(arc_scores, siblings, n, stride, chart, r)
                value = value + part + arc
            length = insert(values, places, x * k, length, room, value, place + step)
        lengths[x] = length


@compiled
def eisner_sibling_kbest_sentence(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    single_root: bool,
    k: int,
    scratch: EisnerSiblingKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> int:
    """The k best projective trees of one sentence, for other compiled code to call.

    Args: arc_scores, siblings as of `eisner_sibling_sentence`; n >= 1; k from 1 to `MAX_RANK`;
    scratch of `make_eisner_sibling_kbest_scratch(n, k)` or for more words; heads (>= k, >= n+1),
    scores (>= k,): filled at [0:count, 1:n+1] and [0:count].
    Returns: count, the number of trees; less than k if there are no more. Scores are the sums of
    the chart, and never rise; in another order the same parts may give other last bits.
    """
    first = 1 if single_root else 0
    chart = aligned(scratch.chart.floats)
    stride = whole_vectors(n + 1, scratch.chart.floats.itemsize)
    fill_sibling_chart(arc_scores, siblings, first, n, stride, chart)
    derivations = scratch.derivations
    lists, agenda = derivations.list_of, derivations.agenda
    lists[: _item_cells(n, stride)] = -1
    n_lists = 0
    for t in range(k):
        agenda[0, 0], agenda[0, 1], agenda[0, 2] = TOP if single_root else C_R, first, n
        agenda[0, 3], agenda[0, 4] = t, 1
        size, n_lists = _unfold(
            arc_scores, siblings, n, k, t, stride, chart, derivations, n_lists, heads
        )
        if size == 0:
            return 0
        scores[t] = derivations.values[t]
        if t + 1 < k:
            _advance(arc_scores, siblings, n, k, t, stride, chart, derivations, size)
            if derivations.lengths[0] == t + 1:
                return t + 1
    return k


@compiled
def eisner_sibling_kbest_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    scratch: EisnerSiblingKBestScratch,
    heads: np.ndarray,
    scores: np.ndarray,
) -> None:
    """The k best projective trees of a batch, unchecked, on arrays that the caller provides.

    Args: arc_scores, end_scores float (B, N, N), sibling_scores (B, N, N, N), C order; lengths
    int64 (B,); scratch for the longest sentence; heads int64 (B, k, N) and scores float (B, k):
    filled. Trees that do not exist get -inf and no heads.
    """
    k = scores.shape[1]
    for b in range(len(lengths)):
        n = lengths[b]
        heads[b] = NO_HEAD
        scores[b] = -np.inf
        if n == 0:
            scores[b, 0] = 0
            continue
        siblings = DenseSiblings(sibling_scores[b], end_scores[b])
        arcs, trees, sums = arc_scores[b], heads[b], scores[b]
        count = eisner_sibling_kbest_sentence(
            arcs, siblings, n, single_root, k, scratch, trees, sums
        )
        for t in range(count):
            total = sibling_tree_score(arcs, siblings, n, trees[t])
            sums[t] = total if t == 0 else min(total, sums[t - 1])


def eisner_sibling_kbest(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    end_scores: torch.Tensor,
    lengths: torch.Tensor,
    k: int,
    *,
    single_root: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.eisner_sibling_kbest` on checked scores in main memory.

    Returns:
        As there; a sentence without a tree gets -inf only.
    """
    arcs, siblings, ends, words = (
        part.numpy() for part in (arc_scores, sibling_scores, end_scores, lengths)
    )
    heads = np.empty((len(arcs), k, arcs.shape[1]), np.int64)
    scores = np.empty((len(arcs), k), arcs.dtype)

    def search(part: slice) -> None:
        longest = int(words[part].max(initial=0))
        scratch = make_eisner_sibling_kbest_scratch(longest, k, arcs.dtype.type)
        eisner_sibling_kbest_batch(
            arcs[part], siblings[part], ends[part], words[part], single_root, scratch, heads[part],
            scores[part],
        )  # fmt: skip

    run_in_threads(search, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 3)
    return torch.from_numpy(heads), torch.from_numpy(scores)
