"""The k best projective trees with sibling parts, compiled: lazily, as in `eisner_kbest.py`.

Here the arcs I_R and I_L are items with lists of their own: their splits are the inner siblings.
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
from gpuparse.inference.kernels.cpu.eisner_sibling import (
    C_L,
    C_R,
    E_L,
    E_R,
    FIRST_L,
    FIRST_R,
    I_L,
    I_R,
    N_PLANES,
    S_L,
    S_R,
    SiblingScratch,
    fill_sibling_chart,
    make_sibling_scratch,
    sibling_tree_score,
)
from gpuparse.inference.kernels.cpu.lanes import aligned, pointer_to, whole_vectors
from gpuparse.inference.kernels.cpu.siblings import (
    DenseSiblings,
    Siblings,
    fill_parts_of_three,
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
def _operands(kind: int, i: int, j: int, plane: int, stride: int) -> tuple[int, int, int, int]:
    """Where the maxima of both parts stand for the split 0, the first split, and the last one.

    With every further split the left part is one cell on and the right one, one row.
    """
    row = i * stride
    if kind == S_R:
        return C_R * plane + row, C_L * plane + stride + j, i, j - 1
    if kind == C_R:
        return E_R * plane + row, C_R * plane + j, i + 1, j
    if kind == C_L:
        return C_L * plane + row, E_L * plane + j, i, j - 1
    if kind == TOP:
        return C_L * plane + row, C_R * plane + j, i, j
    if kind == I_R:
        return I_R * plane + row, S_R * plane + j, i, j - 1
    return S_L * plane + row, I_L * plane + j, i, j - 1


@inlined
def _without_sibling(kind: int, i: int, j: int, plane: int, stride: int, chart: Pointer) -> float:
    """The value of an arc without an inner sibling."""
    row = i * stride
    if kind == I_R:
        return chart[C_L * plane + row + stride + j] + chart[FIRST_R * plane + row + j]
    return chart[C_R * plane + row + j - 1] + chart[FIRST_L * plane + row + j]


@inlined
def _fill_list(
    parts: Pointer,
    of_root: Pointer,
    n: int,
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

    Args: parts: for arcs, the parts of three by r; of_root: for TOP, what is added by r.
    """
    plane = (n + 2) * stride
    left, right, r, end = _operands(kind, i, j, plane, stride)
    right += r * stride
    least, length = -np.inf, 0
    while r <= end:
        if kind == I_R:
            value = chart[left + r] + (chart[right] + parts[r])
        elif kind == I_L:
            value = (chart[left + r] + parts[r]) + chart[right]
        else:
            value = chart[left + r] + chart[right]
        if kind == TOP:
            value = (value + of_root[r]) + of_root[stride + r]
        elif kind <= I_L and r == i:
            value = _without_sibling(kind, i, j, plane, stride, chart)
        if value > least:
            length = insert(values, places, start, length, room, value, place_of(r, 0, 0))
            if length == room:
                least = values[start + room - 1]
        right += stride
        r += 1
    return length


@compiled
def _unfold(
    siblings: Siblings,
    n: int,
    k: int,
    t: int,
    stride: int,
    chart: Pointer,
    parts: np.ndarray,
    of_root: Pointer,
    derivations: tuple[Pointer, ...],
    n_lists: int,
    heads: np.ndarray,
) -> tuple[int, int]:
    """Put the items of tree t on the agenda, its top item being there, and its heads into heads[t].

    Items that have no list get one. Returns: items on the agenda, lists.
    """
    values, places, lengths, asked, list_of, agenda = derivations
    of_three = pointer_to(parts)
    size, p = 1, 0
    while p < size:
        at = p * N_FIELDS
        p += 1
        kind, i, j = agenda[at + KIND], agenda[at + START], agenda[at + END]
        is_right = kind % 2 == 0  # I_R or C_R, where it matters
        if kind <= I_L or (kind <= C_L and j - i == 1):
            heads[t, j if is_right else i] = i if is_right else j
            if j - i == 1 and size > 1:  # a single derivation
                agenda[at + ASKS] = 0
                continue
        item = _item(kind, i, j, n, stride)
        x, rank = list_of[item], agenda[at + RANK]
        if x < 0:
            x = n_lists
            n_lists += 1
            list_of[item] = x
            if kind <= I_L and j - i > 1:
                h = i if is_right else j
                fill_parts_of_three(siblings, h, i + j - h, i + 1, j - 1, parts)
            lengths[x] = _fill_list(
                of_three, of_root, n, stride, chart, kind, i, j, values, places, x * k, k - t
            )
            asked[x] = 1
            if lengths[x] == 0:  # of the top item
                return 0, n_lists
        if asked[x] > rank + 1:
            agenda[at + ASKS] = 0
        asks = agenda[at + ASKS]
        r, a, b = parts_of_place(places[x * k + rank])
        if kind == TOP:
            heads[t, r] = 0
        left, left_i, left_j, right, right_i, right_j = _parts(kind, i, j, r)
        # An S of two words has a single derivation and no arc.
        if left_j - left_i > (1 if left == S_R else 0):
            size = enter(agenda, size, left, left_i, left_j, a, asks if b == 0 else 0)
        if right_j - right_i > (1 if right == S_R else 0):
            size = enter(agenda, size, right, right_i, right_j, b, asks)
    return size, n_lists


@compiled
def _advance(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    k: int,
    t: int,
    stride: int,
    chart: Pointer,
    of_root: Pointer,
    derivations: tuple[Pointer, ...],
    size: int,
) -> None:
    """Find the next derivation of all items of tree t that are asked for it, parts first."""
    values, places, lengths, asked, list_of, agenda = derivations
    plane, zero = (n + 2) * stride, arc_scores.dtype.type(0)
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
        x = list_of[_item(kind, i, j, n, stride)]
        asked[x] = rank + 2
        place = places[x * k + rank]
        r, a, b = parts_of_place(place)
        left_kind, left_i, left_j, right_kind, right_i, right_j = _parts(kind, i, j, r)
        left = _item(left_kind, left_i, left_j, n, stride)
        right = _item(right_kind, right_i, right_j, n, stride)
        of_left, of_right = list_of[left], list_of[right]
        more_left = b == 0 and of_left >= 0 and lengths[of_left] > a + 1
        more_right = of_right >= 0 and lengths[of_right] > b + 1
        if not (more_left or more_right):
            continue
        # What is added to the values in the lists of the parts, then what by this derivation.
        to_left, to_right, then_left, then_right = zero, zero, zero, zero
        if kind == C_R:
            to_left, then_left = arc_scores[i, r], siblings.ends[i, r]
        elif kind == C_L:
            to_right, then_right = arc_scores[j, r], siblings.ends[j, r]
        elif kind <= I_L and r == i:
            then_right = chart[(FIRST_R if kind == I_R else FIRST_L) * plane + i * stride + j]
        elif kind == I_R:
            to_left, to_right = arc_scores[i, r], part_of_pair(siblings, j, r)
            then_right = part_of_three(siblings, i, j, r)
        elif kind == I_L:
            to_left, to_right = part_of_pair(siblings, i, r), arc_scores[j, r]
            then_left = part_of_three(siblings, j, i, r)
            left += (S_L - S_R) * plane
        value_a = chart[left] if a == 0 else values[of_left * k + a] + to_left
        value_b = chart[right] if b == 0 else values[of_right * k + b] + to_right
        room, length, start = k - t + rank, lengths[x], x * k
        if more_left:
            value = values[of_left * k + a + 1] + to_left
            value = (value + then_left) + (value_b + then_right)
            if kind == TOP:
                value = (value + of_root[r]) + of_root[stride + r]
            length = insert(values, places, start, length, room, value, place + ONE_LEFT)
        if more_right:
            value = values[of_right * k + b + 1] + to_right
            value = (value_a + then_left) + (value + then_right)
            if kind == TOP:
                value = (value + of_root[r]) + of_root[stride + r]
            length = insert(values, places, start, length, room, value, place + ONE_RIGHT)
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
    scratch of `make_eisner_sibling_kbest_scratch(n, k)` or for more of both; heads (>= k, >= n+1),
    scores (>= k,): filled at [0:count, 1:n+1] and [0:count].
    Returns: count, the number of trees; less than k if there are no more. Scores are the sums of
    the chart, and never rise; in another order the same parts may give other last bits.
    """
    first = 1 if single_root else 0
    chart = aligned(scratch.chart.floats)
    stride = whole_vectors(n + 1, scratch.chart.floats.itemsize)
    fill_sibling_chart(arc_scores, siblings, first, n, stride, chart)
    # The rows of parts of three have been read, and serve for one arc at a time, and the root's.
    rows = chart[N_PLANES * (n + 2) * stride :]
    if single_root:
        for m in range(1, n + 1):
            first_of_root = chart[FIRST_R * (n + 2) * stride + m]
            rows[stride + m] = first_of_root + siblings.ends[0, m]
            rows[2 * stride + m] = arc_scores[0, m]
    of_root = pointer_to(rows[stride:])
    cells = pointer_to(chart)
    derivations = pointers_to(scratch.derivations)
    scratch.derivations.list_of[: _item_cells(n, stride)] = -1
    values, lengths, agenda = derivations[0], derivations[2], derivations[5]
    n_lists = 0
    for t in range(k):
        enter(agenda, 0, TOP if single_root else C_R, first, n, t, 1)
        size, n_lists = _unfold(
            siblings, n, k, t, stride, cells, rows, of_root, derivations, n_lists, heads
        )
        if size == 0:
            return 0
        scores[t] = values[t]
        if t + 1 < k:
            _advance(arc_scores, siblings, n, k, t, stride, cells, of_root, derivations, size)
            if lengths[0] == t + 1:
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
