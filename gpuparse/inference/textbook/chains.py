"""Linear chains in plain Python, one sequence at a time: the definition of native/chains.cpp."""

from collections.abc import Callable
from math import exp, inf, log1p
from typing import Any

import numpy as np

# A state is the tag, or for the second order the tag before and the tag; None: no tag before.
State = tuple[int | None, int]


class Chain:
    """One chain of scores in main memory."""

    def __init__(self, chains: Any, b: int) -> None:
        self.n, self.k = int(chains.lengths[b]), chains.unary.shape[2]
        self.is_second = len(chains.triples) > 0
        self.unary = chains.unary[b].tolist()
        self._pairs = _of_chain(chains.pairs, b)
        self._triples = _of_chain(chains.triples, b) if self.is_second else []

    def step(self, t: int, before: State, tag: int) -> float:
        """What is added at t >= 1 by a tag behind a state."""
        score = self.unary[t][tag] + self._pairs[min(t, len(self._pairs)) - 1][before[1]][tag]
        if self.is_second and t > 1:
            row = before[0] * self.k + before[1]
            score += self._triples[min(t - 1, len(self._triples)) - 1][row][tag]
        return float(score)

    def start(self) -> dict[State, float]:
        """The values of the states at the first position."""
        return {(None, tag): score for tag, score in enumerate(self.unary[0])}

    def after(self, before: State, tag: int) -> State:
        """The state behind a state."""
        return (before[1], tag) if self.is_second else (None, tag)


def best_sequences(chain: Chain, most: int) -> list[tuple[float, list[int]]]:
    """The best sequences with their scores; of equal ones that with the smallest last tag first."""
    ways: dict[State, list[tuple[float, list[int]]]] = {
        state: [(score, [state[1]])] for state, score in chain.start().items() if score > -inf
    }
    for t in range(1, chain.n):
        further: dict[State, list[tuple[float, list[int]]]] = {}
        for before, known in ways.items():
            for tag in range(chain.k):
                step = chain.step(t, before, tag)
                if step > -inf:
                    found = further.setdefault(chain.after(before, tag), [])
                    found += [(score + step, [*tags, tag]) for score, tags in known]
        ways = {state: sorted(found, key=_rank)[:most] for state, found in further.items()}
    return sorted((way for found in ways.values() for way in found), key=_rank)[:most]


def _rank(way: tuple[float, list[int]]) -> tuple[float, list[int]]:
    return (-way[0], way[1][::-1])


def forward_sums(chain: Chain) -> list[dict[State, float]]:
    """For each position and state the log of the sum over all beginnings that end there."""
    sums = [chain.start()]
    for t in range(1, chain.n):
        sums.append({})
        for before, so_far in sums[t - 1].items():
            for tag in range(chain.k):
                state = chain.after(before, tag)
                value = so_far + chain.step(t, before, tag)
                sums[t][state] = added(sums[t].get(state, -inf), value)
    return sums


def backward_sums(chain: Chain, forward: list[dict[State, float]]) -> list[dict[State, float]]:
    """For each position and state the log of the sum over all ways on to the end."""
    sums: list[dict[State, float]] = [dict.fromkeys(states, -inf) for states in forward]
    sums[-1] = dict.fromkeys(forward[-1], 0.0)
    for t in range(chain.n - 1, 0, -1):
        for before in sums[t - 1]:
            for tag in range(chain.k):
                value = sums[t][chain.after(before, tag)] + chain.step(t, before, tag)
                sums[t - 1][before] = added(sums[t - 1][before], value)
    return sums


def added(a: float, b: float) -> float:
    """log(exp(a) + exp(b))."""
    high, low = max(a, b), min(a, b)
    return high if low == -inf else high + log1p(exp(low - high))


def total(states: dict[State, float]) -> float:
    """The log of the sum over states."""
    whole = -inf
    for value in states.values():
        whole = added(whole, value)
    return whole


def find_chains(chains: Any, tags: np.ndarray, scores: np.ndarray) -> int:
    """The k best sequences of each chain."""
    tags[:], scores[:] = -1, -inf
    for b in range(len(tags)):
        for place, (score, found) in enumerate(best_sequences(Chain(chains, b), tags.shape[1])):
            tags[b, place, : len(found)] = found
            scores[b, place] = score
    return 0


def sum_chains(
    chains: Any,
    log_sums: np.ndarray,
    tag_shares: np.ndarray,
    pair_shares: np.ndarray,
    triple_shares: np.ndarray,
) -> int:
    """Logarithms of sums and probabilities of tags, pairs and triples."""
    for shares in (tag_shares, pair_shares, triple_shares):
        shares[:] = 0
    for b in range(len(log_sums)):
        chain = Chain(chains, b)
        forward = forward_sums(chain)
        whole = log_sums[b] = total(forward[-1])
        if not len(tag_shares) or whole == -inf:
            continue
        backward = backward_sums(chain, forward)
        for t in range(chain.n):
            for state, value in forward[t].items():
                tag_shares[b, t, state[1]] += exp(value + backward[t][state] - whole)
            for before, value in forward[t - 1].items() if t and len(pair_shares) else ():
                for tag in range(chain.k):
                    state = chain.after(before, tag)
                    share = exp(value + chain.step(t, before, tag) + backward[t][state] - whole)
                    pair_shares[b, min(t, pair_shares.shape[1]) - 1, before[1], tag] += share
                    if chain.is_second and t > 1:
                        row = before[0] * chain.k + before[1]
                        triple_shares[b, min(t - 1, triple_shares.shape[1]) - 1, row, tag] += share
    return 0


def sample_chains(chains: Any, seeds: np.ndarray, tags: np.ndarray) -> int:
    """Random sequences; other ones than the native code draws from the same seeds."""
    tags[:] = -1
    for b in range(len(tags)):
        chain = Chain(chains, b)
        forward = forward_sums(chain)
        if total(forward[-1]) == -inf:
            continue
        for s in range(tags.shape[1]):
            random = np.random.default_rng([int(seeds[b]) % (1 << 64), s])
            state = _drawn(forward[-1], random)
            for t in range(chain.n - 1, -1, -1):
                tags[b, s, t] = state[1]
                if t:
                    state = _drawn(
                        {
                            before: value + chain.step(t, before, state[1])
                            for before, value in forward[t - 1].items()
                            if chain.after(before, state[1]) == state
                        },
                        random,
                    )
    return 0


def _drawn(states: dict[State, float], random: np.random.Generator) -> State:
    """A state with a probability proportional to exp(value)."""
    top = max(states.values())
    shares = np.array([exp(value - top) for value in states.values()])
    return list(states)[int(random.choice(len(shares), p=shares / shares.sum()))]


def _of_chain(scores: np.ndarray, b: int) -> list[Any]:
    return list(scores[b if len(scores) > 1 else 0].tolist())


FUNCTIONS: dict[str, Callable[..., int]] = {
    function.__name__: function for function in (find_chains, sum_chains, sample_chains)
}
