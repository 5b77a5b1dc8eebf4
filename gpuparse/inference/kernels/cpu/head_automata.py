"""Head automata: for every head by itself, its best head and its best modifiers on both sides.

Each automaton is free to choose what it likes, whether or not all choices together make a tree:
the sub-problems of dual decomposition. The scores stand in blocks, as `candidates.py` says; for
parts of siblings alone every block is one column wide, and no head is chosen. An arc costs the
modifiers' price where the automaton of its head takes it as a modifier, and the heads' price where
the automaton of its modifier takes it as its own head.

A column is one possible head of a head. In models with grandparents the column `columns[h] + q` has
the number of the arc itself, in others that of h.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.candidates import Candidates

FREE, FORCED, BARRED = 0, 1, 2  # what is known of an arc


class HeadAutomata(NamedTuple):
    """The automata of one sentence with A arcs and C columns, and what they chose last.

    columns: int (N + 1,). side, chain: as `side` and `beyond` of `Candidates`, with arcs in the
    place of modifiers. rows: int64 (A + 1,), where the row of an arc, a number for each column of
    its head, begins. reverse: int32 (A,), the place in that row of the modifier as the head of its
    head, -1 for none. starts, blocks, ends: the scores.
    forward, backward: float64 (rows[A],), best modifiers of one head and side up to an arc, and
    from it on. of_side: (2, C), best modifiers of one side. totals: (C,), of both, less the price
    of the column. as_modifiers: int8 (A,), as_heads: int8 (C,), 1 for what is chosen.
    """

    columns: np.ndarray
    side: np.ndarray
    chain: np.ndarray
    rows: np.ndarray
    reverse: np.ndarray
    starts: np.ndarray
    blocks: np.ndarray
    ends: np.ndarray
    forward: np.ndarray
    backward: np.ndarray
    of_side: np.ndarray
    totals: np.ndarray
    as_modifiers: np.ndarray
    as_heads: np.ndarray


@compiled
def make_head_automata(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    n: int,
) -> HeadAutomata:
    """The automata of a sentence, which have chosen nothing yet."""
    number, head, modifier = candidates.number, candidates.head, candidates.modifier
    side, beyond = candidates.side, candidates.beyond
    n_arcs = len(head)
    columns = candidates.first if has_grandparents else np.arange(n + 2).astype(np.int32)
    chain = np.zeros_like(beyond)
    for s in range(2):
        for h in range(n + 1):
            for k in range(side[s, h], side[s, h + 1]):
                chain[s, k] = number[h, beyond[s, k]]
    rows = np.zeros(n_arcs + 1, np.int64)
    reverse = np.full(n_arcs, -1, np.int32)
    for a in range(1, n_arcs):
        h = head[a]
        rows[a + 1] = rows[a] + columns[h + 1] - columns[h]
        if has_grandparents and h > 0 and number[modifier[a], h] >= 0:
            reverse[a] = number[modifier[a], h] - columns[h]
    n_columns = columns[n + 1]
    return HeadAutomata(
        columns,
        side,
        chain,
        rows,
        reverse,
        starts,
        blocks,
        ends,
        np.empty(rows[n_arcs]),
        np.empty(rows[n_arcs]),
        np.empty((2, n_columns)),
        np.empty(n_columns),
        np.empty(n_arcs, np.int8),
        np.empty(n_columns, np.int8),
    )


@compiled
def solve_automata(
    automata: HeadAutomata,
    n: int,
    has_grandparents: bool,
    state: np.ndarray,
    modifier_prices: np.ndarray,
    head_prices: np.ndarray,
) -> None:
    """Fill forward, of_side and totals.

    Args: state (A,): what is known of the arcs; prices (A,), (C,). A column of a model with
    grandparents whose arc is barred has the total -inf.
    """
    columns, side, chain, rows = automata.columns, automata.side, automata.chain, automata.rows
    reverse, starts, blocks, ends = (
        automata.reverse,
        automata.starts,
        automata.blocks,
        automata.ends,
    )
    forward, of_side, totals = automata.forward, automata.of_side, automata.totals
    for h in range(n + 1):
        column = columns[h]
        width = columns[h + 1] - column
        for s in range(2):
            begin, since = side[s, h], -1  # the last forced arc: nothing goes past it
            best = of_side[s]
            for q in range(width):
                best[np.uint64(column + q)] = 0.0
            for k in range(begin, side[s, h + 1]):
                a = chain[s, k]
                row, block = np.uint64(rows[a]), np.uint64(starts[a])
                if state[a] == BARRED:
                    continue
                for q in range(width):
                    score = np.float64(blocks[block + np.uint64(q)])
                    forward[row + np.uint64(q)] = score if since < 0 else -np.inf
                for i in range(max(since, begin), k):
                    inner = chain[s, i]
                    if state[inner] == BARRED:
                        continue
                    block = np.uint64(starts[a] + (i - begin + 1) * width)
                    other = np.uint64(rows[inner])
                    for q in range(width):
                        value = forward[other + np.uint64(q)] + blocks[block + np.uint64(q)]
                        old = forward[row + np.uint64(q)]
                        forward[row + np.uint64(q)] = value if value > old else old
                if reverse[a] >= 0:
                    forward[row + np.uint64(reverse[a])] = -np.inf
                price, end = modifier_prices[a], np.float64(ends[a])
                if state[a] == FORCED:
                    since = k
                    for q in range(width):
                        best[np.uint64(column + q)] = -np.inf
                for q in range(width):
                    value = forward[row + np.uint64(q)] - price
                    forward[row + np.uint64(q)] = value
                    value += end
                    old = best[np.uint64(column + q)]
                    best[np.uint64(column + q)] = value if value > old else old
        for q in range(width):
            c = np.uint64(column + q)
            totals[c] = of_side[0, c] + of_side[1, c] - head_prices[c]
        if has_grandparents:
            for a in range(column, column + width):
                if state[a] == BARRED:
                    totals[a] = -np.inf


@inlined
def _trace_side(
    begin: int,
    end: int,
    q: int,
    width: int,
    chain: np.ndarray,
    rows: np.ndarray,
    starts: np.ndarray,
    blocks: np.ndarray,
    ends: np.ndarray,
    state: np.ndarray,
    forward: np.ndarray,
    taken: np.ndarray,
) -> None:
    """Mark the best of the arcs chain[begin:end] under column q; the innermost wins a tie."""
    chosen, highest = -1, 0.0
    for k in range(begin, end):
        a = chain[k]
        if state[a] != BARRED:
            value = forward[rows[a] + q] + ends[a]
            if value > highest or state[a] == FORCED:
                chosen, highest = k, value
    while chosen >= 0:
        a = chain[chosen]
        taken[a] = 1
        inner, highest = -1, np.float64(blocks[starts[a] + q])
        for i in range(begin, chosen):
            other = chain[i]
            if state[other] != BARRED:
                value = forward[rows[other] + q] + blocks[starts[a] + (i - begin + 1) * width + q]
                if value > highest or state[other] == FORCED:
                    inner, highest = i, value
        chosen = inner


@compiled
def trace_automata(automata: HeadAutomata, n: int, state: np.ndarray) -> float:
    """Fill as_modifiers and as_heads after `solve_automata`; the first best column wins.

    Returns: the sum of all scores; -inf, and nothing more to rely on, if there is no choice.
    """
    columns, side, chain, rows = automata.columns, automata.side, automata.chain, automata.rows
    starts, blocks, ends = automata.starts, automata.blocks, automata.ends
    forward, totals = automata.forward, automata.totals
    as_modifiers, as_heads = automata.as_modifiers, automata.as_heads
    as_modifiers[:] = 0
    as_heads[:] = 0
    total = 0.0
    for h in range(n + 1):
        column = columns[h]
        width = columns[h + 1] - column
        best = column
        for c in range(column + 1, column + width):
            best = c if totals[c] > totals[best] else best
        total += totals[best]
        if not totals[best] > -np.inf:
            return -np.inf
        as_heads[best] = 1
        for s in range(2):
            _trace_side(
                side[s, h], side[s, h + 1], best - column, width, chain[s], rows, starts, blocks,
                ends, state, forward, as_modifiers,
            )  # fmt: skip
    return total


@compiled
def fill_losses(
    automata: HeadAutomata,
    n: int,
    has_grandparents: bool,
    state: np.ndarray,
    modifier_prices: np.ndarray,
    head_prices: np.ndarray,
    losses: np.ndarray,
) -> None:
    """What the automata together lose at least if they all agree to take an arc.

    Args: as of `solve_automata`, which must have been run; losses float64 (A,): filled.
    """
    columns, side, chain, rows = automata.columns, automata.side, automata.chain, automata.rows
    reverse, starts, blocks, ends = (
        automata.reverse,
        automata.starts,
        automata.blocks,
        automata.ends,
    )
    forward, backward = automata.forward, automata.backward
    of_side, totals = automata.of_side, automata.totals
    losses[:] = 0.0
    for h in range(n + 1):
        column = columns[h]
        width = columns[h + 1] - column
        best = totals[column]
        for k in range(column + 1, column + width):
            best = max(best, totals[k])
        if has_grandparents:
            for a in range(column, column + width):
                losses[a] += best - totals[a]
        for s in range(2):
            begin, end = side[s, h], side[s, h + 1]
            forced = end  # the nearest beyond: nothing goes past it
            for k in range(end - 1, begin - 1, -1):
                a = chain[s, k]
                if state[a] == BARRED:
                    losses[a] = np.inf
                    continue
                row = np.uint64(rows[a])
                outermost = np.float64(ends[a]) if forced == end else -np.inf
                for q in range(width):
                    backward[row + np.uint64(q)] = outermost
                for o in range(k + 1, min(forced + 1, end)):
                    outer = chain[s, o]
                    if state[outer] == BARRED:
                        continue
                    block = np.uint64(starts[outer] + (k - begin + 1) * width)
                    other, price = np.uint64(rows[outer]), modifier_prices[outer]
                    for q in range(width):
                        value = blocks[block + np.uint64(q)] - price
                        value += backward[other + np.uint64(q)]
                        old = backward[row + np.uint64(q)]
                        backward[row + np.uint64(q)] = value if value > old else old
                if reverse[a] >= 0:
                    backward[row + np.uint64(reverse[a])] = -np.inf
                forced = k if state[a] == FORCED else forced
                highest = -np.inf
                for q in range(width):
                    if has_grandparents and state[column + q] == BARRED:
                        continue
                    at = np.uint64(column + q)
                    value = forward[row + np.uint64(q)] + backward[row + np.uint64(q)]
                    value += of_side[1 - s, at] - head_prices[at]
                    highest = value if value > highest else highest
                losses[a] += best - highest
