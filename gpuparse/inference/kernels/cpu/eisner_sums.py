"""First-order sums over projective trees, compiled: log-partition and marginals of one sentence.

The inside sums of row i, of all spans that begin there, are made when those of later starts are
known; the outside sums go the other way. Charts that are read down a column are stored twice, the
second time transposed, so that all loops run along rows.

Sums are first made of probabilities: exp(score) with the largest score into every word shifted to
0. No item is then larger than the number of trees, and what underflows was at most 1e-308 times
that; if the total is so large that this cannot be seen, it is right to the last few digits.
Otherwise, or if it is 0 or overflows, everything is done again with logarithms: about ten times
slower, whatever the scores.
"""

from math import exp, log

import numpy as np
import torch

from gpuparse.compiled import compiled, inlined
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads

# Planes of the chart, each (n + 2) rows. P_R, P_L: the arcs i -> j and j -> i, at [i, j] like the
# spans (i, j) of the others. T: transposed, at [j, i]. G: outside sums.
(P_R, P_L, C_R, C_L, I_R, I_L, S, C_RT, C_LT, I_LT, G_CRT, G_CLT, G_ILT, N_PLANES) = range(14)
N_ROWS = 3
LOG_TREES = 1.9095425048844386
"""log(27 / 4): there are at most (27 / 4) ** n projective trees over n words."""
LEAST_LOG = -672.0
"""What underflows is below exp(-708): with this margin it is lost among the rounding errors."""


@compiled
def eisner_sums_scratch_size(n: int) -> int:
    """Elements of scratch that `eisner_marginals_sentence` needs for up to n words."""
    return (N_PLANES * (n + 2) + N_ROWS) * (n + 2)


def make_eisner_sums_scratch(n: int) -> np.ndarray:
    """Working memory of `eisner_marginals_sentence` for sentences of up to n words."""
    return np.empty(eisner_sums_scratch_size(n))


@compiled
def add_scaled(chart: np.ndarray, to: int, scale: float, source: int, count: int) -> None:
    """chart[to + k] += scale * chart[source + k] for all k < count; the two do not overlap."""
    for k in range(count):
        chart[np.uint64(to + k)] += scale * chart[np.uint64(source + k)]


@compiled
def log_sum(chart: np.ndarray, a: int, b: int, count: int) -> float:
    """log of the sum over k < count of exp(chart[a + k] + chart[b + k])."""
    top = -np.inf
    for k in range(count):
        top = max(top, chart[np.uint64(a + k)] + chart[np.uint64(b + k)])
    if top == -np.inf:
        return top
    total = 0.0
    for k in range(count):
        total += exp(chart[np.uint64(a + k)] + chart[np.uint64(b + k)] - top)
    return top + log(total)


@compiled
def share_out(
    chart: np.ndarray, p: float, total: float, a: int, b: int, count: int, to_a: int, to_b: int
) -> None:
    """Add to chart[to_a + k] and chart[to_b + k] what the split k gets of the probability p.

    Split k has the logarithm chart[a + k] + chart[b + k], all together have `total`.
    """
    if p == 0.0:
        return
    for k in range(count):
        q = p * exp(chart[np.uint64(a + k)] + chart[np.uint64(b + k)] - total)
        chart[np.uint64(to_a + k)] += q
        chart[np.uint64(to_b + k)] += q


@compiled
def column_top(arc_scores: np.ndarray, n: int, m: int) -> float:
    """The largest score into a word, 0 if all arcs into it are forbidden."""
    top = arc_scores[0, m]
    for h in range(1, n + 1):
        if h != m and arc_scores[h, m] > top:
            top = arc_scores[h, m]
    return top if top > -np.inf else 0.0


@compiled
def _copy_arcs(
    arc_scores: np.ndarray, first: int, n: int, in_logs: bool, stride: int, chart: np.ndarray
) -> float:
    """Fill P_R and P_L, each column shifted to a maximum of 0; return the sum of the shifts."""
    plane, shifts = (n + 2) * stride, 0.0
    for m in range(1, n + 1):
        top = column_top(arc_scores, n, m)
        shifts += top
        for h in range(first, n + 1):
            if h == m:
                continue
            score = arc_scores[h, m] - top
            at = P_R * plane + h * stride + m if h < m else P_L * plane + m * stride + h
            chart[at] = score if in_logs else exp(score)
    for j in range(1, n + 1):  # the root modifies nothing
        chart[P_L * plane + j] = -np.inf if in_logs else 0.0
    return shifts


@compiled
def _fill_inside(first: int, n: int, stride: int, chart: np.ndarray) -> None:
    """Inside sums of all spans over positions first..n, as numbers."""
    plane = (n + 2) * stride
    of_R = N_PLANES * plane
    of_L = of_R + stride
    for i in range(n, first - 1, -1):
        row = i * stride
        of_S = S * plane + row
        for j in range(i, n + 1):
            chart[np.uint64(of_S + j)] = 0.0
            chart[np.uint64(of_R + j)] = 0.0
            chart[np.uint64(of_L + j)] = 0.0
        # S(i,j) = sum_{i<=r<j} C_R(i,r) C_L(r+1,j);  I_R = S arc(i,j);  I_L = S arc(j,i)
        # C_R(i,j) = sum_{i<r<=j} I_R(i,r) C_R(r,j);  C_L(i,j) = sum_{i<=r<j} C_L(i,r) I_L(r,j)
        for r in range(i, n + 1):
            at, turned, c_r, c_l = row + r, r * stride + i, 1.0, 1.0
            if r > i:
                s = chart[np.uint64(of_S + r)]
                i_r = s * chart[np.uint64(P_R * plane + at)]
                i_l = s * chart[np.uint64(P_L * plane + at)]
                c_r = chart[np.uint64(of_R + r)] + i_r
                c_l = chart[np.uint64(of_L + r)] + i_l
                chart[np.uint64(I_R * plane + at)] = i_r
                chart[np.uint64(I_L * plane + at)] = i_l
                chart[np.uint64(I_LT * plane + turned)] = i_l
                beyond, below = r + 1, r * stride + r + 1
                add_scaled(chart, of_R + beyond, i_r, C_R * plane + below, n - r)
                add_scaled(chart, of_L + beyond, c_l, I_L * plane + below, n - r)
            chart[np.uint64(C_R * plane + at)] = c_r
            chart[np.uint64(C_L * plane + at)] = c_l
            chart[np.uint64(C_RT * plane + turned)] = c_r
            chart[np.uint64(C_LT * plane + turned)] = c_l
            below = (r + 1) * stride + r + 1
            add_scaled(chart, of_S + r + 1, c_r, C_L * plane + below, n - r)


@compiled
def fill_log_inside(first: int, n: int, stride: int, chart: np.ndarray) -> None:
    """As `_fill_inside`, in logarithms."""
    plane = (n + 2) * stride
    for i in range(n, first - 1, -1):
        row = i * stride
        for p in (C_R, C_L, C_RT, C_LT):
            chart[p * plane + row + i] = 0.0
        for j in range(i + 1, n + 1):
            at, turned, column, width = row + j, j * stride + i, j * stride, j - i
            s = log_sum(chart, C_R * plane + row + i, C_LT * plane + column + i + 1, width)
            chart[S * plane + at] = s
            chart[I_R * plane + at] = s + chart[P_R * plane + at]
            i_l = s + chart[P_L * plane + at]
            chart[I_L * plane + at] = chart[I_LT * plane + turned] = i_l
            # C_R(j,j) and C_L(i,i) are there; the last split of C_R(i,j) needs I_R(i,j) only.
            c_r = log_sum(chart, I_R * plane + row + i + 1, C_RT * plane + column + i + 1, width)
            c_l = log_sum(chart, C_L * plane + row + i, I_LT * plane + column + i, width)
            chart[C_R * plane + at] = chart[C_RT * plane + turned] = c_r
            chart[C_L * plane + at] = chart[C_LT * plane + turned] = c_l


@compiled
def clear_outside(
    planes: tuple[int, ...], rows: int, n: int, stride: int, chart: np.ndarray
) -> None:
    """Set these planes and the rows that stand from `rows` on to 0."""
    plane = (n + 2) * stride
    for p in planes:
        for cell in range(p * plane, (p + 1) * plane):
            chart[np.uint64(cell)] = 0.0
    for cell in range(rows, len(chart)):
        chart[np.uint64(cell)] = 0.0


@compiled
def _add_outside(
    first: int, n: int, stride: int, share: float, chart: np.ndarray, marginals: np.ndarray
) -> None:
    """Outside sums from those of the complete spans that stand in G; marginals, times `share`."""
    plane = (n + 2) * stride
    of_CR = N_PLANES * plane
    of_CL, of_IR = of_CR + stride, of_CR + 2 * stride
    for i in range(first, n):
        row = i * stride
        for k in range(i, n + 1):
            chart[np.uint64(of_CR + k)] = 0.0
            chart[np.uint64(of_CL + k)] = 0.0
            chart[np.uint64(of_IR + k)] = 0.0
        for j in range(n, i, -1):
            at, column, width = row + j, j * stride, j - i
            turned = column + i
            c_r = chart[np.uint64(G_CRT * plane + turned)] + chart[np.uint64(of_CR + j)]
            add_scaled(chart, of_IR + i + 1, c_r, C_RT * plane + turned + 1, width)
            add_scaled(chart, G_CRT * plane + turned + 1, c_r, I_R * plane + row + i + 1, width - 1)
            c_l = chart[np.uint64(G_CLT * plane + turned)] + chart[np.uint64(of_CL + j)]
            add_scaled(chart, G_ILT * plane + turned, c_l, C_L * plane + row + i, width)
            add_scaled(chart, of_CL + i + 1, c_l, I_LT * plane + turned + 1, width - 1)
            i_r = chart[np.uint64(of_IR + j)]
            i_l = chart[np.uint64(G_ILT * plane + turned)]
            marginals[i, j] = share * (i_r * chart[np.uint64(I_R * plane + at)])
            if i > 0:
                marginals[j, i] = share * (i_l * chart[np.uint64(I_L * plane + at)])
            s = i_r * chart[np.uint64(P_R * plane + at)]
            s += i_l * chart[np.uint64(P_L * plane + at)]
            add_scaled(chart, of_CR + i, s, C_LT * plane + turned + 1, width)
            add_scaled(chart, G_CLT * plane + turned + 1, s, C_R * plane + row + i, width)


@compiled
def _add_log_outside(
    first: int, n: int, stride: int, chart: np.ndarray, marginals: np.ndarray
) -> None:
    """Marginals: the probability of each span, shared out among its splits. G has those of the
    complete spans from which it begins."""
    plane = (n + 2) * stride
    of_CR = N_PLANES * plane
    of_CL, of_IR = of_CR + stride, of_CR + 2 * stride
    for i in range(first, n):
        row = i * stride
        for k in range(i, n + 1):
            chart[of_CR + k] = chart[of_CL + k] = chart[of_IR + k] = 0.0
        for j in range(n, i, -1):
            at, column, width = row + j, j * stride, j - i
            turned = column + i
            share_out(
                chart, chart[G_CRT * plane + turned] + chart[of_CR + j], chart[C_R * plane + at],
                I_R * plane + row + i + 1, C_RT * plane + turned + 1, width,
                of_IR + i + 1, G_CRT * plane + turned + 1,
            )  # fmt: skip
            share_out(
                chart, chart[G_CLT * plane + turned] + chart[of_CL + j], chart[C_L * plane + at],
                C_L * plane + row + i, I_LT * plane + turned, width,
                of_CL + i, G_ILT * plane + turned,
            )  # fmt: skip
            i_r, i_l = chart[of_IR + j], chart[G_ILT * plane + turned]
            marginals[i, j] = i_r
            if i > 0:
                marginals[j, i] = i_l
            share_out(
                chart, i_r + i_l, chart[S * plane + at],
                C_R * plane + row + i, C_LT * plane + turned + 1, width,
                of_CR + i, G_CLT * plane + turned + 1,
            )  # fmt: skip


@inlined
def _scaled_marginals(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    stride: int,
    chart: np.ndarray,
    marginals: np.ndarray,
) -> float:
    """Marginals and log-partition by way of probabilities; NaN if that loses digits."""
    if n * LOG_TREES > 300:
        return np.nan
    first, plane = 1 if single_root else 0, (n + 2) * stride
    shifts = _copy_arcs(arc_scores, first, n, False, stride, chart)
    _fill_inside(first, n, stride, chart)
    total = 0.0
    if single_root:
        for m in range(1, n + 1):
            of_root = exp(arc_scores[0, m] - column_top(arc_scores, n, m))
            total += of_root * chart[C_L * plane + stride + m] * chart[C_R * plane + m * stride + n]
    else:
        total = chart[C_R * plane + n]
    # n ** 3 sums, each of which may have lost exp(-708) of what is multiplied by at most the number
    # of trees.
    if not total > exp(LEAST_LOG + 3 * log(n + 1.0) + n * LOG_TREES):
        return np.nan
    clear_outside((G_CRT, G_CLT, G_ILT), len(chart), n, stride, chart)
    if single_root:
        for m in range(1, n + 1):
            of_root = exp(arc_scores[0, m] - column_top(arc_scores, n, m))
            c_l, c_r = chart[C_L * plane + stride + m], chart[C_R * plane + m * stride + n]
            chart[G_CLT * plane + m * stride + 1] += of_root * c_r
            chart[G_CRT * plane + n * stride + m] += of_root * c_l
            marginals[0, m] = of_root * c_l * c_r / total
    else:
        chart[G_CRT * plane + n * stride] = 1.0
    _add_outside(first, n, stride, 1.0 / total, chart, marginals)
    return log(total) + shifts


@inlined
def log_chart(
    arc_scores: np.ndarray, n: int, single_root: bool, stride: int, chart: np.ndarray
) -> float:
    """Fill the chart with inside sums as logarithms; return the log-partition, shifts and all.

    With a single root, row 0 of S holds log(C_L(1,m) C_R(m,n) exp(arc(0,m))) at m, and its cell 0
    their sum.
    """
    first, plane = 1 if single_root else 0, (n + 2) * stride
    shifts = _copy_arcs(arc_scores, first, n, True, stride, chart)
    fill_log_inside(first, n, stride, chart)
    if not single_root:
        return chart[C_R * plane + n] + shifts
    of_root, nothing = S * plane, P_L * plane  # a row of one 0 is added, by way of P_L's row 0
    for m in range(1, n + 1):
        value = chart[C_L * plane + stride + m] + chart[C_R * plane + m * stride + n]
        value += arc_scores[0, m] - column_top(arc_scores, n, m)
        chart[of_root + m] = value
        chart[nothing + m] = 0.0
    chart[of_root] = log_sum(chart, of_root + 1, nothing + 1, n)
    return chart[of_root] + shifts


@inlined
def _log_marginals(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    stride: int,
    chart: np.ndarray,
    marginals: np.ndarray,
) -> float:
    """Marginals and log-partition by way of logarithms."""
    first, plane = 1 if single_root else 0, (n + 2) * stride
    log_partition = log_chart(arc_scores, n, single_root, stride, chart)
    if log_partition == -np.inf:
        return log_partition
    clear_outside((G_CRT, G_CLT, G_ILT), len(chart), n, stride, chart)
    if single_root:
        for m in range(1, n + 1):
            p = exp(chart[S * plane + m] - chart[S * plane])
            chart[G_CLT * plane + m * stride + 1] += p
            chart[G_CRT * plane + n * stride + m] += p
            marginals[0, m] = p
    else:
        chart[G_CRT * plane + n * stride] = 1.0
    _add_log_outside(first, n, stride, chart, marginals)
    return log_partition


@compiled
def eisner_marginals_sentence(
    arc_scores: np.ndarray,
    n: int,
    single_root: bool,
    scratch: np.ndarray,
    marginals: np.ndarray,
) -> float:
    """Log-partition and arc marginals of one sentence, for other compiled code to call.

    Args: arc_scores float64 (>= n+1, >= n+1), n >= 1; scratch of `eisner_sums_scratch_size(n)` or
    more; marginals float64 (>= n+1, >= n+1): [:n+1, :n+1] is filled.
    Returns: the log-partition; -inf where there is no tree, and zeros as marginals.
    """
    stride = n + 2
    chart = scratch[: eisner_sums_scratch_size(n)]
    for h in range(n + 1):
        for m in range(n + 1):
            marginals[h, m] = 0.0
    log_partition = _scaled_marginals(arc_scores, n, single_root, stride, chart, marginals)
    if np.isnan(log_partition):
        log_partition = _log_marginals(arc_scores, n, single_root, stride, chart, marginals)
    return log_partition


@compiled
def _sums_of_batch(
    arc_scores: np.ndarray,
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
            log_partition[b] = eisner_marginals_sentence(
                arc_scores[b], lengths[b], single_root, scratch, marginals[b]
            )


def eisner_sums(
    arc_scores: torch.Tensor, lengths: torch.Tensor, single_root: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-partition (B,) and marginals (B, N, N) of checked float64 scores in main memory.

    Returns:
        -inf and zeros for a sentence without a tree.
    """
    arcs, words = arc_scores.numpy(), lengths.numpy()
    log_partition, marginals = np.empty(len(arcs)), np.empty(arcs.shape)

    def work(part: slice) -> None:
        scratch = make_eisner_sums_scratch(int(words[part].max(initial=0)))
        _sums_of_batch(
            arcs[part], words[part], single_root, scratch, log_partition[part], marginals[part]
        )

    # Each of the n^3 steps costs about five times as much as one of the search.
    run_in_threads(work, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 5)
    return torch.from_numpy(log_partition), torch.from_numpy(marginals)
