"""Sums over projective trees with sibling parts, compiled: log-partition and marginals.

As `eisner_sums`: rows of spans from the last start to the first and back, charts stored twice where
they are read down a column, numbers first and logarithms where those would lose digits. Nothing of
size n^3 is kept: parts of three words are spread for one start at a time, on either way.
"""

from math import exp, log

import numpy as np
import torch

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.eisner_sums import (
    LEAST_LOG,
    LOG_TREES,
    add_scaled,
    clear_outside,
    column_top,
    log_sum,
    share_out,
)
from gpuparse.inference.kernels.cpu.siblings import (
    ROWS,
    DenseSiblings,
    Siblings,
    copy_ends,
    copy_parts_of_two,
    spread_parts_of_three,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads

# Planes of the chart, each (n + 2) rows; names that end in R are of a head i, in L of a head j, at
# [i, j]. P: arcs; F: arcs without an inner sibling; X: ends; D: pairs, as logarithms: D_R of the
# modifier j with the sibling i, D_L of the modifier i with the sibling j. E: I with its end.
# T: transposed, at [j, i]. G: outside sums.
(P_R, P_L, F_R, F_L, X_R, X_L, D_R, D_L, C_R, C_L, I_R, I_L, E_R, E_L, S,
 C_RT, C_LT, I_LT, E_LT, S_T, G_CRT, G_CLT, G_ILT, G_ELT, G_ST, N_PLANES) = range(26)  # fmt: skip
# Rows after the planes: sums in the making, the largest parts of each modifier; then the parts of
# three words of one start, as they are spread, and turned.
TO_CR, TO_CL, TO_ER, TO_IR, TO_S, TO_IL, TOPS, N_ROWS = range(8)


@compiled
def sibling_sums_scratch_size(n: int) -> int:
    """Elements of scratch that `eisner_sibling_marginals_sentence` needs for up to n words."""
    return (N_PLANES * (n + 2) + N_ROWS + 2 * ROWS * (n + 1)) * (n + 2)


def make_sibling_sums_scratch(n: int) -> np.ndarray:
    """Working memory of `eisner_sibling_marginals_sentence` for sentences of up to n words."""
    return np.empty(sibling_sums_scratch_size(n))


@compiled
def _add_product(chart: np.ndarray, to: int, scale: float, a: int, b: int, count: int) -> None:
    """chart[to + k] += scale * chart[a + k] * chart[b + k] for all k < count."""
    for k in range(count):
        chart[np.uint64(to + k)] += scale * chart[np.uint64(a + k)] * chart[np.uint64(b + k)]


@compiled
def _log_sum_of_three(
    chart: np.ndarray, alone: float, a: int, b: int, c: int, count: int
) -> float:  # fmt: skip
    """log of exp(alone) + the sum over k < count of exp(chart[a + k] + chart[b + k] + ...)."""
    top = alone
    for k in range(count):
        value = chart[np.uint64(a + k)] + chart[np.uint64(b + k)] + chart[np.uint64(c + k)]
        top = max(top, value)
    if top == -np.inf:
        return top
    total = exp(alone - top)
    for k in range(count):
        value = chart[np.uint64(a + k)] + chart[np.uint64(b + k)] + chart[np.uint64(c + k)]
        total += exp(value - top)
    return top + log(total)


@compiled
def _share_out_of_three(
    chart: np.ndarray, p: float, total: float, a: int, b: int, c: int, count: int, to_a: int,
    to_b: int,
) -> None:  # fmt: skip
    """As `share_out`, where three numbers, at a, b and c, make up the logarithm of a split."""
    for k in range(count):
        value = chart[np.uint64(a + k)] + chart[np.uint64(b + k)] + chart[np.uint64(c + k)]
        q = p * exp(value - total)
        chart[np.uint64(to_a + k)] += q
        chart[np.uint64(to_b + k)] += q


@compiled
def _copy_parts(
    arc_scores: np.ndarray, siblings: Siblings, n: int, scale: float, chart: np.ndarray
) -> float:
    """Fill P, F, X and D, as logarithms; return the sum of the shifts of columns of P."""
    stride = n + 2
    plane, shifts = (n + 2) * stride, 0.0
    copy_parts_of_two(
        siblings, n, stride, chart[F_R * plane :], chart[F_L * plane :], chart[D_R * plane :],
        chart[D_L * plane :],
    )  # fmt: skip
    copy_ends(siblings, n, stride, chart[X_R * plane :], chart[X_L * plane :])
    for m in range(1, n + 1):
        top = column_top(arc_scores, n, m)
        shifts += top * scale
        for h in range(n + 1):
            if h < m:
                chart[P_R * plane + h * stride + m] = (arc_scores[h, m] - top) * scale
            elif h > m:
                chart[P_L * plane + m * stride + h] = (arc_scores[h, m] - top) * scale
    for i in range(n):
        for j in range(i + 1, n + 1):
            at = i * stride + j
            for p in (F_R, F_L, X_R, X_L, D_R, D_L):
                chart[p * plane + at] *= scale
    for j in range(1, n + 1):  # the root modifies nothing, and nobody knows what stands there
        chart[P_L * plane + j] = -np.inf
        for p in (F_L, X_L, D_L):
            chart[p * plane + j] = 0.0
    return shifts


@compiled
def _to_numbers(n: int, chart: np.ndarray) -> float:
    """Take exp of P, F and X; return the sum over words of their largest F and X above 0."""
    stride = n + 2
    plane, tops = (n + 2) * stride, (N_PLANES * (n + 2) + TOPS) * stride
    bound = 0.0
    for m in range(1, n + 1):
        top_F, top_X = 0.0, 0.0
        for h in range(n + 1):
            if h == m:
                continue
            is_left = 1 if h > m else 0
            at = min(h, m) * stride + max(h, m)
            top_F = max(top_F, chart[(F_R + is_left) * plane + at])
            top_X = max(top_X, chart[(X_R + is_left) * plane + at])
            for p in (P_R, F_R, X_R):
                cell = (p + is_left) * plane + at
                chart[cell] = exp(chart[cell])
        chart[tops + m] = top_F
        bound += top_X
    for j in range(1, n + 1):
        chart[P_L * plane + j] = 0.0
    return bound


@compiled
def _spread(
    siblings: Siblings, i: int, n: int, scale: float, in_logs: bool, turned: bool,
    chart: np.ndarray,
) -> None:  # fmt: skip
    """The parts of i < k < j, with their pairs, as rows over j, or turned: as rows over k.

    Keeps the largest of each modifier too, if not turned.
    """
    stride = n + 2
    plane, rows = (n + 2) * stride, (N_PLANES * (n + 2) + N_ROWS) * stride
    tops, to_turn = rows + (TOPS - N_ROWS) * stride, rows + ROWS * (n + 1) * stride
    spread_parts_of_three(siblings, i, n, stride, chart[rows:])
    top_L = chart[tops + i]
    for k in range(i + 1, n):
        right, left = rows + k * stride, rows + (n + 1 + k) * stride
        pair_L = chart[D_L * plane + i * stride + k]
        for j in range(k + 1, n + 1):
            of_R = chart[right + j] * scale + chart[D_R * plane + k * stride + j]
            of_L = chart[left + j] * scale + pair_L if i > 0 else 0.0
            if not turned:
                chart[tops + j] = max(chart[tops + j], of_R)
                top_L = max(top_L, of_L)
            if not in_logs:
                of_R, of_L = exp(of_R), exp(of_L)
            to_R, to_L = right + j, left + j
            if turned:
                to_R = to_turn + j * stride + k
                to_L = to_R + (n + 1) * stride
            chart[to_R], chart[to_L] = of_R, of_L
    chart[tops + i] = top_L


@compiled
def _fill_inside(
    siblings: Siblings, first: int, n: int, scale: float, chart: np.ndarray
) -> None:  # fmt: skip
    """Inside sums of all spans over positions first..n, as numbers."""
    stride = n + 2
    plane, sums = (n + 2) * stride, N_PLANES * (n + 2) * stride
    to_IR, to_IL = sums + TO_IR * stride, sums + TO_IL * stride
    to_CR, to_CL = sums + TO_CR * stride, sums + TO_CL * stride
    right = sums + N_ROWS * stride
    left = right + (n + 1) * stride
    for i in range(n, first - 1, -1):
        _spread(siblings, i, n, scale, False, False, chart)
        row = i * stride
        of_S = S * plane + row
        for j in range(i, n + 1):
            for start in (of_S, to_IR, to_IL, to_CR, to_CL):
                chart[start + j] = 0.0
        # S(i,j)   = sum_{i<=r<j} C_R(i,r) C_L(r+1,j)
        # I_R(i,j) = arc(i,j) (C_L(i+1,j) sib(i,-,j) + sum_{i<k<j} I_R(i,k) S(k,j) sib(i,k,j))
        # I_L(i,j) = arc(j,i) (C_R(i,j-1) sib(j,-,i) + sum_{i<k<j} S(i,k) I_L(k,j) sib(j,k,i))
        # C_R(i,j) = sum_{i<r<=j} E_R(i,r) C_R(r,j);  C_L(i,j) = sum_{i<=r<j} C_L(i,r) E_L(r,j)
        for r in range(i, n + 1):
            at, turned, beyond, count, c_r, c_l = row + r, r * stride + i, r + 1, n - r, 1.0, 1.0
            below = r * stride + beyond
            if r > i:
                s = chart[of_S + r]
                none_R = chart[C_L * plane + at + stride] * chart[F_R * plane + at]
                none_L = chart[C_R * plane + at - 1] * chart[F_L * plane + at]
                i_r = (none_R + chart[to_IR + r]) * chart[P_R * plane + at]
                i_l = (none_L + chart[to_IL + r]) * chart[P_L * plane + at]
                e_r, e_l = i_r * chart[X_R * plane + at], i_l * chart[X_L * plane + at]
                c_r, c_l = chart[to_CR + r] + e_r, chart[to_CL + r] + e_l
                chart[I_R * plane + at], chart[E_R * plane + at] = i_r, e_r
                chart[I_L * plane + at], chart[E_L * plane + at] = i_l, e_l
                chart[I_LT * plane + turned], chart[E_LT * plane + turned] = i_l, e_l
                chart[S_T * plane + turned] = s
                parts = r * stride + beyond
                _add_product(chart, to_IR + beyond, i_r, S * plane + below, right + parts, count)
                _add_product(chart, to_IL + beyond, s, I_L * plane + below, left + parts, count)
                add_scaled(chart, to_CR + beyond, e_r, C_R * plane + below, count)
                add_scaled(chart, to_CL + beyond, c_l, E_L * plane + below, count)
            chart[C_R * plane + at] = chart[C_RT * plane + turned] = c_r
            chart[C_L * plane + at] = chart[C_LT * plane + turned] = c_l
            add_scaled(chart, of_S + beyond, c_r, C_L * plane + below + stride, count)


@compiled
def _fill_log_inside(
    siblings: Siblings, first: int, n: int, scale: float, chart: np.ndarray
) -> None:  # fmt: skip
    """As `_fill_inside`, in logarithms."""
    stride = n + 2
    plane = (n + 2) * stride
    right = (N_PLANES * (n + 2) + N_ROWS + ROWS * (n + 1)) * stride
    left = right + (n + 1) * stride
    for i in range(n, first - 1, -1):
        _spread(siblings, i, n, scale, True, True, chart)
        row = i * stride
        for p in (C_R, C_L, C_RT, C_LT):
            chart[p * plane + row + i] = 0.0
        for j in range(i + 1, n + 1):
            at, column, width = row + j, j * stride, j - i
            turned, inner, beside = column + i, row + i + 1, column + i + 1
            s = log_sum(chart, C_R * plane + row + i, C_LT * plane + beside, width)
            none_R = chart[C_L * plane + at + stride] + chart[F_R * plane + at]
            i_r = chart[P_R * plane + at] + _log_sum_of_three(
                chart, none_R, I_R * plane + inner, S_T * plane + beside, right + beside, width - 1
            )
            none_L = chart[C_R * plane + at - 1] + chart[F_L * plane + at]
            i_l = chart[P_L * plane + at] + _log_sum_of_three(
                chart, none_L, S * plane + inner, I_LT * plane + beside, left + beside, width - 1
            )
            e_r, e_l = i_r + chart[X_R * plane + at], i_l + chart[X_L * plane + at]
            chart[S * plane + at] = chart[S_T * plane + turned] = s
            chart[I_R * plane + at], chart[E_R * plane + at] = i_r, e_r
            chart[I_L * plane + at], chart[E_L * plane + at] = i_l, e_l
            chart[I_LT * plane + turned], chart[E_LT * plane + turned] = i_l, e_l
            c_r = log_sum(chart, E_R * plane + inner, C_RT * plane + beside, width)
            c_l = log_sum(chart, C_L * plane + row + i, E_LT * plane + turned, width)
            chart[C_R * plane + at] = chart[C_RT * plane + turned] = c_r
            chart[C_L * plane + at] = chart[C_LT * plane + turned] = c_l


@compiled
def _add_outside(
    siblings: Siblings, first: int, n: int, scale: float, share: float, chart: np.ndarray,
    marginals: np.ndarray,
) -> None:  # fmt: skip
    """Outside sums from those of the complete spans that stand in G; marginals, times `share`."""
    stride = n + 2
    plane, sums = (n + 2) * stride, N_PLANES * (n + 2) * stride
    to_CR, to_CL, to_ER = sums + TO_CR * stride, sums + TO_CL * stride, sums + TO_ER * stride
    to_IR, to_S = sums + TO_IR * stride, sums + TO_S * stride
    right = sums + (N_ROWS + ROWS * (n + 1)) * stride
    left = right + (n + 1) * stride
    for i in range(first, n):
        _spread(siblings, i, n, scale, False, True, chart)
        row = i * stride
        for k in range(i, n + 1):
            for start in (to_CR, to_CL, to_ER, to_IR, to_S):
                chart[start + k] = 0.0
        for j in range(n, i, -1):
            at, column, width = row + j, j * stride, j - i
            turned, inner, beside, head = column + i, row + i + 1, column + i + 1, i + 1
            c_r = chart[G_CRT * plane + turned] + chart[to_CR + j]
            add_scaled(chart, to_ER + head, c_r, C_RT * plane + beside, width)
            add_scaled(chart, G_CRT * plane + beside, c_r, E_R * plane + inner, width - 1)
            c_l = chart[G_CLT * plane + turned] + chart[to_CL + j]
            add_scaled(chart, G_ELT * plane + turned, c_l, C_L * plane + row + i, width)
            add_scaled(chart, to_CL + head, c_l, E_LT * plane + beside, width - 1)
            i_r = chart[to_IR + j] + chart[to_ER + j] * chart[X_R * plane + at]
            i_l = chart[G_ILT * plane + turned]
            i_l += chart[G_ELT * plane + turned] * chart[X_L * plane + at]
            marginals[i, j] = share * (i_r * chart[I_R * plane + at])
            if i > 0:
                marginals[j, i] = share * (i_l * chart[I_L * plane + at])
            i_r *= chart[P_R * plane + at]
            i_l *= chart[P_L * plane + at]
            S_k, with_k = S_T * plane + beside, right + beside
            chart[G_CLT * plane + beside] += i_r * chart[F_R * plane + at]
            _add_product(chart, to_IR + head, i_r, S_k, with_k, width - 1)
            _add_product(chart, G_ST * plane + beside, i_r, I_R * plane + inner, with_k, width - 1)
            I_k, with_k = I_LT * plane + beside, left + beside
            chart[to_CR + j - 1] += i_l * chart[F_L * plane + at]
            _add_product(chart, to_S + head, i_l, I_k, with_k, width - 1)
            _add_product(chart, G_ILT * plane + beside, i_l, S * plane + inner, with_k, width - 1)
            s = chart[G_ST * plane + turned] + chart[to_S + j]
            add_scaled(chart, to_CR + i, s, C_LT * plane + beside, width)
            add_scaled(chart, G_CLT * plane + beside, s, C_R * plane + row + i, width)


@compiled
def _add_log_outside(
    siblings: Siblings, first: int, n: int, scale: float, chart: np.ndarray,
    marginals: np.ndarray,
) -> None:  # fmt: skip
    """Marginals: the probability of each span, shared out among its splits."""
    stride = n + 2
    plane, sums = (n + 2) * stride, N_PLANES * (n + 2) * stride
    to_CR, to_CL, to_ER = sums + TO_CR * stride, sums + TO_CL * stride, sums + TO_ER * stride
    to_IR, to_S = sums + TO_IR * stride, sums + TO_S * stride
    right = sums + (N_ROWS + ROWS * (n + 1)) * stride
    left = right + (n + 1) * stride
    for i in range(first, n):
        _spread(siblings, i, n, scale, True, True, chart)
        row = i * stride
        for k in range(i, n + 1):
            for start in (to_CR, to_CL, to_ER, to_IR, to_S):
                chart[start + k] = 0.0
        for j in range(n, i, -1):
            at, column, width = row + j, j * stride, j - i
            turned, inner, beside, head = column + i, row + i + 1, column + i + 1, i + 1
            share_out(
                chart, chart[G_CRT * plane + turned] + chart[to_CR + j], chart[C_R * plane + at],
                E_R * plane + inner, C_RT * plane + beside, width,
                to_ER + head, G_CRT * plane + beside,
            )  # fmt: skip
            share_out(
                chart, chart[G_CLT * plane + turned] + chart[to_CL + j], chart[C_L * plane + at],
                C_L * plane + row + i, E_LT * plane + turned, width,
                to_CL + i, G_ELT * plane + turned,
            )  # fmt: skip
            i_r = chart[to_IR + j] + chart[to_ER + j]
            i_l = chart[G_ILT * plane + turned] + chart[G_ELT * plane + turned]
            marginals[i, j] = i_r
            if i > 0:
                marginals[j, i] = i_l
            if i_r > 0.0:
                total = chart[I_R * plane + at] - chart[P_R * plane + at]
                none = chart[C_L * plane + at + stride] + chart[F_R * plane + at]
                chart[G_CLT * plane + beside] += i_r * exp(none - total)
                _share_out_of_three(
                    chart, i_r, total, I_R * plane + inner, S_T * plane + beside, right + beside,
                    width - 1, to_IR + head, G_ST * plane + beside,
                )  # fmt: skip
            if i_l > 0.0:
                total = chart[I_L * plane + at] - chart[P_L * plane + at]
                none = chart[C_R * plane + at - 1] + chart[F_L * plane + at]
                chart[to_CR + j - 1] += i_l * exp(none - total)
                _share_out_of_three(
                    chart, i_l, total, S * plane + inner, I_LT * plane + beside, left + beside,
                    width - 1, to_S + head, G_ILT * plane + beside,
                )  # fmt: skip
            share_out(
                chart, chart[G_ST * plane + turned] + chart[to_S + j], chart[S * plane + at],
                C_R * plane + row + i, C_LT * plane + beside, width,
                to_CR + i, G_CLT * plane + beside,
            )  # fmt: skip


@inlined
def _scaled_marginals(
    arc_scores: np.ndarray, siblings: Siblings, n: int, single_root: bool, scale: float,
    chart: np.ndarray, marginals: np.ndarray,
) -> float:  # fmt: skip
    """Marginals and log-partition by way of probabilities; NaN if that loses digits."""
    stride = n + 2
    first, plane, tops = 1 if single_root else 0, (n + 2) * stride, (N_PLANES * (n + 2) + TOPS)
    shifts = _copy_parts(arc_scores, siblings, n, scale, chart)
    bound = _to_numbers(n, chart) + n * LOG_TREES
    if bound > 600:
        return np.nan
    _fill_inside(siblings, first, n, scale, chart)
    for m in range(1, n + 1):
        bound += chart[tops * stride + m]
    total = 0.0
    if single_root:
        for m in range(1, n + 1):
            of_root = chart[P_R * plane + m] * chart[F_R * plane + m] * chart[X_R * plane + m]
            total += of_root * chart[C_L * plane + stride + m] * chart[C_R * plane + m * stride + n]
    else:
        total = chart[C_R * plane + n]
    # No sum is larger than exp(bound); see `eisner_sums`.
    if bound > 600 or not total > exp(LEAST_LOG + 3 * log(n + 1.0) + bound):
        return np.nan
    _clear(n, chart)
    if single_root:
        for m in range(1, n + 1):
            of_root = chart[P_R * plane + m] * chart[F_R * plane + m] * chart[X_R * plane + m]
            c_l, c_r = chart[C_L * plane + stride + m], chart[C_R * plane + m * stride + n]
            chart[G_CLT * plane + m * stride + 1] += of_root * c_r
            chart[G_CRT * plane + n * stride + m] += of_root * c_l
            marginals[0, m] = of_root * c_l * c_r / total
    else:
        chart[G_CRT * plane + n * stride] = 1.0
    _add_outside(siblings, first, n, scale, 1.0 / total, chart, marginals)
    return log(total) + shifts


@inlined
def _clear(n: int, chart: np.ndarray) -> None:
    clear_outside((G_CRT, G_CLT, G_ILT, G_ELT, G_ST), len(chart), n, n + 2, chart)


@inlined
def sibling_log_chart(
    arc_scores: np.ndarray, siblings: Siblings, n: int, single_root: bool, scale: float,
    chart: np.ndarray,
) -> float:  # fmt: skip
    """Fill the chart with inside sums as logarithms; return the log-partition, shifts and all.

    With a single root, row 0 of S holds the logarithm of all trees with the root word m at m, and
    its cell 0 their sum; row 0 of D_L is 0.
    """
    stride = n + 2
    first, plane = 1 if single_root else 0, (n + 2) * stride
    shifts = _copy_parts(arc_scores, siblings, n, scale, chart)
    for m in range(n + 1):
        chart[(N_PLANES * (n + 2) + TOPS) * stride + m] = 0.0
    _fill_log_inside(siblings, first, n, scale, chart)
    if not single_root:
        return chart[C_R * plane + n] + shifts
    of_root = S * plane
    for m in range(1, n + 1):
        value = chart[P_R * plane + m] + chart[F_R * plane + m] + chart[X_R * plane + m]
        value += chart[C_L * plane + stride + m] + chart[C_R * plane + m * stride + n]
        chart[of_root + m] = value
    chart[of_root] = log_sum(chart, of_root + 1, D_L * plane + 1, n)
    return chart[of_root] + shifts


@inlined
def _log_marginals(
    arc_scores: np.ndarray, siblings: Siblings, n: int, single_root: bool, scale: float,
    chart: np.ndarray, marginals: np.ndarray,
) -> float:  # fmt: skip
    """Marginals and log-partition by way of logarithms."""
    stride = n + 2
    first, plane = 1 if single_root else 0, (n + 2) * stride
    log_partition = sibling_log_chart(arc_scores, siblings, n, single_root, scale, chart)
    if log_partition == -np.inf:
        return log_partition
    _clear(n, chart)
    if single_root:
        for m in range(1, n + 1):
            p = exp(chart[S * plane + m] - chart[S * plane])
            chart[G_CLT * plane + m * stride + 1] += p
            chart[G_CRT * plane + n * stride + m] += p
            marginals[0, m] = p
    else:
        chart[G_CRT * plane + n * stride] = 1.0
    _add_log_outside(siblings, first, n, scale, chart, marginals)
    return log_partition


@compiled
def eisner_sibling_marginals_sentence(
    arc_scores: np.ndarray,
    siblings: Siblings,
    n: int,
    single_root: bool,
    scratch: np.ndarray,
    marginals: np.ndarray,
    scale: float = 1.0,
) -> float:
    """Log-partition and arc marginals of one sentence, for other compiled code to call.

    Args: arc_scores (>= n+1, >= n+1), n >= 1; siblings with its ends, of any types of numbers;
    scratch of `sibling_sums_scratch_size(n)` or more; marginals float64 (>= n+1, >= n+1):
    [:n+1, :n+1] is filled; scale > 0: what all scores are multiplied by (those of integer weights).
    Returns: the log-partition; -inf where there is no tree, and zeros as marginals.
    """
    chart = scratch[: sibling_sums_scratch_size(n)]
    for h in range(n + 1):
        for m in range(n + 1):
            marginals[h, m] = 0.0
    z = _scaled_marginals(arc_scores, siblings, n, single_root, scale, chart, marginals)
    if np.isnan(z):
        z = _log_marginals(arc_scores, siblings, n, single_root, scale, chart, marginals)
    return z


@compiled
def _sums_of_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    single_root: bool,
    scratch: np.ndarray,
    log_partition: np.ndarray,
    marginals: np.ndarray,
) -> None:
    for b in range(len(lengths)):
        marginals[b] = 0.0
        log_partition[b] = 0.0
        if lengths[b] > 0:
            log_partition[b] = eisner_sibling_marginals_sentence(
                arc_scores[b], DenseSiblings(sibling_scores[b], end_scores[b]), lengths[b],
                single_root, scratch, marginals[b], 1.0,
            )  # fmt: skip


def eisner_sibling_sums(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    end_scores: torch.Tensor,
    lengths: torch.Tensor,
    single_root: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-partition (B,) and arc marginals (B, N, N) of checked float64 scores in main memory.

    Returns:
        -inf and zeros for a sentence without a tree.
    """
    arcs, siblings, ends, words = (
        part.detach().numpy() for part in (arc_scores, sibling_scores, end_scores, lengths)
    )
    log_partition, marginals = np.empty(len(arcs)), np.empty(arcs.shape)

    def work(part: slice) -> None:
        scratch = make_sibling_sums_scratch(int(words[part].max(initial=0)))
        _sums_of_batch(
            arcs[part], siblings[part], ends[part], words[part], single_root, scratch,
            log_partition[part], marginals[part],
        )  # fmt: skip

    # Each of the n^3 steps costs about fifteen times as much as one of the first-order search.
    run_in_threads(work, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 15)
    return torch.from_numpy(log_partition), torch.from_numpy(marginals)
