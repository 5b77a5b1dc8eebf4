"""Second-order search of a batch of 64 sentences: microseconds per sentence, ours and a peer's."""

import argparse
import importlib
from functools import partial

import numpy as np
import torch
from torch import Tensor

from benchmarks.kernels import Search, is_installed
from benchmarks.registry import Report, median_times
from gpuparse.inference import eisner, eisner_sibling, hill_climb

GATE = ("tests/inference/test_eisner_sibling.py", "tests/inference/test_single_changes.py")
CLASSES = {10: 7, 25: 10, 50: 14}
"""Words of the sentences -> different parts of speech in them."""
BATCH = 64
CROSSING = 0.3
"""Part of the sentences in which one word is drawn to another head than the projective one."""


def run(options: argparse.Namespace) -> Report:
    """Time all forms on the same scores, after checking that their results agree."""
    rows = []
    has_peer = is_installed("supar")
    for n, n_classes in CLASSES.items():
        arcs, siblings = scores_of(n, n_classes)
        lengths = torch.full((BATCH,), n)
        batch = torch.from_numpy(arcs), torch.from_numpy(siblings), lengths
        heads, values = eisner_sibling(*batch, backend="cpu")
        again = eisner_sibling(*batch, backend="torch")
        if not (heads.equal(again[0]) and values.equal(again[1])):
            raise AssertionError(f"the backends disagree at n = {n}")
        _, _, changes = hill_climb(*batch)
        contestants: dict[str, Search] = {
            "eisner": partial(eisner, batch[0], lengths, backend="cpu"),
            "cpu": partial(eisner_sibling, *batch, backend="cpu"),
            "torch": partial(eisner_sibling, *batch, backend="torch"),
            "climb": partial(hill_climb, *batch),
        }
        if has_peer:
            contestants["peer"], theirs = _supar_argmax(*batch)
            torch.testing.assert_close(values, theirs, rtol=1e-4, atol=1e-3)
        seconds = median_times(contestants, options)
        micro = {name: time / BATCH * 1e6 for name, time in seconds.items()}
        peer = micro.get("peer")
        rows.append(
            [
                str(n), micro["eisner"], micro["cpu"],
                micro["torch"], micro["torch"] / micro["cpu"],
                peer, peer / micro["cpu"] if peer else None,
                micro["climb"] - micro["cpu"],
                changes.double().mean().item(),
            ]
        )  # fmt: skip
    columns = [
        "n", "eisner", "sibling cpu", "torch", "x torch", "SuPar", "x SuPar", "+ climb", "changes",
    ]  # fmt: skip
    notes = [
        f"float32, batch {BATCH}, {options.threads} thread(s), median of {options.repeats} rounds.",
        "eisner, sibling cpu and torch: public functions, checks included; dense sibling scores.",
        f"+ climb: what hill climbing adds; {CROSSING:.0%} of sentences have one stray arc.",
    ]
    if not has_peer:
        notes.append("SuPar left out: it is not installed.")
    return Report("Second-order search, microseconds per sentence", columns, rows, notes)


def scores_of(n: int, n_classes: int) -> tuple[np.ndarray, np.ndarray]:
    """Scores near a tree as trained ones are, of arcs and of siblings.

    Whole numbers, so that all forms find the same trees.
    """
    rng = np.random.default_rng(n)

    def draw(spread: float, *shape: int) -> np.ndarray:
        return np.round(spread * rng.standard_normal((BATCH, *shape))).astype(np.float32)

    arcs = draw(1000, n + 1, n + 1) - 2000
    liked, _ = eisner(torch.from_numpy(arcs), torch.full((BATCH,), n))
    sentence, word = np.arange(BATCH)[:, None], np.arange(1, n + 1)
    arcs[sentence, liked[:, 1:].numpy(), word] += 5000
    for b in np.flatnonzero(rng.random(BATCH) < CROSSING):
        arcs[b, rng.integers(0, n + 1), rng.integers(1, n + 1)] += 9000
    first, pair = draw(500, n + 1, n + 1), draw(500, n + 1, n + 1)
    # One table of all three classes for either direction, as if of parts of speech.
    width = (n_classes - 1).bit_length()
    table = draw(500, 2 << 3 * width)
    classes = rng.integers(0, n_classes, (BATCH, n + 1))
    places = np.stack([classes << role * width for role in range(3)], 1)[:, :, None]
    gaps = (np.arange(2 * n + 3) > n + 1).astype(np.int64)[None] << 3 * width
    h, m, s = np.ogrid[: n + 1, : n + 1, : n + 1]
    cells = places[:, 0, 0, :, None, None] ^ places[:, 2, 0, None, :, None]
    cells = cells ^ places[:, 1, 0, None, None, :] ^ gaps[0, n + 1 + m - s]
    of_three = np.take_along_axis(table, cells.reshape(BATCH, -1), 1).reshape(cells.shape)
    siblings = pair.transpose(0, 2, 1)[:, None] + of_three
    return arcs, np.where(s == h, first[:, :, :, None], siblings)


def _supar_argmax(
    arc_scores: Tensor, sibling_scores: Tensor, lengths: Tensor
) -> tuple[Search, Tensor]:
    """Its layout: modifiers first; it has no score of a modifier without a sibling."""
    peer = importlib.import_module("supar.structs.tree").Dependency2oCRF
    nodes = torch.arange(arc_scores.shape[1])
    alone = sibling_scores[:, nodes, :, nodes].transpose(0, 1)
    # Where there is no sibling its score is that of the arc alone, which all others have to lose.
    theirs = (
        (arc_scores + alone).mT.contiguous(),
        (sibling_scores - alone[..., None]).transpose(1, 2).contiguous(),
    )

    def search() -> Tensor:
        return peer(theirs, lengths, multiroot=True).argmax

    return search, peer(theirs, lengths, multiroot=True).max.detach()
