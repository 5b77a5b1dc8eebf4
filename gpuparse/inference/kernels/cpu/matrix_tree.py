"""Sums over all trees, crossing arcs allowed, without a single subtraction; compiled.

Elimination. Take word e out and give its arcs to the others, with T[e] the sum of all weights into
e:  w[h, m] += w[h, e] w[e, m] / T[e].  This is a step of Gaussian elimination on the Laplacian of
Koo, Globerson, Carreras & Collins (2007), whose diagonal is never formed: it is the sum of the
weights into a word, so no two numbers are ever subtracted and every digit is right, however close
the Laplacian comes to a singular one (Grassmann, Taksar & Heyman 1985). The sum over all trees is
the product of all T.

Marginals. Walk from a word to a head, drawn by the weights, to a head of that, until the root is
met. In a random tree m hangs on h where h is the last step out of m (Wilson 1996):
P(h -> m) ~ w[h, m] escape[h], where escape[h] is the chance to meet the root before m on a walk
from h. Those chances are known once all words but m are eliminated: the chance to meet h before the
other words that are left obeys the same rule as the weights. Eliminations are shared by halves: all
words of one half, then half of the other, and so on: about 1.3 n^3 steps in all.

Single root. Give the arcs from the root the factor t, and let t go to 0: the sum over all trees
begins with t times the sum over those with one root word. Sums of positive numbers may be cut to
their terms with the lowest power of t all the way: T[e] leaves the root out while e has another
head. Where arcs are forbidden, e may have none: T[e] then has a power of t itself, and what it
passes on has one power less. `late` marks what has the power 1 rather than 0.

Weights are exp(score - highest score into the word) while that keeps clear of underflow, and
otherwise all arithmetic is in logarithms.
"""

import math
from typing import NamedTuple

import numpy as np
import torch
from llvmlite import ir
from numba import types
from numba.extending import intrinsic

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.lanes import (
    Lanes,
    Loop,
    constant,
    lane_count,
    splat,
    whole_vectors,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads

WIDEST = 300.0  # exp(-WIDEST) is so far from underflow that what underflows beside it is nothing
SMALLEST = 600.0  # exp(-SMALLEST) is still a normal number


TO_INTEGER = 1.5 * 2.0**52  # added to a small float, it leaves the nearest integer in the low bits
LN2_HIGH, LN2_LOW = 0.693147180369123816490, 1.90821492927058770002e-10  # the first: 33 bits
EXP_TERMS = [1 / math.factorial(i) for i in range(13, -1, -1)]


@intrinsic
def add_scaled(typingctx, target, start, source, source_start, factor, count):  # type: ignore[no-untyped-def]
    """target[start + i] += factor * source[source_start + i], i < count, all float64.

    In whole vectors: some elements beyond `count` come to hold what has no meaning.
    """
    lanes = lane_count(target)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        target_data, start, source_data, source_start, factor, count = args
        to = Lanes(context, builder, target, target_data, lanes)
        added = Lanes(context, builder, source, source_data, lanes)
        factors = splat(builder, to.type, factor)
        loop = Loop(builder, ir.Constant(count.type, 0), count, ir.Constant(count.type, lanes), [])
        at = builder.add(start, loop.i)
        product = builder.fmul(factors, added.load(builder.add(source_start, loop.i)))
        to.store(at, builder.fadd(to.load(at), product))
        loop.turn([])
        return context.get_dummy_value()

    integer = types.int64
    return types.void(target, integer, source, integer, types.float64, integer), codegen


@intrinsic
def exponentiate(typingctx, target, start, count):  # type: ignore[no-untyped-def]
    """target[start + i] = exp of itself, i < count rounded up to whole vectors; float64.

    Right to two units in the last place from -700 to 0, and 0 for -inf.
    """
    lanes = lane_count(target)

    def codegen(context, builder, signature, args):  # type: ignore[no-untyped-def]
        target_data, start, count = args
        to = Lanes(context, builder, target, target_data, lanes)
        bits = ir.VectorType(ir.IntType(64), lanes)

        def times_plus(x, y, z):  # type: ignore[no-untyped-def]
            return builder.fadd(builder.fmul(x, y), constant(to.type, z))

        loop = Loop(builder, ir.Constant(count.type, 0), count, ir.Constant(count.type, lanes), [])
        at = builder.add(start, loop.i)
        x = to.load(at)
        # exp(x) = 2^whole exp(rest), |rest| <= ln(2) / 2, the latter by its Taylor series.
        shifted = times_plus(x, constant(to.type, 1 / math.log(2)), TO_INTEGER)
        whole = builder.fsub(shifted, constant(to.type, TO_INTEGER))
        rest = builder.fsub(x, builder.fmul(whole, constant(to.type, LN2_HIGH)))
        rest = builder.fsub(rest, builder.fmul(whole, constant(to.type, LN2_LOW)))
        series = constant(to.type, EXP_TERMS[0])
        for term in EXP_TERMS[1:]:
            series = times_plus(series, rest, term)
        exponent = builder.shl(builder.bitcast(shifted, bits), constant(bits, 52))
        power = builder.bitcast(builder.add(exponent, constant(bits, 1023 << 52)), to.type)
        is_normal = builder.fcmp_ordered(">=", x, constant(to.type, -700.0))
        value = builder.select(is_normal, builder.fmul(series, power), constant(to.type, 0.0))
        to.store(at, value)
        loop.turn([])
        return context.get_dummy_value()

    return types.void(target, types.int64, types.int64), codegen


class MatrixTreeScratch(NamedTuple):
    """Working memory of sums over trees for sentences of up to n words; contents do not matter.

    levels: (L, N, V), the weights [h, p] at each halving: row 0 the root, row p + 1 and column p
    the p-th word; V is N in whole vectors. places: int64 (L, N), the word at each p. late: bool
    (L, N), of the arcs from the root. escapes: (L, N, V), with the rows of levels: [h, i] the
    chance that a walk from the i-th eliminated word meets h first of the words that are left.
    pull: (N, N), [h, i]: the part of T that comes from h, for the i-th eliminated word; its row 0
    is the root. vectors: (5, V); flags: bool (3, N).
    """

    levels: np.ndarray
    places: np.ndarray
    late: np.ndarray
    escapes: np.ndarray
    pull: np.ndarray
    vectors: np.ndarray
    flags: np.ndarray


def make_matrix_tree_scratch(n: int) -> MatrixTreeScratch:
    """Working memory for sentences of up to n words."""
    shape = (max(n, 1).bit_length() + 2, n + 1)
    width = whole_vectors(n + 1, 8)
    levels, places = np.zeros((*shape, width)), np.zeros(shape, np.int64)
    escapes, pull, vectors = (
        np.zeros((*shape, width)),
        np.zeros((n + 1, n + 1)),
        np.zeros((5, width)),
    )
    late, flags = np.zeros(shape, np.bool_), np.zeros((3, n + 1), np.bool_)
    return MatrixTreeScratch(levels, places, late, escapes, pull, vectors, flags)


@compiled
def log_of_sum(x: float, y: float) -> float:
    """log(exp(x) + exp(y))."""
    larger, smaller = max(x, y), min(x, y)
    if smaller == -np.inf:
        return larger
    return larger + np.log1p(np.exp(smaller - larger))


@compiled
def fill_shifts(
    scores: np.ndarray, n: int, single_root: bool, shifts: np.ndarray
) -> tuple[float, bool]:
    """What is taken from the scores: shifts[m] from those into word m, shifts[0] from the root's.

    Every tree loses the same, the sum of all shifts. Returns: how far the scores then go below 0,
    forbidden arcs aside, +inf if a word or the root has no arc at all; whether there are such arcs.
    """
    first = 1 if single_root and n > 1 else 0
    for m in range(1, n + 1):
        highest = -np.inf
        for h in range(first, n + 1):
            if h != m:
                highest = max(highest, scores[h, m])
        if highest == -np.inf and first == 1:
            highest = scores[0, m]
        shifts[m] = highest
    shifts[0] = 0.0
    if first == 1:
        highest = -np.inf
        for m in range(1, n + 1):
            if scores[0, m] > -np.inf:
                highest = max(highest, scores[0, m] - shifts[m])
        shifts[0] = highest
    lowest, has_forbidden = 0.0, False
    for m in range(n + 1):
        if shifts[m] == -np.inf:
            return np.inf, True
    for h in range(n + 1):
        for m in range(1, n + 1):
            if h != m:
                shifted = scores[h, m] - shifts[m] - (shifts[0] if h == 0 else 0.0)
                if shifted == -np.inf:
                    has_forbidden = True
                else:
                    lowest = min(lowest, shifted)
    return -lowest, has_forbidden


@compiled
def fill_weights(
    scores: np.ndarray,
    n: int,
    shifts: np.ndarray,
    in_logs: bool,
    single_root: bool,
    weights: np.ndarray,
    places: np.ndarray,
    late: np.ndarray,
) -> None:
    """weights[h, m - 1] of the arcs h -> m, or their logarithms; 0 on the diagonal."""
    for h in range(n + 1):
        from_root = shifts[0] if h == 0 else 0.0
        for m in range(1, n + 1):
            weights[h, m - 1] = scores[h, m] - shifts[m] - from_root
        if h > 0:
            weights[h, h - 1] = -np.inf
        if not in_logs:
            exponentiate(weights, h * weights.shape[1], n)
    for m in range(1, n + 1):
        places[m - 1] = m
        late[m - 1] = single_root


@compiled
def _halve(
    levels: np.ndarray,
    places: np.ndarray,
    late: np.ndarray,
    escapes: np.ndarray,
    level: int,
    size: int,
    done: int,
    turn: int,
) -> None:
    """Copy the level before, its words from `turn` on moved to the front; `done` are eliminated."""
    rest = size - turn
    for p in range(size):
        q = p + turn if p < rest else p - rest
        places[level, p] = places[level - 1, q]
        late[level, p] = late[level - 1, q]
    for row in range(size + 1):
        q = 0 if row == 0 else (row - 1 + turn if row - 1 < rest else row - 1 - rest) + 1
        for p in range(rest):
            levels[level, row, p] = levels[level - 1, q, p + turn]
        for p in range(turn):
            levels[level, row, rest + p] = levels[level - 1, q, p]
        for i in range(done):
            escapes[level, row, i] = escapes[level - 1, q, i]


@compiled
def _eliminate(
    levels: np.ndarray,
    escapes: np.ndarray,
    level: int,
    size: int,
    kept: int,
    done: int,
    single_root: bool,
    totals: np.ndarray,
    row: np.ndarray,
) -> bool:
    """Eliminate all but the first `kept` words; False if a word has no weight into it."""
    width = levels.shape[2]
    begin = level * levels.shape[1] * width
    for e in range(size - 1, kept - 1, -1):
        i = done + size - 1 - e
        total = 0.0 if single_root else levels[level, 0, e]
        for h in range(1, e + 1):
            total += levels[level, h, e]
        if not 0.0 < total < np.inf:
            return False
        totals[i] = total
        for m in range(e):
            row[m] = levels[level, e + 1, m]
        share, start = 1.0 / total, begin + (e + 1) * width
        for h in range(e + 1):
            part = levels[level, h, e] * share
            add_scaled(levels, begin + h * width, row, 0, part, e)
            add_scaled(escapes, begin + h * width, escapes, start, part, i)
            escapes[level, h, i] = part
    return True


@compiled
def _word_marginals(
    levels: np.ndarray,
    escapes: np.ndarray,
    level: int,
    n: int,
    m: int,
    order: np.ndarray,
    marginals: np.ndarray,
) -> float:
    """Marginals of the heads of m, the last word of this level; returns T of m.

    Args: order: the other words as they were eliminated.
    """
    total = levels[0, 0, m - 1]
    marginals[0, m] = total
    marginals[m, m] = 0.0
    for i in range(n - 1):
        h = order[i]
        term = levels[0, h, m - 1] * escapes[level, 0, i]
        marginals[h, m] = term
        total += term
    if 0.0 < total < np.inf:
        share = 1.0 / total
        for h in range(n + 1):
            marginals[h, m] *= share
    return float(total)


@compiled
def _eliminate_in_logs(
    weights: np.ndarray,
    places: np.ndarray,
    late: np.ndarray,
    size: int,
    kept: int,
    done: int,
    pull: np.ndarray,
    pull_late: np.ndarray,
    totals: np.ndarray,
    totals_late: np.ndarray,
) -> bool:
    """`_eliminate` in logarithms, with the powers of t; pull_late is that of pull[0]."""
    for e in range(size - 1, kept - 1, -1):
        i = done + size - 1 - e
        total, is_late = log_total(weights, late, e)
        if total == -np.inf:
            return False
        totals[i], totals_late[i] = total, is_late
        pull_late[i] = late[e] and not is_late
        for h in range(e + 1):
            pull[0 if h == 0 else places[h - 1], i] = weights[h, e] - total
        pass_on_in_logs(weights, late, e, total, pull_late[i])
    return True


@compiled
def log_total(weights: np.ndarray, late: np.ndarray, e: int) -> tuple[float, bool]:
    """Logarithm of the terms with the lowest power of t in T[e], and whether that is 1."""
    total = -np.inf
    for h in range(1, e + 1):
        total = log_of_sum(total, weights[h, e])
    if not late[e]:
        return log_of_sum(total, weights[0, e]), False
    if total == -np.inf:
        return weights[0, e], True
    return total, False


@compiled
def pass_on_in_logs(
    weights: np.ndarray, late: np.ndarray, e: int, total: float, root_late: bool
) -> None:
    """The step of elimination; root_late: of weights[0, e] / total."""
    for m in range(e):
        out = weights[e + 1, m]
        if out == -np.inf:
            continue
        for h in range(1, e + 1):
            if h != m + 1:
                weights[h, m] = log_of_sum(weights[h, m], weights[h, e] - total + out)
        through = weights[0, e] - total + out
        if through == -np.inf:
            continue
        if weights[0, m] == -np.inf or (late[m] and not root_late):
            weights[0, m], late[m] = through, root_late
        elif late[m] == root_late:
            weights[0, m] = log_of_sum(weights[0, m], through)


@compiled
def _word_marginals_in_logs(
    weights: np.ndarray,
    n: int,
    single_root: bool,
    m: int,
    order: np.ndarray,
    pull: np.ndarray,
    pull_late: np.ndarray,
    escape: np.ndarray,
    late: np.ndarray,
    marginals: np.ndarray,
) -> tuple[float, bool]:
    """`_word_marginals` in logarithms. Returns: log T of m, and whether it is late."""
    for i in range(n - 1):
        escape[i], late[i] = pull[0, i], pull_late[i]
    for i in range(n - 2, 0, -1):
        for j in range(i):
            term = pull[order[i], j] + escape[i]
            if term == -np.inf:
                continue
            if escape[j] == -np.inf or (late[j] and not late[i]):
                escape[j], late[j] = term, late[i]
            elif late[i] == late[j]:
                escape[j] = log_of_sum(escape[j], term)
    total, is_late = weights[0, m - 1], single_root
    for i in range(n - 1):
        term = weights[order[i], m - 1] + escape[i]
        if term > -np.inf and (total == -np.inf or (is_late and not late[i])):
            total, is_late = term, late[i]
        elif late[i] == is_late:
            total = log_of_sum(total, term)
    for h in range(n + 1):
        marginals[h, m] = 0.0
    if total == -np.inf:
        return total, is_late
    if is_late == single_root:
        marginals[0, m] = np.exp(weights[0, m - 1] - total)
    for i in range(n - 1):
        if late[i] == is_late:
            marginals[order[i], m] = np.exp(weights[order[i], m - 1] + escape[i] - total)
    return total, is_late


@compiled
def _sum_over_trees(
    scratch: MatrixTreeScratch,
    n: int,
    single_root: bool,
    in_logs: bool,
    only_partition: bool,
    marginals: np.ndarray,
) -> float:
    """Marginals from the first level; returns the log-partition, or NaN where floats ran out."""
    levels, places, late, escapes, pull, vectors, flags = scratch
    totals, row, escape = vectors[1], vectors[2], vectors[3]
    order = places[len(places) - 1]
    stack = np.empty((2 * len(places), 3), np.int64)
    stack[0] = 0, n, 0
    depth, log_partition = 1, np.nan
    while depth > 0:
        depth -= 1
        level, size, turn = stack[depth]
        kept = size
        if level > 0:
            done = 0 if in_logs else n - size
            _halve(levels, places, late, escapes, level, size, done, turn)
            kept = size - turn if turn > 0 else (size + 1) // 2
            for e in range(kept, size):
                order[n - 1 - e] = places[level, e]
            if in_logs:
                is_fine = _eliminate_in_logs(
                    levels[level], places[level], late[level], size, kept, n - size, pull, flags[0],
                    totals, flags[2],
                )  # fmt: skip
            else:
                is_fine = _eliminate(
                    levels, escapes, level, size, kept, n - size, single_root, totals, row
                )
            if not is_fine:
                return -np.inf if in_logs else np.nan
        if kept > 1:
            stack[depth] = level + 1, kept, (kept + 1) // 2
            stack[depth + 1] = level + 1, kept, 0
            depth += 2
            continue
        m = places[level, 0]
        last_late = single_root
        if in_logs:
            last, last_late = _word_marginals_in_logs(
                levels[0], n, single_root, m, order, pull, flags[0], escape, flags[1], marginals
            )
        else:
            last = _word_marginals(levels, escapes, level, n, m, order, marginals)
            if not (0.0 < last < np.inf):
                return np.nan
        if np.isnan(log_partition):
            log_partition = _product(totals, flags[2], n, last, last_late, in_logs, single_root)
            if only_partition or log_partition == -np.inf:
                break
    return log_partition


@inlined
def _product(
    totals: np.ndarray,
    totals_late: np.ndarray,
    n: int,
    last: float,
    last_late: bool,
    in_logs: bool,
    single_root: bool,
) -> float:
    """The logarithm of the product of all T, -inf if it has two powers of t: two root words."""
    log_partition = last if in_logs else np.log(last)
    powers = 1 if last_late else 0
    for i in range(n - 1):
        log_partition += totals[i] if in_logs else np.log(totals[i])
        powers += 1 if in_logs and totals_late[i] else 0
    return -np.inf if single_root and powers > 1 else log_partition


@compiled
def matrix_tree_marginals_sentence(
    scores: np.ndarray,
    n: int,
    single_root: bool,
    scratch: MatrixTreeScratch,
    marginals: np.ndarray,
) -> float:
    """Log-partition and marginals of one sentence, for other compiled code to call.

    Args: scores float64 (>= n+1, >= n+1), [h, m]; scratch of `make_matrix_tree_scratch(n)` or more
    words; marginals float64 (>= n+1, >= n+1): the chance of h -> m, filled at [0:n+1, 1:n+1].
    Returns: the log-partition in nats; -inf if there is no tree, and marginals are of no use then.
    """
    return _sentence(scores, n, single_root, False, scratch, marginals)


@compiled
def _sentence(
    scores: np.ndarray,
    n: int,
    single_root: bool,
    only_partition: bool,
    scratch: MatrixTreeScratch,
    marginals: np.ndarray,
) -> float:
    if n == 0:
        return 0.0
    shifts = scratch.vectors[0]
    width, has_forbidden = fill_shifts(scores, n, single_root, shifts)
    if width == np.inf:
        return -np.inf
    taken = 0.0
    for m in range(n + 1):
        taken += shifts[m]
    # Sums of products of up to n weights; without forbidden arcs each has a term that is a weight.
    in_logs = n * (width + np.log(n)) > SMALLEST if has_forbidden else width > WIDEST
    result = np.nan
    for attempt in range(2):
        if attempt == 0 and in_logs:
            continue
        in_logs = attempt == 1
        fill_weights(
            scores, n, shifts, in_logs, single_root,
            scratch.levels[0], scratch.places[0], scratch.late[0],
        )  # fmt: skip
        result = _sum_over_trees(scratch, n, single_root, in_logs, only_partition, marginals)
        if not np.isnan(result):
            break
    return result + taken


def sum_batch(
    scores: np.ndarray, lengths: np.ndarray, *, single_root: bool, only_partition: bool = False
) -> tuple[np.ndarray, np.ndarray]:
    """Log-partitions (B,) and marginals (B, N, N), zero where nothing is read, of a batch.

    Args:
        scores: float64 (B, N, N), C order, checked; lengths: int64 (B,).
        only_partition: leave out most of the work; the marginals are of no use then.
    """
    log_partitions = np.empty(len(scores))
    marginals = np.zeros(scores.shape)

    def work(part: slice) -> None:
        scratch = make_matrix_tree_scratch(int(lengths[part].max(initial=0)))
        _sum_batch(
            scores[part], lengths[part], single_root, only_partition, scratch,
            marginals[part], log_partitions[part],
        )  # fmt: skip

    run_in_threads(work, lengths, 3, torch.get_num_threads(), worth=WORTH_A_THREAD // 2)
    return log_partitions, marginals


@compiled
def _sum_batch(
    scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    only_partition: bool,
    scratch: MatrixTreeScratch,
    marginals: np.ndarray,
    log_partitions: np.ndarray,
) -> None:
    for b in range(len(lengths)):
        log_partitions[b] = _sentence(
            scores[b], lengths[b], single_root, only_partition, scratch, marginals[b]
        )
