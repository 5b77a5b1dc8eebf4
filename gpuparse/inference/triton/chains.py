"""Viterbi over linear chains in Triton: one chain a program, to its end.

A lane stands for a state at the present position: the tag, or of the second order the tag before
and the tag, `before * K + tag`. It looks at its K ways one after the other, so that the first of
equally good ones is kept; `textbook/chains.py` is the definition.
"""

import torch
import triton
import triton.language as tl

from gpuparse.inference.triton.launch import WARP, count_programs, on_device

MOST_LANES, MOST_WARPS = 1024, 8


def chain_viterbi(
    unary: torch.Tensor,
    pairs: torch.Tensor,
    triples: torch.Tensor | None,
    lengths: torch.Tensor,
) -> tuple[torch.Tensor, torch.Tensor]:
    """`gpuparse.inference.chain_viterbi` on checked scores in float64; does not synchronise.

    Args:
        unary (B, N, K), lengths int64 (B,), 1..N; pairs (B, N - 1, K, K) and triples
        (B, N - 2, K, K, K), an axis of chains or positions having size 1 where all share it.
    Returns: tags (B, N), -1 behind the end; scores (B,). The tags of a chain without sequences,
        which has the score -inf, mean nothing.
    """
    n_chains, n, k = unary.shape
    device, is_second = unary.device, triples is not None
    tags = torch.full((n_chains, n), -1, device=device)
    scores = unary.new_empty(n_chains)
    if not n_chains:
        return tags, scores
    n_states = k * k if is_second else k
    n_programs = count_programs(n_chains, n_states * (n + 2 * unary.itemsize), device)
    lanes = min(MOST_LANES, max(WARP, triton.next_power_of_2(n_states)))
    parts = [part.contiguous() for part in (pairs, pairs if triples is None else triples)]
    with on_device(device):
        chain_viterbi_kernel[(n_programs,)](
            unary.contiguous(),
            *parts,
            lengths.contiguous(),
            tags,
            scores,
            unary.new_empty((n_programs, 2 * n_states)),
            torch.empty((n_programs, n * n_states), dtype=torch.int16, device=device),
            n_chains,
            n,
            k,
            # Values from chain to chain and from position to position, 0 where they are shared.
            *[
                part.stride(axis) if part.shape[axis] > 1 else 0
                for part in parts
                for axis in (0, 1)
            ],
            IS_SECOND=is_second,
            LANES=lanes,
            num_warps=min(MOST_WARPS, lanes // WARP),
            num_stages=1,
        )
    return tags, scores


@triton.jit(
    do_not_specialize=[
        "n_chains", "n", "k", "pairs_of_chain", "pairs_of_position", "triples_of_chain",
        "triples_of_position",
    ]
)  # fmt: skip
def chain_viterbi_kernel(
    unary: tl.tensor,
    pairs: tl.tensor,
    triples: tl.tensor,
    lengths: tl.tensor,
    tags: tl.tensor,
    scores: tl.tensor,
    values: tl.tensor,
    ways: tl.tensor,
    n_chains: tl.tensor,
    n: tl.tensor,
    k: tl.tensor,
    pairs_of_chain: tl.tensor,
    pairs_of_position: tl.tensor,
    triples_of_chain: tl.tensor,
    triples_of_position: tl.tensor,
    IS_SECOND: tl.constexpr,
    LANES: tl.constexpr,
) -> None:
    """Best sequences of the chains program, program + programs, ...; arguments as above.

    values: (programs, 2, states) of the states at two positions. ways: (programs, N, states) int16,
    the way by which a state is reached best.
    """
    program = tl.program_id(0).to(tl.int64)
    n_states = k * k if IS_SECOND else k
    spread = k if IS_SECOND else 1  # from the state of a way to that of the next one
    values += program * 2 * n_states
    ways += program * n * n_states
    lane = tl.arange(0, LANES)
    for chain in range(tl.program_id(0), n_chains, tl.num_programs(0)):
        b = tl.cast(chain, tl.int64)
        unaries = unary + b * n * k
        length = tl.load(lengths + b).to(tl.int32)
        tl.debug_barrier()  # the last chain has been read
        for start in range(0, n_states, LANES):
            state = start + lane
            first = tl.load(unaries + state, state < k, float("-inf"))
            tl.store(values + state, first, state < n_states)
        for t in range(1, length):
            tl.debug_barrier()  # the values at t - 1 are written, and those at t - 2 are read
            before, here = values + (t - 1) % 2 * n_states, values + t % 2 * n_states
            of_pairs = pairs + b * pairs_of_chain + tl.cast(t - 1, tl.int64) * pairs_of_position
            of_triples = triples + b * triples_of_chain
            of_triples += tl.cast(t - 2, tl.int64) * triples_of_position
            for start in range(0, n_states, LANES):
                state = start + lane
                is_state = state < n_states
                tag, group = state % k, state // k
                own = tl.load(unaries + tl.cast(t, tl.int64) * k + tag, is_state, 0.0)
                best = tl.full((LANES,), float("-inf"), tl.float64)
                way = tl.zeros((LANES,), tl.int16)
                for r in range(k):
                    p = r * spread + group
                    last = group if IS_SECOND else p
                    step = own + tl.load(of_pairs + last * k + tag, is_state, 0.0)
                    if IS_SECOND:
                        has_triple = is_state & (t > 1)
                        place = p.to(tl.int64) * k + tag
                        step += tl.load(of_triples + place, has_triple, 0.0)
                    value = tl.load(before + p, is_state, float("-inf")) + step
                    way = tl.where(value > best, r, way).to(tl.int16)
                    best = tl.maximum(best, value)
                tl.store(here + state, best, is_state)
                tl.store(ways + tl.cast(t, tl.int64) * n_states + state, way, is_state)
        tl.debug_barrier()
        top, rank = _last(values + (length - 1) % 2 * n_states, k, n_states, IS_SECOND, LANES)
        tl.store(scores + b, top)
        tag, before_tag = (rank // k, rank % k) if IS_SECOND else (rank, rank)
        for back in range(length):
            t = length - 1 - back
            tl.store(tags + b * n + t, tag)
            if t > 0:
                state = before_tag * k + tag if IS_SECOND else tag
                way = tl.load(ways + tl.cast(t, tl.int64) * n_states + state).to(tl.int32)
                if IS_SECOND:
                    tag = before_tag
                    before_tag = way
                else:
                    tag = way


@triton.jit
def _last(
    values: tl.tensor,
    k: tl.tensor,
    n_states: tl.tensor,
    IS_SECOND: tl.constexpr,
    LANES: tl.constexpr,
) -> tuple[tl.tensor, tl.tensor]:
    """The best value, and the smallest rank of its states: by the tag, then by the tag before."""
    lane = tl.arange(0, LANES)
    top = tl.full((), float("-inf"), tl.float64)
    for start in range(0, n_states, LANES):
        state = start + lane
        top = tl.maximum(top, tl.max(tl.load(values + state, state < n_states, float("-inf")), 0))
    smallest = n_states - 1
    for start in range(0, n_states, LANES):
        state = start + lane
        is_state = state < n_states
        value = tl.load(values + state, is_state, float("-inf"))
        rank = state % k * k + state // k if IS_SECOND else state
        smallest = tl.minimum(
            smallest, tl.min(tl.where(is_state & (value == top), rank, n_states), 0)
        )
    return top, smallest
