"""Tree search of a batch of 64 sentences: microseconds per sentence, ours and public peers."""

import argparse
import importlib
import warnings
from collections.abc import Callable
from types import ModuleType

import numpy as np
import torch
from torch import Tensor

from benchmarks.registry import Report, median_times
from gpuparse.inference import chu_liu_edmonds, eisner

GATE = ("tests/inference/test_ladder.py",)
WORDS = (10, 25, 50, 100)
BATCH = 64

Search = Callable[[], object]
Peer = Callable[[Tensor, Tensor], tuple[Search, Tensor]]
"""(scores, lengths) -> what to time, and the values (B,) of the trees it finds."""


def torch_struct_argmax(arc_scores: Tensor, lengths: Tensor) -> tuple[Search, Tensor]:
    """Its layout: no row for the root, whose arcs stand on the diagonal."""
    peer = importlib.import_module("torch_struct")
    theirs = arc_scores[:, 1:, 1:].clone()
    theirs.diagonal(dim1=1, dim2=2).copy_(arc_scores[:, 0, 1:])
    # Release 0.5 fails on scores that do not require gradients.
    theirs.requires_grad_()

    def search() -> Tensor:
        return peer.DependencyCRF(theirs, lengths).argmax

    return search, (search() * theirs).detach().sum((1, 2))


def ufal_chu_liu_edmonds(arc_scores: Tensor, lengths: Tensor) -> tuple[Search, Tensor]:
    """One sentence a call; rows are modifiers, columns heads, float64."""
    peer = importlib.import_module("ufal.chu_liu_edmonds").chu_liu_edmonds
    theirs = [np.ascontiguousarray(matrix.T) for matrix in arc_scores.double().numpy()]

    def search() -> list[tuple[list[int], float]]:
        return [peer(matrix) for matrix in theirs]

    return search, torch.tensor([value for _, value in search()])


CONTESTS: list[tuple[str, Callable[..., tuple[Tensor, Tensor]], bool, str, str, Peer]] = [
    ("eisner", eisner, False, "torch_struct", "torch-struct argmax", torch_struct_argmax),
    ("eisner", eisner, True, "", "", torch_struct_argmax),
    (
        "chu_liu_edmonds", chu_liu_edmonds, False,
        "ufal.chu_liu_edmonds", "ufal.chu-liu-edmonds", ufal_chu_liu_edmonds,
    ),
    ("chu_liu_edmonds", chu_liu_edmonds, True, "", "", ufal_chu_liu_edmonds),
]  # fmt: skip
"""Decoder, single root, and the peer for it: module, name, adapter."""


def run(options: argparse.Namespace) -> Report:
    """Time both backends and the peer on the same scores, after checking that values agree."""
    warnings.filterwarnings("ignore", ".*arg_constraints")
    rows, notes = (
        [],
        [
            f"float32, normal random scores, batch {BATCH}, {options.threads} thread(s); median of "
            f"{options.repeats} rounds of "
            + ("CPU time." if options.threads == 1 else "time on the clock."),
            "Peers get their own layout ready-made; ours are timed through the public function.",
        ],
    )
    for name, decoder, single_root, module, peer_name, peer in CONTESTS:
        has_peer = bool(module) and is_installed(module)
        if module and not has_peer:
            notes.append(f"{peer_name} left out: {module} is not installed.")
        for n in WORDS:
            generator = torch.Generator().manual_seed(n)
            arcs = torch.randn(BATCH, n + 1, n + 1, generator=generator)
            lengths = torch.full((BATCH,), n)
            contestants: dict[str, Search] = {}
            for backend in ("cpu", "torch"):
                contestants[backend] = _bind(decoder, arcs, lengths, single_root, backend)
            heads, values = decoder(arcs, lengths, single_root=single_root, backend="cpu")
            again = decoder(arcs, lengths, single_root=single_root, backend="torch")
            if not (heads.equal(again[0]) and values.equal(again[1])):
                raise AssertionError(f"{name}: the backends disagree at n = {n}")
            if has_peer:
                contestants["peer"], theirs = peer(arcs, lengths)
                torch.testing.assert_close(values.double(), theirs.double(), rtol=1e-5, atol=1e-4)
            seconds = median_times(contestants, options)
            cpu, on_torch = (seconds[b] / BATCH * 1e6 for b in ("cpu", "torch"))
            other = seconds["peer"] / BATCH * 1e6 if has_peer else None
            ratios = [other / x if other else None for x in (cpu, on_torch)]
            root = "single" if single_root else "multi"
            rows.append([name, root, n, cpu, on_torch, other, *ratios, peer_name])
    columns = ["decoder", "root", "n", "cpu us", "torch us", "peer us", "x cpu", "x torch", "peer"]
    return Report("Tree search, microseconds per sentence", columns, rows, notes)


def _bind(
    decoder: Callable[..., tuple[Tensor, Tensor]],
    arcs: Tensor,
    lengths: Tensor,
    single_root: bool,
    backend: str,
) -> Search:
    return lambda: decoder(arcs, lengths, single_root=single_root, backend=backend)


def is_installed(module: str) -> bool:
    try:
        found: ModuleType | None = importlib.import_module(module)
    except ImportError:
        found = None
    return found is not None
