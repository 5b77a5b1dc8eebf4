"""The k best projective trees of a batch of 64 sentences: microseconds per sentence; a peer's."""

import argparse
import importlib
import time
import warnings
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.kernels import Search, is_installed
from benchmarks.kernels_sibling import CLASSES, scores_of
from benchmarks.registry import Report, median_times
from gpuparse.inference import eisner, eisner_kbest, eisner_sibling_kbest
from gpuparse.inference.textbook import projective

GATE = ("tests/inference/test_kbest.py",)
WORDS = (10, 25, 50)
RANKS = (1, 2, 5, 10, 20)
BATCH = 64
PEER_RANKS = {1, 2, 5}
"""The peer's time grows with the square of k."""
IN_TEXTBOOK = 2
"""Sentences of each batch that the textbook loops are run on."""


def run(options: argparse.Namespace) -> Report:
    """Time all forms on the same scores, after checking that the scores of their trees agree."""
    warnings.filterwarnings("ignore", ".*arg_constraints")
    has_peer = is_installed("torch_struct")
    rows = []
    for n in WORDS:
        arcs, siblings = scores_of(n, CLASSES[n])
        lengths = torch.full((BATCH,), n)
        batch = torch.from_numpy(arcs), torch.from_numpy(siblings), lengths
        for k in RANKS:
            contestants: dict[str, Search] = {
                "eisner": partial(eisner, batch[0], lengths),
                "first": partial(eisner_kbest, batch[0], lengths, k),
                "second": partial(eisner_sibling_kbest, *batch, k),
            }
            _, values = eisner_kbest(batch[0], lengths, k)
            textbook = _check_textbook(arcs, k, values)
            if has_peer and k in PEER_RANKS:
                contestants["peer"], theirs = _torch_struct_topk(batch[0], lengths, k)
                torch.testing.assert_close(values, theirs, rtol=1e-5, atol=1e-2)
            seconds = median_times(contestants, options)
            micro = {name: time / BATCH * 1e6 for name, time in seconds.items()}
            peer, first = micro.get("peer"), micro["first"]
            rows.append(
                [
                    str(n), k, micro["eisner"], first, peer, peer / first if peer else None,
                    textbook, micro["second"],
                ]
            )  # fmt: skip
    columns = [
        "n", "k", "eisner", "k-best", "torch-struct", "x", "textbook", "sibling k-best",
    ]  # fmt: skip
    notes = [
        f"float32, batch {BATCH}, {options.threads} thread(s), median of {options.repeats} rounds.",
        "k-best, sibling k-best: public functions, checks included. torch-struct: topk, its own "
        f"layout ready-made, up to k = {max(PEER_RANKS)}.",
        f"textbook: the loops of the first order, once, on {IN_TEXTBOOK} sentences.",
    ]
    if not has_peer:
        notes.append("torch-struct left out: it is not installed.")
    return Report("The k best projective trees, microseconds per sentence", columns, rows, notes)


def _check_textbook(arcs: np.ndarray, k: int, values: Tensor) -> float:
    """Microseconds per sentence of the textbook loops, whose scores must be those."""
    begin = time.thread_time()
    found = [projective.eisner_kbest(sentence, k) for sentence in arcs[:IN_TEXTBOOK]]
    seconds = time.thread_time() - begin
    for b, (_, scores) in enumerate(found):
        if [float(score) for score in scores] != values[b, : len(scores)].tolist():
            raise AssertionError(f"the textbook disagrees at k = {k}")
    return seconds / IN_TEXTBOOK * 1e6


def _torch_struct_topk(arc_scores: Tensor, lengths: Tensor, k: int) -> tuple[Search, Tensor]:
    """Its layout: no row for the root, whose arcs stand on the diagonal."""
    peer = importlib.import_module("torch_struct")
    theirs = arc_scores[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arc_scores[:, 0, 1:])
    # Release 0.5 fails on scores that do not require gradients.
    theirs.requires_grad_()

    def search() -> Tensor:
        return peer.DependencyCRF(theirs, lengths).topk(k)

    return search, (search() * theirs).detach().sum((2, 3)).T
