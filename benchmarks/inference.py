"""Best trees, sums and samples on a CPU beside torch-struct, SuPar's structs and ufal's search.

    python -m benchmarks --threads 1 --repeats 3 inference --sentences 32 256

Random float32 scores of sentences of 10 to 60 words, any number of root words. Each call makes a
new distribution. `compiled in`: seconds until torch.compile(fullgraph=True) has the first gradient.
"""

import argparse
import sys
import time
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor

from benchmarks.on_device.peers import (
    BEST,
    ENTROPY,
    MARGINALS,
    PEERS,
    SAMPLE,
    SEVERAL,
    SUM,
    Call,
    Calls,
    K,
    gradient,
    squares,
)
from benchmarks.registry import Report, median_times
from gpuparse.errors import one_line
from gpuparse.inference import DECODERS, NonProjectiveTrees, ProjectiveTrees

GATE = ("tests/inference/test_sums.py", "tests/inference/test_peers.py")
OURS = "gpuparse"
SUMMED = ("eisner", "eisner_sibling", "chu_liu_edmonds")
SHORTEST, LONGEST = 10, 60
CLOSE = 1e-3  # relative error of float32 sums that go through 60 words
SLOW = 3.0  # seconds of a call that counts alone


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--sentences", type=int, nargs="+", default=[32], metavar="B")


def run(options: argparse.Namespace) -> Report:
    """Milliseconds of ours, and how many times as long each peer takes."""
    peers = [peer for peer in PEERS if peer.is_installed]
    notes = [f"{peer.name} is not installed." for peer in PEERS if peer not in peers]
    rows: list[list[object]] = []
    for decoder in SUMMED:
        for n in options.sentences:
            scores = drawn(decoder, n)
            theirs = {peer.name: peer.make(decoder, *scores, False) for peer in peers}
            for quantity, ours in _ours(decoder, *scores).items():
                print(f"{decoder}, {n} sentences, {quantity}", file=sys.stderr)
                known = {name: of[quantity] for name, of in theirs.items() if quantity in of}
                seconds, faults = _seconds(ours, known, options)
                notes += [f"{name}, {decoder}, {quantity}: {what}." for name, what in faults]
                found = [seconds.get(peer.name) for peer in PEERS]
                times = [each / seconds[OURS] if each else None for each in found]
                rows.append([decoder, n, quantity, 1e3 * seconds[OURS], *times])
    columns = ["trees of", "sentences", "quantity", "ms", *(f"{peer.name} x" for peer in PEERS)]
    return Report("Trees of sentences of 10 to 60 words", columns, rows, list(dict.fromkeys(notes)))


def _seconds(
    ours: Call, theirs: dict[str, Call], options: argparse.Namespace
) -> tuple[dict[str, float], list[tuple[str, str]]]:
    """Seconds of one call of all that work, by name; the peers that fail or differ, and how."""
    calls, once, faults = {OURS: ours[0]}, {}, []
    for name, (call, number) in theirs.items():
        try:
            began = time.thread_time()
            call()
            once[name] = time.thread_time() - began
            off = _distance(ours[1], number)
        except (AttributeError, RuntimeError, NotImplementedError) as error:
            faults.append((name, one_line(error)))
            continue
        if once[name] < SLOW:
            calls[name] = call
        if off > CLOSE:
            faults.append((name, f"{100 * off:.2g} % off"))
    return once | median_times(calls, options), faults


def _distance(ours: Callable[[], Tensor] | None, theirs: Callable[[], Tensor] | None) -> float:
    """The largest relative difference of a peer's numbers from ours."""
    if ours is None or theirs is None:
        return 0.0
    right = ours().double()
    return ((theirs().detach().double() - right).abs() / right.abs().clamp(min=1)).max().item()


def drawn(decoder: str, n: int) -> tuple[Tensor, ...]:
    """Arcs (B, N, N), perhaps siblings (B, N, N, N), lengths (B,)."""
    torch.manual_seed(0)
    lengths = torch.randint(SHORTEST, LONGEST + 1, (n,))
    lengths[0] = LONGEST
    shapes = [(n, *[LONGEST + 1] * axes) for axes in range(2, DECODERS[decoder].order + 2)]
    return *(torch.randn(shape) for shape in shapes), lengths


def _ours(decoder: str, *given: Tensor) -> Calls:
    *scores, lengths = given
    leaves = [each.clone().requires_grad_() for each in scores]
    of = ProjectiveTrees if DECODERS[decoder].is_projective else NonProjectiveTrees

    def trees(arcs: Tensor, *more: Tensor) -> Any:
        return of(arcs, lengths, **dict(zip(("sibling_scores",), more, strict=False)))

    def value(*leaves: Tensor) -> Tensor:
        return trees(*leaves).log_partition

    def compute() -> tuple[Tensor, ...]:
        return gradient(compiled(*leaves), leaves)

    compiled = torch.compile(value, fullgraph=True)
    began = time.perf_counter()
    compute()
    seconds = time.perf_counter() - began
    return {
        BEST: (lambda: trees(*scores).best(), lambda: trees(*scores).best().scores),
        SUM: (lambda: gradient(value(*leaves), leaves), lambda: value(*scores)),
        f"{SUM}, compiled in {seconds:.1f} s": (compute, None),
        MARGINALS: (lambda: trees(*scores).marginals, lambda: squares(trees(*scores).marginals)),
        ENTROPY: (lambda: trees(*scores).entropy, lambda: trees(*scores).entropy),
        SEVERAL: (lambda: trees(*scores).k_best(K), lambda: trees(*scores).k_best(K)[1].sum(1)),
        SAMPLE: (lambda: trees(*scores).sample(1, seed=1), None),
    }
