"""Compiled scoring of one sentence on the CPU: every arc's weights, gathered and summed.

Words of one sentence stand at `start` (the root) to `start + n` of the batch's values. Loops run
over families outside and modifiers inside, for one head at a time, so that a head's row of
scores stays in the first-level cache; base rows are XORed in a vector loop of their own.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.features.keys import SEED_SHIFT, fold, mix
from gpuparse.features.plan import LINE, ArcPlan

_EMPTY_KEY = np.uint64(0)


class RowMap(NamedTuple):
    """From keys to base rows, as arrays.

    A hashed map has `mask` bits of every key, and takes the key itself if its number of rows is a
    power of two, else one of its lines by multiplication. An exact map has an open-addressing
    table; keys that it lacks go to row 0, whose line is always zero. The fields of the other kind
    are None, so that its code is not even compiled.
    """

    rows: int  # hashed: rows of the table, a multiple of LINE
    is_power: bool  # hashed: whether that is a power of two
    mask: int  # hashed: bits of a key that count
    keys: np.ndarray | None  # exact: (capacity,) uint64, 0 where free
    bases: np.ndarray | None  # exact: (capacity,) int64
    state: np.ndarray | None  # exact: (2,) int64: keys in the table, next free row
    dense: int  # first row of the dense region


class Scratch(NamedTuple):
    """Working memory for one thread and sentences of at most N - 1 words."""

    side_key: np.ndarray  # (S, N) uint32, or uint64 for exact keys
    side_on: np.ndarray  # (S, N) bool: every atom of the side has a value
    side_full: np.ndarray  # (S,) bool: on at every word
    head_part: np.ndarray  # (F, N)
    modifier_part: np.ndarray  # (F, N)
    base: np.ndarray  # (N,) uint32 base rows of one head's arcs
    combination: np.ndarray  # (2N,) int64: combination of m - h at m - h + n
    code: np.ndarray  # (K, N) uint32: codes of one head's arcs
    word_sum: np.ndarray  # (2, N, LINE): sums of the word families by role, word, combination
    prefix: np.ndarray  # ((N + 1) * LINE,): sums of between lines of the words before a word
    middle: np.ndarray  # (N,) uint64: offset of a word's lines among those of its neighbours
    groups: np.ndarray  # (4, 2, N) int64: see VALUE to LAST, by role and node


# What `groups` holds of the nodes of a role that share the value that a between family reads.
VALUE = 0  # the value, -1 for none
NEXT = 1  # the next node with the same value, or N
FIRST = 2  # whether it is the first node with its value
LAST = 3  # for the first node: the last one with its value


def make_scratch(plan: ArcPlan, n: int, exact: bool, sums: np.dtype) -> Scratch:
    """Working memory for sentences of up to n words; `sums` is the type that weights sum to."""
    nodes, sides = n + 1, len(plan.side_start) - 1
    key = np.uint64 if exact else np.uint32
    return Scratch(
        np.empty((sides, nodes), key),
        np.empty((sides, nodes), np.bool_),
        np.empty(sides, np.bool_),
        np.empty((len(plan.pair), nodes), key),
        np.empty((len(plan.pair), nodes), key),
        np.empty(nodes, np.uint32),
        np.empty(2 * nodes, np.int64),
        np.empty((len(plan.codes), nodes), np.uint32),
        np.empty((2, nodes, LINE), sums),
        np.empty((nodes + 1) * LINE, sums),
        np.empty(nodes, np.uint64),
        np.empty((4, 2, nodes), np.int64),
    )


# Inner functions take arrays, not the tuples that hold them: numba passes a tuple by copying all
# of its arrays' descriptors, which would cost more than the function. Where `keys` is None, numba
# leaves out the branches for exact maps.


@compiled
def _fill_sides(values, start, n, side_start, atoms, keys, scratch):
    """Keys of every side at every node."""
    side_key, on = scratch.side_key, scratch.side_on
    for side in range(len(side_start) - 1):
        for i in range(n + 1):
            side_key[side, i] = 0
            on[side, i] = True
        for atom in range(side_start[side], side_start[side + 1]):
            row, place = atoms[atom].row, start + atoms[atom].offset
            for i in range(n + 1):
                value = values[row, place + i]
                on[side, i] &= value != 0
                if keys is None:
                    side_key[side, i] = fold(side_key[side, i], np.uint32(value))
                else:
                    side_key[side, i] |= np.uint64(value) << np.uint64(atoms[atom].shift)
        full = True
        for i in range(1, n + 1):
            full &= on[side, i]
        scratch.side_full[side] = full


@compiled
def part_key(key, seed, role, mask, keys):
    """A family's part of a key: exact keys carry the seed on the head's part alone."""
    if keys is None:
        return mix(key, np.uint32(2 * seed + role)) & np.uint32(mask)
    return key | (np.uint64(1 - role) * np.uint64(seed) << np.uint64(SEED_SHIFT))


@compiled
def find_base(key, n_rows, is_power, keys, bases):
    """The base row of a whole key, under the row map's fields of these names."""
    if keys is None:
        if is_power:
            return np.uint32(key)
        line = (np.uint64(key) * np.uint64(n_rows // LINE)) >> np.uint64(32)
        return np.uint32(line * np.uint64(LINE) + (np.uint64(key) & np.uint64(LINE - 1)))
    slot = find_slot(key, keys)
    return np.uint32(bases[slot]) if keys[slot] != _EMPTY_KEY else np.uint32(0)


@compiled
def find_slot(key, keys):
    """The slot of an exact key in the open-addressing table, or the free slot for it."""
    mask = np.uint64(len(keys) - 1)
    slot = (key * np.uint64(0x9E3779B97F4A7C15)) >> np.uint64(20)
    slot = (slot ^ (slot >> np.uint64(23))) & mask
    while keys[slot] != _EMPTY_KEY and keys[slot] != key:
        slot = (slot + np.uint64(1)) & mask
    return slot


@compiled
def insert_all(keys, bases, slots, slot_bases):
    """Put keys with their base rows into the arrays of an exact table that has room for them."""
    for k in range(len(keys)):
        slot = find_slot(keys[k], slots)
        slots[slot] = keys[k]
        slot_bases[slot] = bases[k]


@compiled
def fill_parts(values, start, n, plan, rows, scratch):
    """All that is computed once a word: sides, parts, and the combination of every m - h."""
    _fill_sides(values, start, n, plan.side_start, plan.atoms, rows.keys, scratch)
    mask, keys, sides = rows.mask, rows.keys, scratch.side_key
    for family in range(len(plan.pair)):
        seed = plan.pair[family].seed
        head, modifier = plan.pair[family].head_side, plan.pair[family].modifier_side
        for i in range(n + 1):
            scratch.head_part[family, i] = part_key(sides[head, i], seed, 0, mask, keys)
            scratch.modifier_part[family, i] = part_key(sides[modifier, i], seed, 1, mask, keys)
    last = len(plan.buckets) - 1
    for distance in range(1, n + 1):
        bucket = plan.buckets[min(distance - 1, last)]
        scratch.combination[n + distance] = bucket
        scratch.combination[n - distance] = plan.n_buckets + bucket
    scratch.combination[n] = 0


@compiled
def sum_words(n, plan, weights, rows, scratch):
    """Sum the word families: one number for each word, role and combination."""
    codes, word_sum = plan.codes, scratch.word_sum
    word_sum[:, : n + 1] = 0
    for family in range(len(plan.word)):
        record = plan.word[family]
        role, side, seed = record.role, record.side, record.seed
        first, second = record.first_codes, record.second_codes
        for i in range(n + 1):  # the root too: an end that is not there has it for a modifier
            if scratch.side_on[side, i]:
                key = part_key(scratch.side_key[side, i], seed, 0, rows.mask, rows.keys)
                base = find_base(key, rows.rows, rows.is_power, rows.keys, rows.bases)
                for c in range(codes.shape[1]):
                    word_sum[role, i, c] += weights[base ^ codes[first, c]]
                if second >= 0:
                    for c in range(codes.shape[1]):
                        word_sum[role, i, c] += weights[base ^ codes[second, c]]


@compiled
def _add_pairs(h, n, plan, weights, rows, scratch, out):
    """Add the pair families of head h's arcs to its row of scores."""
    base, code = scratch.base, scratch.code
    on, parts = scratch.side_on, scratch.modifier_part
    n_rows, is_power, keys, bases = rows.rows, rows.is_power, rows.keys, rows.bases
    for family in range(len(plan.pair)):
        record = plan.pair[family]
        if not on[record.head_side, h]:
            continue
        side = record.modifier_side
        head = scratch.head_part[family, h]
        first, second = record.first_codes, record.second_codes
        if is_power:
            for m in range(1, n + 1):
                base[m] = head ^ parts[family, m]
        else:
            for m in range(1, n + 1):
                base[m] = find_base(head ^ parts[family, m], n_rows, is_power, keys, bases)
        if scratch.side_full[side]:
            if second >= 0:
                for m in range(1, n + 1):
                    one = weights[base[m] ^ code[first, m]]
                    out[h, m] += one + weights[base[m] ^ code[second, m]]
            else:
                for m in range(1, n + 1):
                    out[h, m] += weights[base[m] ^ code[first, m]]
        else:
            for m in range(1, n + 1):
                if on[side, m]:
                    out[h, m] += weights[base[m] ^ code[first, m]]
                    if second >= 0:
                        out[h, m] += weights[base[m] ^ code[second, m]]


@compiled
def between_row(record, head, middle, modifier, dense):
    """First row of the dense line of three values, in a family's region of the dense rows."""
    head, middle = min(head, record.n_heads - 1), min(middle, record.n_middles - 1)
    line = (head * record.n_middles + middle) * record.n_modifiers
    line += min(modifier, record.n_modifiers - 1)
    return dense + (record.line + line) * LINE


@compiled
def between_value(values, place, side, side_start, atoms):
    """The value that a between family reads of a word: 0 for no atom, -1 for no value."""
    atom = side_start[side]
    if atom == side_start[side + 1]:
        return np.int64(0)
    value = np.int64(values[atoms[atom].row, place + atoms[atom].offset])
    return value if value != 0 else np.int64(-1)


@compiled
def _fill_groups(values, start, n, role, side, side_start, atoms, groups):
    """Chain the nodes of a role that share a value."""
    for i in range(n + 1):
        value = between_value(values, start + i, side, side_start, atoms)
        groups[VALUE, role, i] = value
        groups[NEXT, role, i] = n + 1
        groups[FIRST, role, i] = value >= 0
    for i in range(role, n + 1):
        if groups[FIRST, role, i]:
            last = i
            for j in range(i + 1, n + 1):
                if groups[VALUE, role, j] == groups[VALUE, role, i]:
                    groups[NEXT, role, last] = j
                    groups[FIRST, role, j] = False
                    last = j
            groups[LAST, role, i] = last


@compiled
def _fill_prefix(low, high, first, weights, prefix, middle):
    """Running sums, over the words k of low..high - 1, of the lines at first + middle[k]."""
    # Unsigned: a negative index cannot occur, and each line becomes one vector addition.
    place = np.uint64(low * LINE)
    for step in range(LINE):
        prefix[place + np.uint64(step)] = 0
    for k in range(low, high):
        base = first + middle[k]
        for step in range(LINE):
            c = np.uint64(step)
            prefix[place + np.uint64(LINE) + c] = prefix[place + c] + weights[base + c]
        place += np.uint64(LINE)


@compiled
def _add_between(values, start, n, plan, weights, dense, scratch, out):
    """Add the between families: running sums for each pair of values of head and modifier."""
    groups, prefix, combination, codes = (
        scratch.groups, scratch.prefix, scratch.combination, plan.codes
    )  # fmt: skip
    for family in range(len(plan.between)):
        record = plan.between[family]
        first, second = record.first_codes, record.second_codes
        for role in range(2):
            side = record.modifier_side if role else record.head_side
            _fill_groups(values, start, n, role, side, plan.side_start, plan.atoms, groups)
        for k in range(1, n + 1):
            value = min(np.int64(values[record.row, start + k]), record.n_middles - 1)
            scratch.middle[k] = np.uint64(value * record.n_modifiers * LINE)
        for a in range(n + 1):
            if not groups[FIRST, 0, a]:
                continue
            for b in range(1, n + 1):
                if not groups[FIRST, 1, b]:
                    continue
                # The line of a silent word in between (value 0) is never written: it adds zero.
                line = between_row(record, groups[VALUE, 0, a], 0, groups[VALUE, 1, b], dense)
                low, high = min(a, b) + 1, max(groups[LAST, 0, a], groups[LAST, 1, b])
                _fill_prefix(low, high, np.uint64(line), weights, prefix, scratch.middle)
                h = a
                while h <= n:
                    m = b
                    while m <= n:
                        low, high = (min(h, m) + 1) * LINE, max(h, m) * LINE
                        c = combination[n + m - h]
                        k = codes[first, c]
                        out[h, m] += prefix[high + k] - prefix[low + k]
                        if second >= 0:
                            k = codes[second, c]
                            out[h, m] += prefix[high + k] - prefix[low + k]
                        m = groups[NEXT, 1, m]
                    h = groups[NEXT, 0, h]


@compiled
def score_pairs(first, n, plan, weights, rows, scratch, out):
    """Fill out[first:n+1, 1:n+1] with the scores of two words each, all families but between."""
    for h in range(first, n + 1):
        for m in range(1, n + 1):
            c = scratch.combination[n + m - h]
            out[h, m] = scratch.word_sum[0, h, c] + scratch.word_sum[1, m, c]
            for table in range(len(plan.codes)):
                scratch.code[table, m] = plan.codes[table, c]
        _add_pairs(h, n, plan, weights, rows, scratch, out)


@inlined
def score_sentence(values, start, n, plan, weights, rows, scratch, out):
    """Fill out[0:n+1, 1:n+1] with the scores of all arcs; the diagonal holds nothing of use.

    Cost: O(families n^2) gathers, O(K^2 n) vector additions for K distinct values in between.
    """
    fill_parts(values, start, n, plan, rows, scratch)
    sum_words(n, plan, weights, rows, scratch)
    score_pairs(0, n, plan, weights, rows, scratch, out)
    _add_between(values, start, n, plan, weights, rows.dense, scratch, out)


@compiled
def score_sentences(values, starts, lengths, plan, weights, rows, scratch, sums, out):
    """Fill out[b, 0:n+1, 1:n+1] for every sentence of a batch; `sums` is (N, N) scratch."""
    for b in range(len(starts)):
        n = lengths[b]
        score_sentence(values, starts[b], n, plan, weights, rows, scratch, sums)
        for h in range(n + 1):
            for m in range(1, n + 1):
                out[b, h, m] = sums[h, m]


@compiled
def arc_rows(values, start, n, h, m, plan, rows, scratch, found):
    """Write the weight rows of every feature of the arc h -> m; return how many there are.

    `fill_parts` must have been called for the sentence. A row stands as often as it fires.
    """
    codes, c = plan.codes, scratch.combination[n + m - h]
    count = pair_rows(h, m, c, plan, rows, scratch, found)
    for family in range(len(plan.between)):
        between = plan.between[family]
        first, second = between.first_codes, between.second_codes
        side_start, atoms = plan.side_start, plan.atoms
        head = between_value(values, start + h, between.head_side, side_start, atoms)
        modifier = between_value(values, start + m, between.modifier_side, side_start, atoms)
        if head >= 0 and modifier >= 0:
            for k in range(min(h, m) + 1, max(h, m)):
                middle = np.int64(values[between.row, start + k])
                if middle != 0:
                    base = between_row(between, head, middle, modifier, rows.dense)
                    count = put_rows(base, first, second, codes, c, found, count)
    return count


@compiled
def pair_rows(h, m, c, plan, rows, scratch, found):
    """`arc_rows` without the words between, for the combination c of direction and distance."""
    on, codes = scratch.side_on, plan.codes
    n_rows, is_power, keys, bases = rows.rows, rows.is_power, rows.keys, rows.bases
    count = 0
    for family in range(len(plan.word)):
        record = plan.word[family]
        i, side = m if record.role else h, record.side
        if on[side, i]:
            key = part_key(scratch.side_key[side, i], record.seed, 0, rows.mask, keys)
            base = np.int64(find_base(key, n_rows, is_power, keys, bases))
            count = put_rows(base, record.first_codes, record.second_codes, codes, c, found, count)
    for family in range(len(plan.pair)):
        pair = plan.pair[family]
        if on[pair.head_side, h] and on[pair.modifier_side, m]:
            key = scratch.head_part[family, h] ^ scratch.modifier_part[family, m]
            base = np.int64(find_base(key, n_rows, is_power, keys, bases))
            count = put_rows(base, pair.first_codes, pair.second_codes, codes, c, found, count)
    return count


@compiled
def put_rows(base, first, second, codes, combination, found, count):
    """Append a family's rows, one or two."""
    found[count] = base ^ np.int64(codes[first, combination])
    if second < 0:
        return count + 1
    found[count + 1] = base ^ np.int64(codes[second, combination])
    return count + 2


def max_rows(plan: ArcPlan, n: int) -> int:
    """No arc of a sentence of n words has more features than this."""
    return 2 * (len(plan.word) + len(plan.pair) + n * len(plan.between))
