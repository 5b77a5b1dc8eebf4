"""Random projective trees, compiled: top-down through the inside chart of one sentence.

Random numbers are counted, not kept: number t of sample k of a sentence is a hash of the
sentence's seed, k and t (splitmix64: Steele, Lea & Flood 2014). So a sample depends on nothing
else, not on the samples before it either.
"""

from math import exp

import numpy as np
import torch

from gpuparse.compiled import compiled
from gpuparse.inference.kernels.cpu.eisner_sums import (
    C_L,
    C_LT,
    C_R,
    C_RT,
    I_LT,
    I_R,
    P_L,
    S,
    eisner_sums_scratch_size,
    log_chart,
    make_eisner_sums_scratch,
)
from gpuparse.inference.kernels.cpu.threads import WORTH_A_THREAD, run_in_threads
from gpuparse.tensors import NO_HEAD

GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)


@compiled
def _mixed(z: np.uint64) -> np.uint64:
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    return z ^ (z >> np.uint64(31))


@compiled
def start_random(state: np.ndarray, seed: int, k: int) -> None:
    """Set the state (1,) uint64 to the beginning of sample k of a sentence."""
    state[0] = _mixed(_mixed(np.uint64(seed)) + np.uint64(k) * GAMMA)


@compiled
def next_random(state: np.ndarray) -> float:
    """The next number of [0, 1)."""
    state[0] += GAMMA
    return (_mixed(state[0]) >> np.uint64(11)) * 2.0**-53


@compiled
def pick_split(
    chart: np.ndarray, a: int, b: int, count: int, total: float, random: float
) -> int:  # fmt: skip
    """One of the splits k < count, with probability exp(chart[a + k] + chart[b + k] - total)."""
    picked, reached = -1, 0.0
    for k in range(count):
        p = exp(chart[np.uint64(a + k)] + chart[np.uint64(b + k)] - total)
        if p > 0.0:
            picked = k
            reached += p
            if reached > random:
                break
    return picked


@compiled
def _walk(
    chart: np.ndarray, n: int, stride: int, stack: np.ndarray, depth: int, state: np.ndarray,
    heads: np.ndarray,
) -> None:  # fmt: skip
    """Heads of a tree under the complete spans on the stack, as (i, j, is right)."""
    plane = (n + 2) * stride
    while depth > 0:
        depth -= 1
        i, j, is_right = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        while i < j:
            row, column, width = i * stride, j * stride, j - i
            if is_right:  # C_R(i,j) -> I_R(i,r), C_R(r,j)
                r = i + 1 + pick_split(
                    chart, I_R * plane + row + i + 1, C_RT * plane + column + i + 1, width,
                    chart[C_R * plane + row + j], next_random(state),
                )  # fmt: skip
                heads[r] = i
                start, end, i = i, r, r
            else:  # C_L(i,j) -> C_L(i,r), I_L(r,j)
                r = i + pick_split(
                    chart, C_L * plane + row + i, I_LT * plane + column + i, width,
                    chart[C_L * plane + row + j], next_random(state),
                )  # fmt: skip
                heads[r] = j
                start, end, j = r, j, r
            # I(i,j) -> C_R(i,r), C_L(r+1,j)
            row, column = start * stride, end * stride
            r = start + pick_split(
                chart, C_R * plane + row + start, C_LT * plane + column + start + 1, end - start,
                chart[S * plane + row + end], next_random(state),
            )  # fmt: skip
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, r, 1
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = r + 1, end, 0
            depth += 2


@compiled
def _sample_batch(
    arc_scores: np.ndarray,
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
        stride, plane = n + 2, (n + 2) * (n + 2)
        chart = scratch[: eisner_sums_scratch_size(n)]
        log_partition[b] = log_chart(arc_scores[b], n, single_root, stride, chart)
        if log_partition[b] == -np.inf:
            continue
        for k in range(heads.shape[1]):
            start_random(state, seeds[b], k)
            if single_root:
                of_root, nothing = S * plane, P_L * plane
                m = 1 + pick_split(
                    chart, of_root + 1, nothing + 1, n, chart[of_root], next_random(state)
                )
                heads[b, k, m] = 0
                stack[0, 0], stack[0, 1], stack[0, 2] = 1, m, 0
                stack[1, 0], stack[1, 1], stack[1, 2] = m, n, 1
                _walk(chart, n, stride, stack, 2, state, heads[b, k])
            else:
                stack[0, 0], stack[0, 1], stack[0, 2] = 0, n, 1
                _walk(chart, n, stride, stack, 1, state, heads[b, k])


def eisner_sample(
    arc_scores: torch.Tensor,
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
    arcs, words, numbers = arc_scores.numpy(), lengths.numpy(), seeds.numpy()
    log_partition = np.empty(len(arcs))
    heads = np.full((len(arcs), n_samples, arcs.shape[1]), NO_HEAD, np.int64)

    def work(part: slice) -> None:
        scratch = make_eisner_sums_scratch(int(words[part].max(initial=0)))
        _sample_batch(
            arcs[part], words[part], numbers[part], single_root, scratch, log_partition[part],
            heads[part],
        )  # fmt: skip

    run_in_threads(work, words, 3, torch.get_num_threads(), WORTH_A_THREAD // 50)
    return torch.from_numpy(log_partition), torch.from_numpy(heads)
