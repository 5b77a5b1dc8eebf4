"""Dual decomposition of non-projective trees with larger parts, compiled.

A tree of candidates is to have the highest sum of the parts in its blocks. The
sub-problems share the arcs: one spanning tree; for each head an automaton that chooses its
modifiers on both sides and, where parts have grandparents, its own head; and where limits on
labels are to be kept, for each head another that chooses its modifiers and their labels. Prices
make them agree: the tree earns what the others pay, so that the sum of all best scores is never
below the score of the best tree, and equals it where all choices agree. The prices descend along
subgradients.

Three things beyond the textbook form, which is in `reference_dual_decomposition.py`:

- every tree met is scored, and improved by single changes of head when it is the best so far, so
  that steps can aim at it (Polyak), and the bound alone can certify it;
- an arc without which nothing better is lost is barred: what the sub-problems lose with it, the
  reduced cost in the tree and the loss in the two automata, is taken from the bound;
- where prices alone do not close the gap, one disputed arc is forced in one branch and barred in
  the other, both going on with the same prices.
"""

from typing import NamedTuple

import numpy as np

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.block_trees import block_tree_score, climb_block_tree
from gpuparse.inference.kernels.cpu.candidates import Candidates
from gpuparse.inference.kernels.cpu.chu_liu_edmonds import (
    chu_liu_edmonds_scratch_sizes,
    chu_liu_edmonds_sentence,
    super_nodes,
)
from gpuparse.inference.kernels.cpu.head_automata import (
    BARRED,
    FORCED,
    FREE,
    HeadAutomata,
    fill_losses,
    make_head_automata,
    solve_automata,
    trace_automata,
)
from gpuparse.inference.kernels.cpu.label_limits import (
    LabelLimits,
    label_head,
    make_label_limits,
    solve_label_limits,
)

FIRST_PACE = 0.5  # of steps, as a part of the way to the best tree met
LAST_PACE, LAST_PACE_IN_BRANCH = 0.1, 0.4
PATIENCE = 4  # iterations without a better bound after which the pace is halved
PATIENCE_WITHOUT_A_TREE = 30  # iterations, where nothing says how far to step
MEMORY = 0.8  # of the last direction in the next one
BAR_EVERY = 5  # iterations
FORGET = 0.2  # of an arc's share in earlier solutions, with each new one
DEEPEST = 64  # branches within branches
ROUNDING = 1e-12  # of the largest part, for each word


class _Search(NamedTuple):
    """What all branches of one sentence share.

    prices, best_prices, direction: float64 (3, A): what an arc costs as a modifier, as the head of
    its modifier, and with a label; (see `HeadAutomata` for the columns of head prices, those of
    models without grandparents are all 0). shares: (A,), how often an arc was chosen of late.
    losses: (A,). matrix: (N, N), floats, ints, tree: of the spanning tree. parent, repaired, inner,
    outermost: scratch. heads: the best tree. best: (1,), its score.
    """

    prices: np.ndarray
    best_prices: np.ndarray
    direction: np.ndarray
    shares: np.ndarray
    losses: np.ndarray
    matrix: np.ndarray
    floats: np.ndarray
    ints: np.ndarray
    tree: np.ndarray
    parent: np.ndarray
    repaired: np.ndarray
    inner: np.ndarray
    outermost: np.ndarray
    heads: np.ndarray
    best: np.ndarray


@compiled
def _make_search(n: int, n_arcs: int, heads: np.ndarray) -> _Search:
    n_floats, n_ints = chu_liu_edmonds_scratch_sizes(n, 8)
    # Without grandparents the automata have n + 1 columns, all of them free of charge.
    width = max(n_arcs, n + 1)
    return _Search(
        np.zeros((3, width)),
        np.zeros((3, width)),
        np.zeros((3, width)),
        np.empty(n_arcs),
        np.empty(n_arcs),
        np.full((n + 1, n + 1), -np.inf),
        np.empty(n_floats),
        np.empty(n_ints, np.int32),
        np.zeros(n + 1, np.int64),
        np.empty(2 * n + 2, np.int64),
        np.zeros(n + 1, np.int64),
        np.empty(n + 1, np.int64),
        np.empty((2, n + 1), np.int64),
        heads,
        np.full(1, -np.inf),
    )


@compiled
def _first_prices(
    has_grandparents: bool, automata: HeadAutomata, limits: LabelLimits, prices: np.ndarray
) -> float:
    """What an arc scores on average, shared evenly by all that choose it.

    Returns: the largest part, for the size of rounding errors.
    """
    starts, blocks, ends = automata.starts, automata.blocks, automata.ends
    has_labels = len(limits.masks) > 0
    n_choosers = 2 + has_grandparents + has_labels
    largest = 0.0
    for a in range(1, len(ends)):
        total, count = 0.0, 0
        for i in range(starts[a], starts[a + 1]):
            score = np.float64(blocks[i])
            if score > -np.inf:
                total += score
                count += 1
                largest = max(largest, abs(score))
        if ends[a] > -np.inf:
            largest = max(largest, abs(np.float64(ends[a])))
        mean = total / count if count > 0 else 0.0
        of_label = 0.0
        if has_labels:
            of_label = -np.inf
            for d in range(len(limits.masks)):
                of_label = max(of_label, limits.scores[a, d])
            of_label = of_label if of_label > -np.inf else 0.0
            largest = max(largest, abs(of_label))
        share = (mean + of_label) / n_choosers
        prices[0, a] = mean - share
        if has_grandparents:
            prices[1, a] = -share
        if has_labels:
            prices[2, a] = of_label - share
    return largest


@compiled
def _bar_others(a: int, first: np.ndarray, modifier: np.ndarray, state: np.ndarray) -> None:
    """Force the arc a, and bar all others of its modifier."""
    m = modifier[a]
    for other in range(first[m], first[m + 1]):
        state[other] = BARRED
    state[a] = FORCED


@compiled
def _bar_losers(
    n: int,
    margin: float,
    first: np.ndarray,
    losses: np.ndarray,
    state: np.ndarray,
) -> bool:
    """Bar the arcs that lose at least the margin; whether all words have one left."""
    for m in range(1, n + 1):
        left, last = 0, 0
        for a in range(first[m], first[m + 1]):
            if state[a] != BARRED:
                if losses[a] >= margin:
                    state[a] = BARRED
                else:
                    left += 1
                    last = a
        if left == 0:
            return False
        if left == 1:
            state[last] = FORCED
    return True


@compiled
def _copy_prices(source: np.ndarray, target: np.ndarray) -> None:
    """Copy (3, A), by loops, which compile faster than an assignment of arrays."""
    for i in range(3):
        for a in range(source.shape[1]):
            target[i, a] = source[i, a]


@compiled
def _add_reduced_costs(
    n: int,
    first: np.ndarray,
    head: np.ndarray,
    matrix: np.ndarray,
    floats: np.ndarray,
    ints: np.ndarray,
    parent: np.ndarray,
    losses: np.ndarray,
) -> None:
    """Add to the losses (A,) what the spanning tree found last loses at least with each arc.

    `chu_liu_edmonds_kbest.py` says why: the prices of all sets that the arc enters, less its score.
    """
    best, members, bounds, made = super_nodes(n, floats, ints)
    for k in range(made):
        parent[k] = 0
    for c in range(n + 1, made):
        for i in range(bounds[c], bounds[c + 1]):
            parent[members[i]] = c
    for m in range(1, n + 1):
        for a in range(first[m], first[m + 1]):
            h = np.int64(head[a])
            if matrix[h, m] == -np.inf:
                continue
            cost, k = -matrix[h, m], m
            while k > 0:  # up to the smallest set that holds the head too
                over = h
                while over > 0 and over < k:
                    over = parent[over]
                if over == k:
                    break
                cost += best[k]
                k = parent[k]
            losses[a] += max(cost, 0.0)


@compiled
def _solve(
    candidates: Candidates,
    n: int,
    single_root: bool,
    has_grandparents: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    state: np.ndarray,
    search: _Search,
) -> float:
    """Solve all sub-problems under the prices.

    Returns: the sum of their scores, a bound; -inf if one has no solution.
    """
    head, modifier = candidates.head, candidates.modifier
    prices, matrix = search.prices, search.matrix
    for a in range(1, len(head)):
        price = prices[0, a] + prices[2, a]
        price += prices[1, a] if has_grandparents else 0.0
        matrix[head[a], modifier[a]] = -np.inf if state[a] == BARRED else price
    if not chu_liu_edmonds_sentence(
        matrix, n, single_root, search.floats, search.ints, search.tree
    ):
        return -np.inf
    bound = 0.0
    for m in range(1, n + 1):
        bound += matrix[search.tree[m], m]
    solve_automata(automata, n, has_grandparents, state, prices[0], prices[1])
    bound += trace_automata(automata, n, state)
    if len(limits.masks) > 0:
        bound += solve_label_limits(limits, n, automata.side, automata.chain, state, prices[2])
    return bound


@compiled
def _try_tree(
    candidates: Candidates,
    n: int,
    single_root: bool,
    has_grandparents: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    search: _Search,
) -> None:
    """Repair the spanning tree found last, and keep it if it is the best one."""
    if block_tree_score(
        n, automata.columns, has_grandparents, candidates.number, candidates.rank, automata.starts,
        automata.blocks, automata.ends, search.tree, search.inner, search.outermost,
    ) == -np.inf:  # fmt: skip
        return
    for m in range(1, n + 1):
        search.repaired[m] = search.tree[m]
    score = climb_block_tree(
        candidates, n, single_root, automata.columns, has_grandparents, automata.starts,
        automata.blocks, automata.ends, limits, search.repaired,
    )  # fmt: skip
    if score > search.best[0]:
        search.best[0] = score
        for m in range(1, n + 1):
            search.heads[m] = search.repaired[m]


@compiled
def _is_better(
    candidates: Candidates,
    n: int,
    has_grandparents: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    search: _Search,
) -> bool:
    """Whether the spanning tree found last scores more than the best one."""
    score = block_tree_score(
        n, automata.columns, has_grandparents, candidates.number, candidates.rank, automata.starts,
        automata.blocks, automata.ends, search.tree, search.inner, search.outermost,
    )  # fmt: skip
    if len(limits.masks) > 0 and score > -np.inf:
        for h in range(n + 1):
            score += label_head(limits, n, candidates.number, search.tree, h)
    return score > search.best[0]


@compiled
def _turn(
    candidates: Candidates,
    has_grandparents: bool,
    has_labels: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    search: _Search,
) -> float:
    """Take what the tree has and the others have not, or vice versa, into the direction.

    Returns: the number of disagreements.
    """
    head, modifier = candidates.head, candidates.modifier
    tree, shares, direction = search.tree, search.shares, search.direction
    as_modifiers, as_heads, as_labelled = (
        automata.as_modifiers, automata.as_heads, limits.as_labelled,
    )  # fmt: skip
    n_choosers = 2.0 + has_grandparents + has_labels
    norm = 0.0
    for a in range(1, len(head)):
        in_tree = 1.0 if tree[modifier[a]] == head[a] else 0.0
        apart = in_tree - as_modifiers[a]
        direction[0, a] = MEMORY * direction[0, a] + apart
        norm += apart * apart
        choices = in_tree + as_modifiers[a]
        if has_grandparents:
            apart = in_tree - as_heads[a]
            direction[1, a] = MEMORY * direction[1, a] + apart
            norm += apart * apart
            choices += as_heads[a]
        if has_labels:
            apart = in_tree - as_labelled[a]
            direction[2, a] = MEMORY * direction[2, a] + apart
            norm += apart * apart
            choices += as_labelled[a]
        shares[a] += FORGET * (choices / n_choosers - shares[a])
    return norm


@compiled
def _take_consensus(
    candidates: Candidates, n: int, single_root: bool, state: np.ndarray, search: _Search
) -> bool:
    """The spanning tree of the arcs that were chosen most often of late; whether there is one."""
    head, modifier = candidates.head, candidates.modifier
    for a in range(1, len(head)):
        if state[a] != BARRED:
            search.matrix[head[a], modifier[a]] = search.shares[a]
    return chu_liu_edmonds_sentence(
        search.matrix, n, single_root, search.floats, search.ints, search.tree
    )


@compiled
def _close(
    candidates: Candidates,
    n: int,
    single_root: bool,
    has_grandparents: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    state: np.ndarray,
    search: _Search,
    gain: float,
    last_pace: float,
    largest: float,
    most: int,
) -> tuple[float, int]:
    """Descend in one branch until its bound says that it has nothing better, or progress is slow.

    Args: state: of the arcs; more may be barred. gain: what a better tree must score more than the
    best one. last_pace: to give up at. most: iterations.
    Returns: the bound, -inf if there is nothing better; the number of iterations.
    """
    has_labels = len(limits.masks) > 0
    best, prices = search.best, search.prices
    _copy_prices(prices, search.best_prices)
    search.direction[:] = 0.0
    search.shares[:] = 0.5
    bound, pace, stalled = np.inf, FIRST_PACE, 0
    for iteration in range(1, most + 1):
        met = _solve(candidates, n, single_root, has_grandparents, automata, limits, state, search)
        if met == -np.inf:
            return -np.inf, iteration
        if _is_better(candidates, n, has_grandparents, automata, limits, search):
            _try_tree(candidates, n, single_root, has_grandparents, automata, limits, search)
        norm = _turn(candidates, has_grandparents, has_labels, automata, limits, search)
        stalled += 1
        if met < bound:
            bound, stalled = met, 0
            _copy_prices(prices, search.best_prices)
        if norm == 0.0 or bound < best[0] + gain:
            return -np.inf, iteration
        if iteration % BAR_EVERY == 1:
            fill_losses(automata, n, has_grandparents, state, prices[0], prices[1], search.losses)
            _add_reduced_costs(
                n, candidates.first, candidates.head, search.matrix, search.floats, search.ints,
                search.parent, search.losses,
            )  # fmt: skip
            if not _bar_losers(n, met - best[0] - gain, candidates.first, search.losses, state):
                return -np.inf, iteration
        if best[0] == -np.inf and iteration >= PATIENCE_WITHOUT_A_TREE:
            return bound, iteration  # it may fall for ever
        if stalled >= PATIENCE:
            pace, stalled = 0.5 * pace, 0
            _copy_prices(search.best_prices, prices)
            search.direction[:] = 0.0
            if _take_consensus(candidates, n, single_root, state, search):
                _try_tree(candidates, n, single_root, has_grandparents, automata, limits, search)
            if pace < last_pace:
                return bound, iteration
            continue
        aim = best[0] if best[0] > -np.inf else met - 0.1 * largest
        step = pace * (met - aim) / norm
        for i in range(3):
            for a in range(1, len(state)):
                prices[i, a] -= step * search.direction[i, a]
    return bound, most


@compiled
def _most_disputed(state: np.ndarray, shares: np.ndarray) -> int:
    """The arc about which the sub-problems disagreed most of late, 0 if none is free."""
    disputed, most = 0, -1.0
    for a in range(1, len(state)):
        if state[a] == FREE:
            dispute = min(shares[a], 1.0 - shares[a])
            if dispute > most:
                disputed, most = a, dispute
    return disputed


@compiled
def _decompose(
    candidates: Candidates,
    has_grandparents: bool,
    automata: HeadAutomata,
    limits: LabelLimits,
    n: int,
    single_root: bool,
    max_iterations: int,
    granularity: float,
    heads: np.ndarray,
) -> tuple[bool, bool, int]:
    """`dual_decomposition_sentence`, and under limits on labels."""
    if n == 0:
        return True, True, 0
    n_arcs = len(candidates.head)
    search = _make_search(n, n_arcs, heads)
    largest = _first_prices(has_grandparents, automata, limits, search.prices)
    slack = ROUNDING * largest * (n + 1)
    gain = max(granularity - slack, slack) if granularity > 0 else slack
    # Open branches: what is known of the arcs there, the prices to begin with, the bound.
    states = np.empty((DEEPEST, n_arcs), np.int8)
    prices = np.empty((DEEPEST, 3, search.prices.shape[1]))
    bounds, state = np.empty(DEEPEST), np.empty(n_arcs, np.int8)
    states[0], bounds[0] = FREE, np.inf
    _copy_prices(search.prices, prices[0])
    n_open, iterations, is_proven = 1, 0, True
    last_pace = LAST_PACE
    while n_open > 0:
        n_open -= 1
        if bounds[n_open] < search.best[0] + gain:
            continue
        if iterations >= max_iterations:
            is_proven = False
            break
        for a in range(n_arcs):
            state[a] = states[n_open, a]
        bound = bounds[n_open]
        _copy_prices(prices[n_open], search.prices)
        met, taken = _close(
            candidates, n, single_root, has_grandparents, automata, limits, state, search, gain,
            last_pace, largest, max_iterations - iterations,
        )  # fmt: skip
        iterations += taken
        last_pace = LAST_PACE_IN_BRANCH
        if met == -np.inf:
            continue
        disputed = _most_disputed(state, search.shares)
        if n_open + 2 > DEEPEST:
            is_proven = False
            continue
        forced_last = search.shares[disputed] < 0.5  # so that the other is the next
        # If no arc is free, one tree is left, on which all agree in one more iteration.
        for i in range(2 if disputed > 0 else 1):
            for a in range(n_arcs):
                states[n_open, a] = state[a]
            _copy_prices(search.best_prices, prices[n_open])
            bounds[n_open] = min(bound, met)
            if disputed > 0:
                if (i == 0) == forced_last:
                    _bar_others(disputed, candidates.first, candidates.modifier, states[n_open])
                else:
                    states[n_open, disputed] = BARRED
            n_open += 1
    return search.best[0] > -np.inf, is_proven, iterations


@compiled
def dual_decomposition_sentence(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    n: int,
    single_root: bool,
    max_iterations: int,
    granularity: float,
    heads: np.ndarray,
) -> tuple[bool, bool, int]:
    """The best tree of one sentence, crossing arcs allowed, or a good one, for compiled code.

    Args: candidates; blocks, starts: as `grand_sibling_blocks` says, or `sibling_blocks` without
    grandparents (what stands there for the modifier as the head of its head is not read); ends
    (A,); max_iterations: solutions of all sub-problems; granularity: the scores of no two trees
    differ by less, other than not at all: 1 for whole scores, 0 if unknown; heads: filled at 1..n
    if a tree is found.
    Returns: whether a tree without forbidden parts was found; whether there is no better one (or
    none, if none was found); the number of iterations.
    """
    automata = make_head_automata(candidates, blocks, starts, has_grandparents, ends, n)
    no_labels = make_label_limits(np.empty(0, np.int64), np.empty((0, 0)), 0, 0)
    return _decompose(
        candidates, has_grandparents, automata, no_labels, n, single_root, max_iterations,
        granularity, heads,
    )  # fmt: skip


@compiled
def dual_decomposition_labelled_sentence(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    has_grandparents: bool,
    ends: np.ndarray,
    masks: np.ndarray,
    label_scores: np.ndarray,
    n: int,
    single_root: bool,
    max_iterations: int,
    granularity: float,
    heads: np.ndarray,
    classes: np.ndarray,
) -> tuple[bool, bool, int]:
    """`dual_decomposition_sentence` under hard limits on labels, which have scores too.

    Args: as there; masks int64 (D,): of the classes of labels, see `label_limits.py`; label_scores
    float64 (A, D): of the best label of each class; classes int64 (>= N,): filled at 1..n with the
    classes of the labels.
    """
    automata = make_head_automata(candidates, blocks, starts, has_grandparents, ends, n)
    limits = make_label_limits(masks, label_scores, len(candidates.head), n)
    found, is_proven, iterations = _decompose(
        candidates, has_grandparents, automata, limits, n, single_root, max_iterations,
        granularity, heads,
    )  # fmt: skip
    if found:
        for h in range(n + 1):
            label_head(limits, n, candidates.number, heads, h)
        for m in range(1, n + 1):
            classes[m] = limits.classes[m]
    return found, is_proven, iterations
