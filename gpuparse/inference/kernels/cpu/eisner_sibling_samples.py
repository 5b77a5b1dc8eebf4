"""Random projective trees under sibling scores, compiled: top-down through the inside chart.

Random numbers as in `eisner_samples`.
"""

from math import exp

import numpy as np
import torch

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.eisner_samples import next_random, pick_split, start_random
from gpuparse.inference.kernels.cpu.eisner_sibling_sums import (
    C_L,
    C_LT,
    C_R,
    C_RT,
    D_L,
    E_LT,
    E_R,
    F_L,
    F_R,
    I_LT,
    I_R,
    P_L,
    P_R,
    S_T,
    S,
    make_sibling_sums_scratch,
    sibling_log_chart,
    sibling_sums_scratch_size,
)
from gpuparse.inference.kernels.cpu.siblings import DenseSiblings, Siblings, sibling_score
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD


@compiled
def _pick_sibling(
    chart: np.ndarray, siblings: Siblings, n: int, h: int, m: int, random: float
) -> int:  # fmt: skip
    """The inner sibling of the modifier m of h, h for none, by its probability."""
    stride = n + 2
    plane, i, j = (n + 2) * stride, min(h, m), max(h, m)
    at, row, column = i * stride + j, i * stride, j * stride
    if h < m:
        total = chart[I_R * plane + at] - chart[P_R * plane + at]
        none = chart[C_L * plane + at + stride] + chart[F_R * plane + at]
        outer, between = I_R * plane + row, S_T * plane + column
    else:
        total = chart[I_LT * plane + column + i] - chart[P_L * plane + at]
        none = chart[C_R * plane + at - 1] + chart[F_L * plane + at]
        outer, between = S * plane + row, I_LT * plane + column
    reached = exp(none - total)
    picked = h
    if reached > random:
        return picked
    for k in range(i + 1, j):
        value = chart[outer + k] + chart[between + k] + sibling_score(siblings, h, m, k)
        p = exp(value - total)
        if p > 0.0:
            picked = k
            reached += p
            if reached > random:
                break
    return picked


@compiled
def _walk(
    chart: np.ndarray, siblings: Siblings, n: int, stack: np.ndarray, depth: int,
    state: np.ndarray, heads: np.ndarray,
) -> None:  # fmt: skip
    """Heads of a tree under the complete spans on the stack, as (i, j, is right)."""
    stride = n + 2
    plane = (n + 2) * stride
    while depth > 0:
        depth -= 1
        i, j, is_right = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if i == j:
            continue
        row, column, width = i * stride, j * stride, j - i
        if is_right:  # C_R(i,j) -> I_R(i,r) with its end, C_R(r,j)
            r = i + 1 + pick_split(
                chart, E_R * plane + row + i + 1, C_RT * plane + column + i + 1, width,
                chart[C_R * plane + row + j], next_random(state),
            )  # fmt: skip
            h, start, end = i, r, j
        else:  # C_L(i,j) -> C_L(i,r), I_L(r,j) with its end
            r = i + pick_split(
                chart, C_L * plane + row + i, E_LT * plane + column + i, width,
                chart[C_L * plane + row + j], next_random(state),
            )  # fmt: skip
            h, start, end = j, i, r
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, end, is_right
        depth += 1
        m = r
        while True:
            heads[m] = h
            # I(h,m) -> I(h,s) and S(s,m), or a span without modifiers of h
            s = _pick_sibling(chart, siblings, n, h, m, next_random(state))
            if s == h:
                break
            start, end = min(s, m), max(s, m)
            row, column = start * stride, end * stride
            r = start + pick_split(
                chart, C_R * plane + row + start, C_LT * plane + column + start + 1, end - start,
                chart[S * plane + row + end], next_random(state),
            )  # fmt: skip
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, r, 1
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = r + 1, end, 0
            depth += 2
            m = s
        if h < m:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = h + 1, m, 0
        else:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = m, h - 1, 1
        depth += 1


@compiled
def _sample_batch(
    arc_scores: np.ndarray,
    sibling_scores: np.ndarray,
    end_scores: np.ndarray,
    lengths: np.ndarray,
    seeds: np.ndarray,
    single_root: bool,
    scratch: np.ndarray,
    log_partition: np.ndarray,
    heads: np.ndarray,
) -> None:
    state = np.empty(1, np.uint64)
    stack = np.empty((2 * arc_scores.shape[1] + 4, 3), np.int64)
    for b in range(len(lengths)):
        n = lengths[b]
        log_partition[b] = 0.0
        if n == 0:
            continue
        plane = (n + 2) * (n + 2)
        siblings = DenseSiblings(sibling_scores[b], end_scores[b])
        chart = scratch[: sibling_sums_scratch_size(n)]
        log_partition[b] = sibling_log_chart(arc_scores[b], siblings, n, single_root, 1.0, chart)
        if log_partition[b] == -np.inf:
            continue
        for k in range(heads.shape[1]):
            start_random(state, seeds[b], k)
            if single_root:
                of_root = S * plane
                m = 1 + pick_split(
                    chart, of_root + 1, D_L * plane + 1, n, chart[of_root], next_random(state)
                )
                heads[b, k, m] = 0
                stack[0, 0], stack[0, 1], stack[0, 2] = 1, m, 0
                stack[1, 0], stack[1, 1], stack[1, 2] = m, n, 1
                _walk(chart, siblings, n, stack, 2, state, heads[b, k])
            else:
                stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, 1
                _walk(chart, siblings, n, stack, 1, state, heads[b, k])


def eisner_sibling_sample(
    arc_scores: torch.Tensor,
    sibling_scores: torch.Tensor,
    end_scores: torch.Tensor,
    lengths: torch.Tensor,
    n_samples: int,
    seeds: torch.Tensor,
    single_root: bool,
) -> tuple[torch.Tensor, torch.Tensor]:
    """Log-partition (B,) and heads (B, n_samples, N) for checked float64 scores in main memory.

    Args:
        seeds: int64 (B,).

    Returns:
        -inf and no heads for a sentence without a tree.
    """
    arcs, siblings, ends, words, numbers = (
        part.numpy() for part in (arc_scores, sibling_scores, end_scores, lengths, seeds)
    )
    log_partition = np.empty(len(arcs))
    heads = np.full((len(arcs), n_samples, arcs.shape[1]), NO_HEAD, np.int64)

    def work(part: slice) -> None:
        scratch = make_sibling_sums_scratch(int(words[part].max(initial=0)))
        _sample_batch(
            arcs[part], siblings[part], ends[part], words[part], numbers[part], single_root,
            scratch, log_partition[part], heads[part],
        )  # fmt: skip

    run_in_threads(work, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 50)
    return torch.from_numpy(log_partition), torch.from_numpy(heads)
