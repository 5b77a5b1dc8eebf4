"""Sums over projective trees, batches of 64 sentences: microseconds per sentence; and a peer."""

import argparse
import importlib
import warnings
from functools import partial

import torch
from torch import Tensor

from benchmarks.kernels import Search, is_installed
from benchmarks.registry import Report, median_times
from gpuparse.inference import (
    eisner_entropy,
    eisner_marginals,
    eisner_sample,
    eisner_sibling_marginals,
)

GATE = ("tests/inference/test_sums.py",)
WORDS = (10, 25, 50)
BATCH = 64
FAR = 1e3
"""Scores so far apart that probabilities underflow, and sums are made of logarithms."""
SAMPLES = 10


def run(options: argparse.Namespace) -> Report:
    """Time marginals, entropy and samples, after checking that all forms agree."""
    warnings.filterwarnings("ignore", ".*arg_constraints")
    has_peer, rows = is_installed("torch_struct"), []
    for n in WORDS:
        generator = torch.Generator().manual_seed(n)
        arcs = torch.randn(BATCH, n + 1, n + 1, generator=generator)
        siblings = torch.randn(BATCH, n + 1, n + 1, n + 1, generator=generator)
        lengths = torch.full((BATCH,), n)
        _require_agreement(arcs, siblings, lengths)
        _require_agreement(FAR * arcs, siblings, lengths)
        contestants: dict[str, Search] = {
            "cpu": partial(eisner_marginals, arcs, lengths, backend="cpu"),
            "logarithms": partial(eisner_marginals, FAR * arcs, lengths, backend="cpu"),
            "torch": partial(eisner_marginals, arcs, lengths, backend="torch"),
            "entropy": partial(eisner_entropy, arcs, lengths, backend="cpu"),
            "samples": partial(eisner_sample, arcs, lengths, SAMPLES, generator),
            "sibling": partial(eisner_sibling_marginals, arcs, siblings, lengths, backend="cpu"),
            "sibling torch": partial(
                eisner_sibling_marginals, arcs, siblings, lengths, backend="torch"
            ),
        }
        if has_peer:
            contestants["peer"], theirs = _torch_struct_marginals(arcs, lengths)
            ours = eisner_marginals(arcs, lengths)
            torch.testing.assert_close(ours.float(), theirs, rtol=0, atol=1e-4)
        seconds = median_times(contestants, options)
        micro = {name: time / BATCH * 1e6 for name, time in seconds.items()}
        peer = micro.get("peer")
        rows.append(
            [
                str(n), micro["cpu"], micro["logarithms"], micro["torch"], peer,
                peer / micro["cpu"] if peer else None, peer / micro["torch"] if peer else None,
                micro["entropy"], micro["samples"], micro["sibling"], micro["sibling torch"],
            ]
        )  # fmt: skip
    columns = [
        "n", "marginals cpu", "logarithms", "torch", "peer", "x cpu", "x torch", "entropy",
        f"{SAMPLES} samples", "sibling", "sibling torch",
    ]  # fmt: skip
    notes = [
        f"float32 in, normal random scores, batch {BATCH}, {options.threads} thread(s); median of "
        f"{options.repeats} rounds. Multi root; checks of the scores included.",
        f"logarithms: compiled marginals of scores {FAR:,.0f} times as far apart.",
        "peer: torch-struct's DependencyCRF, marginals, in float32.",
    ]
    if not has_peer:
        notes.append("The peer is left out: torch_struct is not installed.")
    return Report("Sums over projective trees, microseconds per sentence", columns, rows, notes)


def _require_agreement(arcs: Tensor, siblings: Tensor, lengths: Tensor) -> None:
    """Raise if the compiled and the torch form differ."""
    for marginals in (
        partial(eisner_marginals, arcs, lengths),
        partial(eisner_sibling_marginals, arcs, siblings, lengths),
    ):
        compiled, batched = marginals(backend="cpu"), marginals(backend="torch")
        torch.testing.assert_close(compiled, batched, rtol=0, atol=1e-9)


def _torch_struct_marginals(arc_scores: Tensor, lengths: Tensor) -> tuple[Search, Tensor]:
    """Its layout: no row for the root, whose arcs stand on the diagonal; and ours of its result."""
    peer = importlib.import_module("torch_struct")
    theirs = arc_scores[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arc_scores[:, 0, 1:])
    # Release 0.5 fails on scores that do not require gradients.
    theirs.requires_grad_()

    def search() -> Tensor:
        return peer.DependencyCRF(theirs, lengths).marginals.detach()

    found = search()
    marginals = torch.zeros_like(arc_scores)
    marginals[:, 0, 1:] = found.diagonal(dim1=1, dim2=2)
    marginals[:, 1:, 1:] = found - torch.diag_embed(found.diagonal(dim1=1, dim2=2))
    return search, marginals
