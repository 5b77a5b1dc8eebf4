"""Search with siblings and grandchildren: microseconds a sentence, and times the first order."""

import argparse
from functools import partial

import numpy as np
import torch

from benchmarks.registry import Report, median_times
from gpuparse.compiled import compiled
from gpuparse.inference import eisner, eisner_grandchild
from gpuparse.inference.kernels.cpu.candidates import Candidates, find_candidates
from gpuparse.inference.kernels.cpu.eisner import eisner_batch
from gpuparse.inference.kernels.cpu.eisner_grandchild import eisner_grandchild_sentence
from gpuparse.inference.kernels.cpu.grandchild_blocks import fill_grandchild_blocks

GATE = ("tests/inference/test_eisner_grandchild.py",)
WORDS = (10, 25, 50)
BATCH = 64
TIMES = 16
HEADS = 8
"""Most heads that pruning leaves a word."""


def run(options: argparse.Namespace) -> Report:
    """Time charts and public functions, after checking that the backends agree."""
    rows = []
    for n in WORDS:
        rng = np.random.default_rng(n)
        arcs, *parts = _draw(rng, BATCH, n)
        lengths = torch.full((BATCH,), n)
        batch = [torch.from_numpy(part) for part in (arcs, *parts)]
        kinds = ("sibling_scores", "inner_grandchild_scores", "outer_grandchild_scores")
        dense = dict(zip(kinds, batch[1:], strict=True))
        few = {kind: scores[:4] for kind, scores in dense.items()}
        one, other = (
            eisner_grandchild(batch[0][:4], lengths[:4], **few, backend=name)
            for name in ("cpu", "torch")
        )
        if not (one[0].equal(other[0]) and one[1].equal(other[1])):
            raise AssertionError(f"the backends disagree at n = {n}")
        heads, scores = np.empty((BATCH, n + 1), np.int64), np.empty(BATCH, np.float32)
        seconds = median_times(
            {
                "chart1": partial(eisner_batch, arcs, lengths.numpy(), False, heads, scores),
                "eisner": partial(eisner, batch[0], lengths, backend="cpu"),
                "public": partial(eisner_grandchild, batch[0], lengths, **dense, backend="cpu"),
                "dense": _chart(rng, n, n, 1),
                "pruned": _chart(rng, n, HEADS, 1),
                "labels": _chart(rng, n, HEADS, 5),
            },
            options,
        )
        sentences = {"dense": TIMES, "pruned": TIMES, "labels": TIMES}
        micro = {k: s / sentences.get(k, BATCH) * 1e6 for k, s in seconds.items()}
        rows.append(
            [
                str(n), micro["chart1"], micro["dense"], micro["dense"] / micro["chart1"],
                micro["eisner"], micro["public"], micro["public"] / micro["eisner"],
                micro["pruned"], micro["labels"],
            ]
        )  # fmt: skip
    columns = [
        "n", "eisner chart", "grandchild chart", "x", "eisner", "grandchild", "x",
        f"{HEADS} heads", f"{HEADS} heads, 5 labels",
    ]  # fmt: skip
    notes = [
        f"float32, normal random scores, {options.threads} thread(s), median of "
        f"{options.repeats} rounds.",
        "Charts: compiled, with the back-trace, from scores ready in place (blocks). eisner and",
        f"grandchild: public functions, batch {BATCH}, checks and dense scores included.",
        f"{HEADS} heads: charts where so many random heads are left to each word, the tree among",
        "them; with 5 labels an arc in the last column.",
    ]
    return Report("Search with grandchildren, microseconds a sentence", columns, rows, notes)


def _draw(rng: np.random.Generator, n_batch: int, n: int) -> list[np.ndarray]:
    shapes = [(n_batch, n + 1, n + 1)] + 3 * [(n_batch, n + 1, n + 1, n + 1)]
    return [rng.standard_normal(shape, np.float32) for shape in shapes]


def _chart(rng: np.random.Generator, n: int, most_heads: int, n_labels: int):  # type: ignore[no-untyped-def]
    """What to call to search one sentence some times over."""
    allowed = np.zeros((n + 1, n + 1), np.bool_)
    for m in range(1, n + 1):
        others = [h for h in range(n + 1) if h not in (m, m - 1)]
        # The chain of words is a tree that is always left.
        allowed[[m - 1, *rng.permutation(others)[: most_heads - 1]], m] = True
    candidates = find_candidates(allowed, n)
    parts = [rng.standard_normal((*(n + 1,) * k, n_labels), np.float32) for k in (2, 3, 3, 3)]
    blocks = fill_grandchild_blocks(candidates, *parts)
    heads, labels = np.zeros((2, n + 1), np.int64)
    return partial(_repeat, candidates, *blocks, n, heads, labels)


@compiled
def _repeat(
    candidates: Candidates,
    label_first: np.ndarray,
    sibling: np.ndarray,
    sibling_start: np.ndarray,
    inner: np.ndarray,
    inner_start: np.ndarray,
    outer: np.ndarray,
    outer_start: np.ndarray,
    n: int,
    heads: np.ndarray,
    labels: np.ndarray,
) -> None:
    for _ in range(TIMES):
        eisner_grandchild_sentence(
            candidates, label_first, sibling, sibling_start, inner, inner_start, outer, outer_start,
            n, False, heads, labels,
        )  # fmt: skip
