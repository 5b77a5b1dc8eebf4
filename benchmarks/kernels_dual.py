"""Dual decomposition of pruned sentences: how many are certified, and how many a second."""

import argparse
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.registry import Report, median_times
from gpuparse.inference import dual_decomposition, eisner

GATE = ("tests/inference/test_dual_decomposition.py",)
WORDS = {10: 64, 25: 32, 40: 8}
"""Words of the sentences -> sentences."""
HEADS = 9
"""Arcs that are left for each word."""
MOST = 1000
"""Iterations."""
SCALE = 1000.0
"""Standard deviation of the arcs' scores, which are whole."""
BONUS = 3.0
"""Added to the arcs of the planted tree, in standard deviations."""
SPREADS = {
    "siblings": (0.4, 0.0, 0.0),
    "all parts, weak": (0.3, 0.3, 0.15),
    "all parts, strong": (0.4, 0.4, 0.3),
}
"""Standard deviation of sibling, grandparent and grand-sibling parts, which are noise."""


def run(options: argparse.Namespace) -> Report:
    """Search sentences with planted trees, after checking that more iterations change nothing."""
    rows = []
    for n, n_batch in WORDS.items():
        lengths = torch.full((n_batch,), n)
        first_order = partial(eisner, torch.randn(n_batch, n + 1, n + 1), lengths)
        for name, spreads in SPREADS.items():
            arcs, parts = draw_sentences(np.random.default_rng(n), n_batch, n, spreads)
            search = partial(dual_decomposition, arcs, lengths, **parts)
            heads, scores, certified, iterations = search(max_iterations=MOST)
            longer = search(max_iterations=2 * MOST)
            if not (heads.equal(longer[0]) or not certified.all()):
                raise AssertionError(f"{n} words, {name}: certified trees changed")
            if (scores > longer[1])[certified].any():
                raise AssertionError(f"{n} words, {name}: a certified tree was not the best")
            seconds = median_times({"eisner": first_order, "dual": search}, options)
            rows.append(
                [
                    str(n), name, 100.0 * float(certified.double().mean()),
                    float(iterations.double().mean()), float(iterations.double().median()),
                    n_batch / seconds["dual"], seconds["dual"] / seconds["eisner"],
                ]
            )  # fmt: skip
    columns = ["n", "parts", "certified %", "iterations", "median", "sentences/s", "x eisner"]
    notes = [
        f"whole float32 scores, {HEADS} candidates per word, at most {MOST} iterations, "
        f"{options.threads} thread(s), median of {options.repeats} rounds; public function.",
        "Scores: noise, and a bonus for the arcs of a planted tree; parts are independent noise.",
        "x eisner: times the first-order projective chart without pruning.",
    ]
    return Report("Dual decomposition", columns, rows, notes)


def draw_sentences(
    rng: np.random.Generator, n_batch: int, n: int, spreads: tuple[float, float, float]
) -> tuple[Tensor, dict[str, Tensor]]:
    """Arc scores, -inf for pruned arcs, and the other scores by keyword."""
    arcs = rng.standard_normal((n_batch, n + 1, n + 1))
    for b in range(n_batch):
        order = [0, *rng.permutation(np.arange(1, n + 1))]
        for k in range(1, n + 1):
            arcs[b, order[rng.integers(0, k)], order[k]] += BONUS
        np.fill_diagonal(arcs[b], -np.inf)
    least = np.sort(arcs, axis=1)[:, -min(HEADS, n), None]
    arcs[arcs < least] = -np.inf

    def noise(spread: float, *shape: int) -> Tensor:
        return _whole(spread * rng.standard_normal((n_batch, *shape), np.float32))

    parts = {
        "sibling_scores": noise(spreads[0], *[n + 1] * 3),
        "end_scores": noise(0.2, n + 1, n + 1),
    }
    if spreads[1] > 0:
        parts["grandparent_scores"] = noise(spreads[1], *[n + 1] * 3)
        parts["grand_sibling_scores"] = noise(spreads[2], *[n + 1] * 4)
    return _whole(arcs), parts


def _whole(scores: np.ndarray) -> Tensor:
    return torch.from_numpy(np.round(SCALE * scores).astype(np.float32))
