"""Sums over trees with crossing arcs, and k best ones: microseconds per sentence."""

import argparse
import importlib
import warnings
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.kernels import Search, is_installed
from benchmarks.registry import Report, median_times
from gpuparse.inference import (
    chu_liu_edmonds,
    chu_liu_edmonds_kbest,
    matrix_tree_log_partition,
    matrix_tree_marginals,
)
from gpuparse.inference.textbook import spanning_trees

GATE = (
    "tests/inference/test_matrix_tree.py",
    "tests/inference/test_chu_liu_edmonds_kbest.py",
)
WORDS = (10, 25, 50)
RANKS = (2, 5, 10, 20)
BATCH = 64
TEXTBOOK_WORDS, TEXTBOOK_BATCH = 25, 2  # it is slow
COLUMNS = ["what", "root", "scores", "n", "us", "other us", "x", "other"]


def run(options: argparse.Namespace) -> Report:
    """Time both on the same scores, after checking that values agree."""
    warnings.filterwarnings("ignore", ".*arg_constraints")
    has_peer = is_installed("torch_struct")
    notes = [
        f"float32, normal random scores, or 5 added to the arcs of one tree; batch {BATCH}, "
        f"{options.threads} thread(s); median of {options.repeats} rounds of "
        + ("CPU time." if options.threads == 1 else "time on the clock."),
        "Public functions; the peer gets its own layout ready-made, and ours computes in float64. "
        "Its marginals are compared with ours before, to 1e-3: it adds 1e-5 to every weight.",
        "Gradients: the log-partition and its gradient by autograd.",
    ]
    if not has_peer:
        notes.append("torch-struct left out: torch_struct is not installed.")
    rows = []
    for n in WORDS:
        for single_root in (False, True):
            rows += _sum_rows(n, single_root, options, has_peer)
    for n in WORDS:
        for single_root in (False, True):
            for kind in ("random", "near a tree"):
                rows += _kbest_rows(n, single_root, kind, options)
    return Report(
        "Sums over trees, and k best trees, microseconds per sentence", COLUMNS, rows, notes
    )


def _scores(n: int, kind: str) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(n)
    arcs = torch.randn(BATCH, n + 1, n + 1, generator=generator)
    if kind == "near a tree":
        m = torch.arange(1, n + 1)
        heads = (torch.rand(BATCH, n, generator=generator) * m).long()
        arcs[torch.arange(BATCH)[:, None], heads, m] += 5
    return arcs, torch.full((BATCH,), n)


def _sum_rows(
    n: int, single_root: bool, options: argparse.Namespace, has_peer: bool
) -> list[list[object]]:
    arcs, lengths = _scores(n, "random")
    leaf = arcs.clone().requires_grad_()

    def gradients() -> Tensor:
        total = matrix_tree_log_partition(leaf, lengths, single_root=single_root).sum()
        return torch.autograd.grad(total, leaf)[0]

    contestants: dict[str, Search] = {
        "marginals": partial(matrix_tree_marginals, arcs, lengths, single_root=single_root),
        "gradients": gradients,
    }
    if has_peer:
        crf = partial(importlib.import_module("torch_struct").NonProjectiveDependencyCRF)
        theirs = arcs[:, 1:, 1:].clone()
        theirs.diagonal(dim1=1, dim2=2).copy_(arcs[:, 0, 1:])
        theirs.requires_grad_()

        def peer_marginals() -> Tensor:
            return crf(theirs, lengths, multiroot=not single_root).marginals

        def peer_gradients() -> Tensor:
            total = crf(theirs, lengths, multiroot=not single_root).partition.sum()
            return torch.autograd.grad(total, theirs)[0]

        ours = matrix_tree_marginals(arcs, lengths, single_root=single_root).float()
        found = ours[:, 1:, 1:].clone()
        found.diagonal(dim1=1, dim2=2).copy_(ours[:, 0, 1:])
        torch.testing.assert_close(found, peer_marginals().detach(), rtol=1e-3, atol=1e-3)
        contestants |= {"peer marginals": peer_marginals, "peer gradients": peer_gradients}
    seconds = median_times(contestants, options)
    rows = []
    for what in ("marginals", "gradients"):
        time, other = seconds[what] / BATCH * 1e6, None
        if has_peer:
            other = seconds[f"peer {what}"] / BATCH * 1e6
        ratio = other / time if other else None
        root = "single" if single_root else "multi"
        rows.append([what, root, "random", n, time, other, ratio, "torch-struct"])
    return rows


def _kbest_rows(
    n: int, single_root: bool, kind: str, options: argparse.Namespace
) -> list[list[object]]:
    arcs, lengths = _scores(n, kind)
    few = arcs[:TEXTBOOK_BATCH].numpy()
    search = partial(chu_liu_edmonds_kbest, arcs, lengths, single_root=single_root)
    contestants: dict[str, Search] = {
        "1": partial(chu_liu_edmonds, arcs, lengths, single_root=single_root)
    }
    for k in RANKS:
        contestants[str(k)] = partial(search, k)
    if n <= TEXTBOOK_WORDS:
        heads, _ = search(5)

        def textbook() -> list[list[list[int]]]:
            find = spanning_trees.chu_liu_edmonds_kbest
            return [find(matrix, 5, single_root=single_root)[0] for matrix in few]

        if not np.array_equal(textbook(), heads[:TEXTBOOK_BATCH].numpy()):
            raise AssertionError(f"k best trees: the textbook disagrees at n = {n}")
    seconds = median_times(contestants, options)
    other = seconds["1"] / BATCH * 1e6
    rows: list[list[object]] = []
    for k in RANKS:
        time, root = seconds[str(k)] / BATCH * 1e6, "single" if single_root else "multi"
        rows.append([f"{k} best", root, kind, n, time, other, other / time, "our 1 best"])
        if k == 5 and n <= TEXTBOOK_WORDS:
            slow = median_times({"": textbook}, options)[""] / TEXTBOOK_BATCH * 1e6
            rows.append([f"{k} best", root, kind, n, time, slow, slow / time, "our textbook"])
    return rows
