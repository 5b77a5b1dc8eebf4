"""Projective search beyond the second order: microseconds per sentence, and times first order."""

import argparse
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from benchmarks.registry import Report, median_times
from gpuparse.inference import DECODERS, eisner, eisner_grandchild_labelled

GATE = ("tests/inference/test_third_order.py", "tests/inference/test_eisner_grandchild.py")
WORDS = (10, 25, 40)
HEADS = (None, 8, 4)
"""Candidates for the head of a word; None: all."""
LABELS = 5
CELLS = 6_000_000
"""Most scores of one part kind in a batch."""
LABELLED = f"grandchild, {LABELS} labels"
AXES = dict.fromkeys(("grand_sibling", "tri_sibling", "outermost"), 4) | dict.fromkeys(
    ("sibling", "grandparent", "inner_grandchild", "outer_grandchild"), 3
) | {"end": 2}  # fmt: skip
"""Words of the parts that decoders read scores of."""
CHILDREN = ("sibling_scores", "inner_grandchild_scores", "outer_grandchild_scores")


def run(options: argparse.Namespace) -> Report:
    """Time public functions."""
    rows = []
    for n in WORDS:
        n_batch = max(1, min(64, CELLS // (n + 1) ** 4))
        rng = np.random.default_rng(n)
        parts = {words: _draw(rng, n_batch, n, words) for words in (2, 3, 4)}
        with_labels = _draw(rng, n_batch, n, 3)[..., None].expand(-1, -1, -1, -1, LABELS)
        lengths = torch.full((n_batch,), n)
        for k in HEADS:
            arcs = _prune(rng, parts[2], k)
            searches: dict[str, Any] = {"eisner": eisner}
            for name, decoder in DECODERS.items():
                if decoder.is_higher_order and decoder.is_projective:
                    scores = {f"{field}_scores": parts[AXES[field]] for field in decoder.reads}
                    searches[name] = partial(decoder.function(), **scores)
            searches[LABELLED] = partial(
                eisner_grandchild_labelled, **dict.fromkeys(CHILDREN, with_labels.contiguous())
            )
            calls = {}
            for name, search in searches.items():
                of_arcs = arcs[..., None].expand(-1, -1, -1, LABELS) if name == LABELLED else arcs
                calls[name] = partial(search, of_arcs, lengths)
            seconds = median_times(calls, options)
            micro = {name: time / n_batch * 1e6 for name, time in seconds.items()}
            rows.append([str(n), "all" if k is None else str(k), *micro.values()])
    columns = ["n", "heads", *searches]
    notes = [
        f"float32, normal random scores, {options.threads} thread(s), median of {options.repeats} "
        "rounds; public functions in native code, checks and dense scores of all parts included.",
    ]
    return Report("Higher-order search, microseconds per sentence", columns, rows, notes)


def _draw(rng: np.random.Generator, n_batch: int, n: int, words: int) -> Tensor:
    return torch.from_numpy(rng.standard_normal((n_batch, *[n + 1] * words), np.float32))


def _prune(rng: np.random.Generator, arcs: Tensor, k: int | None) -> Tensor:
    """Scores of k heads of each word at random, the word before it among them; -inf for others."""
    if k is None:
        return arcs
    order = rng.random(arcs.shape)
    n = arcs.shape[1] - 1
    order[:, np.arange(n), np.arange(1, n + 1)] = -1
    order[:, np.arange(n + 1), np.arange(n + 1)] = 2
    return arcs.masked_fill(torch.from_numpy(order.argsort(1).argsort(1) >= k), -torch.inf)
