"""Losses with their gradients, and the check of the gold trees: microseconds per sentence."""

import argparse
from functools import partial

import torch
from torch import Tensor

from benchmarks.registry import Report, median_times
from gpuparse.inference import NonProjectiveTrees, ProjectiveTrees, conditional_loss, hinge_loss

GATE = ("tests/inference/test_support.py", "tests/inference/test_distributions.py")
BATCH = 32
SIZES = (10, 25, 50)
COLUMNS = ["loss", "trees", "n", "loss us", "check us", "check %"]


def run(options: argparse.Namespace) -> Report:
    """Time each loss with its gradient, and what it takes to check the gold trees alone."""
    notes = [
        f"float32, normal random scores, gold trees drawn by their probability; batch {BATCH},"
        f" {options.threads} thread(s); median of {options.repeats} rounds.",
        "loss: of new scores, with the gradient; the check is a part of it.",
    ]
    rows = [row for n in SIZES for row in _rows(n, options)]
    return Report("Losses, microseconds per sentence", COLUMNS, rows, notes)


def _rows(n: int, options: argparse.Namespace) -> list[list[object]]:
    scores = torch.randn(BATCH, n + 1, n + 1, generator=torch.Generator().manual_seed(n))
    rows: list[list[object]] = []
    for made in (ProjectiveTrees, NonProjectiveTrees):
        gold = made(scores, single_root=True).sample(1, seed=1)[:, 0]

        def learn(loss_of, made=made, gold=gold) -> Tensor:
            leaf = scores.clone().requires_grad_()
            loss = loss_of(made(leaf, single_root=True), gold).sum()
            return torch.autograd.grad(loss, leaf)[0]

        trees = made(scores, single_root=True)
        seconds = median_times(
            {
                "conditional": partial(learn, conditional_loss),
                "hinge": partial(learn, hinge_loss),
                "check": partial(trees.reachable, gold, "error"),
            },
            options,
        )
        check = seconds["check"] / BATCH * 1e6
        for name in ("conditional", "hinge"):
            micro = seconds[name] / BATCH * 1e6
            rows.append([name, made.kind, n, micro, check, 100 * check / micro])
    return rows
