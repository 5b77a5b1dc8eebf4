"""Compiled scoring of parts of three and four words: what searches over them read.

Words are hashed here, once for every template that looks at them; the parts themselves, of the arcs
that are left, are summed up by `gpuparse.inference.kernels.cpu.larger_parts`.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import fold, mix
from gpuparse.features.larger_plan import BELOW, RIGHT, SLOTS, LargerPlan
from gpuparse.features.templates import LARGER_PARTS, PARTS
from gpuparse.inference.kernels.cpu.larger_parts import NOBODY, cell_of

SEED = 1 << 16  # the families of arcs and siblings have smaller ones
MODIFIER_SLOT = np.array([PARTS[part].index("m") for part in LARGER_PARTS])
HEAD_SLOT = np.array([PARTS[part].index("h") for part in LARGER_PARTS])


class LargerScratch(NamedTuple):
    """Working memory of one thread, for sentences of at most N - 1 words; F templates, S sides.

    cells, firsts: the arcs left by pruning, as of `prune_sentences`; both empty: all arcs.
    """

    side_key: np.ndarray  # (S, N) uint32
    side_on: np.ndarray  # (S, N) bool
    words: np.ndarray  # (F, SLOTS, N) uint32
    on: np.ndarray  # (F, SLOTS, N) bool
    right: np.ndarray  # (F,) uint32
    below: np.ndarray  # (F,) uint32
    cells: np.ndarray  # (C,) bool
    firsts: np.ndarray  # (T,) int64


def make_larger_scratch(plan: LargerPlan, n: int) -> LargerScratch:
    """Working memory for sentences of up to n words, of which no arcs are pruned."""
    n_sides, n_looks, nodes = len(plan.side_start) - 1, len(plan.sides), n + 1
    directions = plan.with_direction.astype(np.uint32)
    return LargerScratch(
        np.zeros((n_sides, nodes), np.uint32),
        np.zeros((n_sides, nodes), np.bool_),
        np.zeros((n_looks, SLOTS, nodes), np.uint32),
        np.zeros((n_looks, SLOTS, nodes), np.bool_),
        directions * np.uint32(RIGHT),
        directions * np.uint32(BELOW),
        np.zeros(0, np.bool_),
        np.zeros(0, np.int64),
    )


@inlined
def fill_larger_keys(values, start, n, plan, scratch):
    """Hash every word of a sentence for every template of larger parts."""
    _fill_keys(
        values, start, n, plan.sides, plan.side_start, plan.atoms, scratch.side_key,
        scratch.side_on, scratch.words, scratch.on,
    )  # fmt: skip


@compiled
def _fill_keys(values, start, n, sides, side_start, atoms, side_key, side_on, words, on):
    for side in range(len(side_start) - 1):
        for i in range(n + 1):
            side_key[side, i] = 0
            side_on[side, i] = True
        for atom in range(side_start[side], side_start[side + 1]):
            row, offset = atoms[atom, 0], atoms[atom, 1]
            for i in range(n + 1):
                value = values[row, start + i + offset]
                side_key[side, i] = fold(side_key[side, i], np.uint32(value))
                side_on[side, i] &= value != 0
            # Beside somebody who is not there is no word.
            side_on[side, NOBODY] &= offset == 0
    for look in range(len(sides)):
        for slot in range(SLOTS):
            side = sides[look, slot]
            seed = np.uint32(SEED + SLOTS * look + slot)
            for i in range(n + 1):
                # Nothing is read of a word, perhaps for there is none: nothing goes into the XOR.
                words[look, slot, i] = mix(side_key[side, i], seed) if side > 0 else np.uint32(0)
                on[look, slot, i] = side_on[side, i]


@compiled
def larger_rows(kind, a, b, c, d, plan, scratch, cells, found):
    """Write the weight rows of every feature of a part; return how many there are.

    Args: kind: a number in LARGER_PARTS; a, b, c, d: its words, NOBODY for who is not there and
    for words that parts of the kind do not have. `fill_larger_keys` must have been called.
    """
    place = (a, b, c, d)
    h, m = place[HEAD_SLOT[kind]], place[MODIFIER_SLOT[kind]]
    is_right, is_below = h < m, HEAD_SLOT[kind] == 1 and a < h
    words, on, count = scratch.words, scratch.on, 0
    for look in range(plan.family_start[kind], plan.family_start[kind + 1]):
        if on[look, 0, a] and on[look, 1, b] and on[look, 2, c] and on[look, 3, d]:
            key = words[look, 0, a] ^ words[look, 1, b] ^ words[look, 2, c] ^ words[look, 3, d]
            if is_right:
                key ^= scratch.right[look]
            if is_below:
                key ^= scratch.below[look]
            found[count] = cell_of(key, cells)
            count += 1
    return count


def max_larger_rows(plan: LargerPlan) -> int:
    """No part has more features."""
    return int(np.diff(plan.family_start).max())
