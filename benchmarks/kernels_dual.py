"""Dual decomposition of pruned sentences: how many are certified, and how many a second."""

import argparse
from functools import partial
from itertools import pairwise

import numpy as np
import torch

from benchmarks.registry import Report, median_times
from gpuparse.inference import eisner
from gpuparse.inference.kernels.cpu.candidates import (
    Candidates,
    find_candidates,
    grand_sibling_blocks,
    sibling_blocks,
)
from gpuparse.inference.kernels.cpu.dual_decomposition import dual_decomposition_sentence

GATE = ("tests/inference/test_dual_decomposition.py",)
WORDS = (10, 25, 40)
HEADS = 9
"""Arcs that are left for each word."""
BATCH = 64
MOST = 1000
"""Iterations."""
UNIT = 1000.0
"""Standard deviation of the arcs' scores, which are whole."""
BONUS = 3.0
"""What the arcs of the planted tree are worth."""
LARGER = {
    "siblings": (0.4, 0.0, 0.0),
    "all parts, weak": (0.3, 0.3, 0.15),
    "all parts, strong": (0.4, 0.4, 0.3),
}
"""Standard deviation of sibling, grandparent and grand-sibling parts; noise, as no model's are."""
Sentence = tuple[Candidates, np.ndarray, np.ndarray, np.ndarray]


def run(options: argparse.Namespace) -> Report:
    """Search sentences with planted trees, after checking that more iterations change nothing."""
    rows = []
    for n in WORDS:
        arcs = torch.randn(BATCH, n + 1, n + 1)
        for name, spreads in LARGER.items():
            rng = np.random.default_rng(n)
            sentences = [draw_sentence(rng, n, spreads) for _ in range(BATCH)]
            has_grandparents = spreads[1] > 0
            heads = np.zeros((BATCH, n + 1), np.int64)
            again = np.zeros_like(heads)
            search = partial(_search, sentences, n, has_grandparents)
            found = search(MOST, heads)
            longer = search(2 * MOST, again)
            for b in range(BATCH):
                if found[b][1] and not (found[b] == longer[b] and (heads[b] == again[b]).all()):
                    raise AssertionError(f"sentence {b} of {n} words: certified, and then changed")
            seconds = median_times(
                {
                    "eisner": partial(eisner, arcs, torch.full((BATCH,), n)),
                    "dual": partial(search, MOST, heads),
                },
                options,
            )
            iterations = np.array([taken for _, _, taken in found])
            rows.append(
                [
                    str(n), name, 100.0 * np.mean([certified for _, certified, _ in found]),
                    float(iterations.mean()), float(np.median(iterations)),
                    BATCH / seconds["dual"], seconds["dual"] / seconds["eisner"],
                ]
            )  # fmt: skip
    columns = ["n", "parts", "certified %", "iterations", "median", "sentences/s", "x eisner"]
    notes = [
        f"float32 blocks of whole scores, {HEADS} candidates a word, {BATCH} sentences, one at a "
        f"time, at most {MOST} iterations, one thread, median of {options.repeats} rounds.",
        "Scores: noise, and a bonus for the arcs of a planted tree; parts are noise of their own.",
        "x eisner: how many times longer than the first-order projective chart without pruning.",
    ]
    return Report("Dual decomposition", columns, rows, notes)


def _search(
    sentences: list[Sentence], n: int, has_grandparents: bool, most: int, heads: np.ndarray
) -> list[tuple[bool, bool, int]]:
    """(found, certified, iterations) of all sentences."""
    return [
        dual_decomposition_sentence(
            candidates, blocks, starts, has_grandparents, ends, n, False, most, 1.0, heads[b]
        )
        for b, (candidates, blocks, starts, ends) in enumerate(sentences)
    ]


def draw_sentence(
    rng: np.random.Generator, n: int, spreads: tuple[float, float, float]
) -> Sentence:
    """Candidates, blocks, where they begin, and ends."""
    arcs = rng.standard_normal((n + 1, n + 1))
    order = [0, *rng.permutation(np.arange(1, n + 1))]
    for k in range(1, n + 1):
        arcs[order[rng.integers(0, k)], order[k]] += BONUS
    np.fill_diagonal(arcs, -np.inf)
    least = np.sort(arcs, axis=0)[-min(HEADS, n)]
    candidates = find_candidates(arcs >= least, n)
    has_grandparents = spreads[1] > 0
    head, modifier, first = candidates.head, candidates.modifier, candidates.first
    starts = (
        grand_sibling_blocks(head, first, candidates.rank)
        if has_grandparents
        else sibling_blocks(candidates.rank)
    )
    blocks = np.zeros(starts[-1])
    for a, (begin, end) in enumerate(pairwise(starts.tolist())):
        shape = candidates.rank[a] + 1, (end - begin) // (candidates.rank[a] + 1)
        block = arcs[head[a], modifier[a]] + spreads[0] * rng.standard_normal((shape[0], 1))
        block = block + spreads[1] * rng.standard_normal((1, shape[1]))
        block = block + spreads[2] * rng.standard_normal(shape)
        blocks[begin:end] = block.ravel()
    ends = 0.2 * rng.standard_normal(len(head))
    ends[0] = 0.0
    whole = [np.round(UNIT * scores).astype(np.float32) for scores in (blocks, ends)]
    return candidates, whole[0], starts, whole[1]
