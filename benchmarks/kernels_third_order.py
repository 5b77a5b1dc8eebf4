"""Third-order search of 25 words: microseconds a sentence and multiples of the first order."""

import argparse
from functools import partial

import numpy as np
import torch

from benchmarks.registry import Report, median_times
from gpuparse.compiled import compiled
from gpuparse.inference import eisner, eisner_grand_sibling, eisner_tri_sibling
from gpuparse.inference.kernels.cpu.candidates import (
    Candidates,
    find_candidates,
    grand_sibling_blocks,
    tri_sibling_blocks,
)
from gpuparse.inference.kernels.cpu.eisner_grand_sibling import eisner_grand_sibling_sentence
from gpuparse.inference.kernels.cpu.eisner_tri_sibling import eisner_tri_sibling_sentence

GATE = ("tests/inference/test_third_order.py",)
WORDS, BATCH, DENSE_BATCH = 25, 64, 8
HEADS = (25, 8, 4)
"""Candidates for the head of a word; with the most, nothing is pruned."""


def run(options: argparse.Namespace) -> Report:
    """Time the charts over ready blocks, and the public functions over dense scores."""
    n = WORDS
    rng = np.random.default_rng(n)
    arcs = rng.standard_normal((BATCH, n + 1, n + 1)).astype(np.float32)
    lengths = torch.full((BATCH,), n)
    first_order = partial(eisner, torch.from_numpy(arcs), lengths, backend="cpu")
    rows = []
    for k in HEADS:
        allowed = np.stack([_some_heads(rng, n, k) for _ in range(BATCH)])
        charts = [_charts(rng, candidates, n) for candidates in map(_found, allowed)]
        few = torch.from_numpy(np.where(allowed, arcs, -np.inf)[:DENSE_BATCH])
        contestants = {"eisner": first_order}
        for name, search, parts in (
            ("grand", eisner_grand_sibling, ("grandparent_scores", "grand_sibling_scores")),
            ("tri", eisner_tri_sibling, ("tri_sibling_scores", "outermost_scores")),
        ):
            larger = {part: _dense(rng, n, part) for part in parts}
            dense = {
                backend: partial(search, few, lengths[:DENSE_BATCH], backend=backend, **larger)
                for backend in ("cpu", "torch")
            }
            if not dense["cpu"]()[0].equal(dense["torch"]()[0]):
                raise AssertionError(f"the backends disagree on {name} with {k} heads a word")
            contestants |= {f"{name} {backend}": call for backend, call in dense.items()}
        contestants["grand chart"] = partial(_all, [chart[0] for chart in charts])
        contestants["tri chart"] = partial(_all, [chart[1] for chart in charts])
        seconds = median_times(contestants, options)
        each = {"eisner": BATCH, "grand chart": BATCH * AGAIN, "tri chart": BATCH * AGAIN}
        micro = {name: time / each.get(name, DENSE_BATCH) * 1e6 for name, time in seconds.items()}
        base = micro["eisner"]
        rows.append(
            [
                str(k), base, micro["grand chart"], micro["grand chart"] / base,
                micro["tri chart"], micro["tri chart"] / base, micro["grand cpu"],
                micro["grand torch"], micro["tri cpu"], micro["tri torch"],
            ]
        )  # fmt: skip
    columns = [
        "heads", "eisner", "grand-sibling", "x eisner", "tri-sibling", "x eisner",
        "grand cpu", "grand torch", "tri cpu", "tri torch",
    ]  # fmt: skip
    notes = [
        f"float32, n = {n}, {options.threads} thread(s), median of {options.repeats} rounds.",
        f"eisner: public function, batch {BATCH}. grand-sibling, tri-sibling: the chart and the "
        f"tree from blocks of parts, as scoring fills them, each searched {AGAIN} times in a row.",
        f"cpu, torch: public functions, checks included, batch {DENSE_BATCH}, dense scores of all "
        "parts of four words.",
    ]
    return Report("Third-order search, microseconds a sentence", columns, rows, notes)


AGAIN = 10
"""Searches of one sentence in a row: its blocks are in the cache, as right after scoring."""


def _some_heads(rng: np.random.Generator, n: int, k: int) -> np.ndarray:
    """bool (N, N): k heads of every word at random, the word before it among them."""
    order = rng.random((n + 1, n + 1))
    np.fill_diagonal(order, 2)
    order[np.arange(n), np.arange(1, n + 1)] = -1
    return order.argsort(0).argsort(0) < k


def _found(allowed: np.ndarray) -> Candidates:
    return find_candidates(allowed, len(allowed) - 1)


def _dense(rng: np.random.Generator, n: int, name: str) -> torch.Tensor:
    words = 3 if name == "grandparent_scores" else 4
    scores = rng.standard_normal((DENSE_BATCH, *[n + 1] * words)).astype(np.float32)
    return torch.from_numpy(scores)


def _charts(rng: np.random.Generator, candidates: Candidates, n: int) -> tuple[partial, partial]:
    """Searches of one sentence with random parts, of both models."""

    def draw(size: int) -> np.ndarray:
        return rng.standard_normal(size).astype(np.float32)

    grand_starts = grand_sibling_blocks(candidates.head, candidates.first, candidates.rank)
    tri_starts = tri_sibling_blocks(candidates.rank)
    grand, tri = draw(grand_starts[-1]), draw(tri_starts[-1])
    ends, heads = draw(len(candidates.head)), np.full(n + 1, -1)
    return (
        partial(_search_grand, candidates, grand, grand_starts, ends, n, heads),
        partial(_search_tri, candidates, tri, tri_starts, grand, grand_starts, ends, n, heads),
    )


def _all(searches: list[partial]) -> None:
    for search in searches:
        search()


@compiled
def _search_grand(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    heads: np.ndarray,
) -> None:
    for _ in range(AGAIN):
        eisner_grand_sibling_sentence(candidates, blocks, starts, ends, n, False, heads)


@compiled
def _search_tri(
    candidates: Candidates,
    blocks: np.ndarray,
    starts: np.ndarray,
    outermost: np.ndarray,
    outermost_starts: np.ndarray,
    ends: np.ndarray,
    n: int,
    heads: np.ndarray,
) -> None:
    for _ in range(AGAIN):
        eisner_tri_sibling_sentence(
            candidates, blocks, starts, outermost, outermost_starts, ends, n, False, heads
        )
