"""Tree search on a device: our engines and public peers on the same tensors."""

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.on_device import clock
from benchmarks.on_device.contest import COLUMNS as TIMES
from benchmarks.on_device.contest import OURS, Contest
from benchmarks.on_device.peers import BEST, PEERS, Peer
from gpuparse.errors import ScoreError
from gpuparse.inference import chu_liu_edmonds, eisner, eisner_sibling

SEARCHES: dict[str, tuple[Callable[..., tuple[Tensor, ...]], tuple[bool, ...]]] = {
    "eisner": (eisner, (False, True)),
    "chu_liu_edmonds": (chu_liu_edmonds, (False, True)),
    "eisner_sibling": (eisner_sibling, (False,)),
}
TITLE = "Tree search on a device"
COLUMNS = TIMES
N, BATCH = 25, 1024  # where only the other one varies
WORDS = {2: (10, 25, 50, 100), 3: (10, 25, 50)}  # by dimensions of the largest scores
BATCHES = (64, 256, 1024, 4096, 16384)
SMALL_WORDS, SMALL_BATCHES = (2, 4), (1, 3)
LARGEST = 1 << 33  # bytes of one input


def run(options: argparse.Namespace, contest: Contest) -> None:
    """Time everyone, after checking that values agree."""
    for peer in PEERS:
        if not peer.is_installed:
            contest.note(f"{peer.name} left out: {peer.module} is not installed.")
    for decoder, single_root, n, batch in tasks(small=options.small):
        root = "single" if single_root else "multi"
        what = f"{decoder}, root {root}, n = {n}, batch {batch:,}"
        if not contest.is_over(what):
            with contest.attempt(what):
                _one_task(contest, decoder, single_root, n, batch)
    contest.note(
        "float32, whole-number scores; trees of our engines checked to be equal, and values of "
        "all. us per call: by the clock, the device waited for; on device us: between two events."
    )
    contest.note(
        "Inputs take turns so that none is in the cache. Peers get their own layout ready-made; "
        "those that go through sentences one by one get fewer, and the time is scaled up."
    )


def tasks(*, small: bool) -> Iterator[tuple[str, bool, int, int]]:
    """Decoder, single root, n, batch: all n at one batch size, then all batch sizes at one n."""
    seen = set()
    base = (SMALL_WORDS[-1], SMALL_BATCHES[-1]) if small else (N, BATCH)
    for by_batch in (False, True):
        for decoder, (_, roots) in SEARCHES.items():
            dimensions = _dimensions(decoder)
            words = SMALL_WORDS if small else WORDS[dimensions]
            batches = SMALL_BATCHES if small else BATCHES
            pairs = [(base[0], b) for b in batches] if by_batch else [(n, base[1]) for n in words]
            for n, batch in pairs:
                for single_root in roots if not by_batch else roots[:1]:
                    task = decoder, single_root, n, batch
                    if task not in seen and _bytes(task) <= LARGEST:
                        yield task
                    seen.add(task)


def _dimensions(decoder: str) -> int:
    return 3 if decoder == "eisner_sibling" else 2


def _bytes(task: tuple[str, bool, int, int]) -> int:
    decoder, _, n, batch = task
    return 4 * batch * (n + 1) ** _dimensions(decoder)


def _one_task(contest: Contest, decoder: str, single_root: bool, n: int, batch: int) -> None:
    device, search = contest.device, SEARCHES[decoder][0]
    sets = clock.sets_of(_bytes((decoder, single_root, n, batch)), device)
    inputs = [drawn(decoder, n, batch, device, seed=k) for k in range(sets)]
    find = partial(search, single_root=single_root)
    reference: tuple[Tensor, ...] | None = None
    contestants: dict[str, Any] = {}
    for engine in OURS:
        try:
            found = find(*inputs[0], engine=engine)[:2]
        except ScoreError as error:
            contest.note(f"{engine} left out: {error}.")
            continue
        except torch.cuda.OutOfMemoryError:
            torch.cuda.empty_cache()
            contest.note(f"{engine} on {decoder}, n = {n}, {batch:,}: the device has no room.")
            continue
        if reference is None:
            reference = found
        if not all(mine.equal(other) for mine, other in zip(found, reference, strict=True)):
            raise AssertionError(f"{decoder}: our engines disagree, n = {n}, batch {batch:,}")
        contestants[engine] = partial(_ours, find, inputs, engine)
    if reference is None:
        return
    for peer in PEERS:
        if single_root in peer.roots.get(decoder, ()) and peer.is_installed:
            contestants[peer.name] = partial(
                _theirs, peer, decoder, inputs, single_root, reference[1]
            )
    contest.measure((decoder, "single" if single_root else "multi", n, batch), contestants)


def drawn(
    decoder: str, n: int, batch: int, device: torch.device, *, seed: int
) -> tuple[Tensor, ...]:
    """Scores and lengths; whole numbers, whose sums are exact in any order."""
    generator = torch.Generator(device).manual_seed(seed)
    shapes = [(batch, *[n + 1] * dimensions) for dimensions in range(2, 1 + _dimensions(decoder))]
    scores = [
        torch.randint(-999, 1000, shape, generator=generator, device=device).float()
        for shape in shapes
    ]
    return *scores, torch.full((batch,), n, device=device)


def _ours(
    find: Callable[..., object], inputs: list[tuple[Tensor, ...]], engine: str
) -> tuple[list[Callable[[], object]], int]:
    return [partial(find, *each, engine=engine) for each in inputs], len(inputs[0][-1])


def _theirs(
    peer: Peer, decoder: str, inputs: list[tuple[Tensor, ...]], single_root: bool, values: Tensor
) -> tuple[list[Callable[[], object]], int]:
    """The peer's calls, on as many sentences as it is given; its values are checked first."""
    most = peer.most.get(decoder)
    several = inputs if most is None else inputs[:2]  # the others work on the host
    ready = [
        peer.make(decoder, *(part[:most] for part in each), single_root)[BEST] for each in several
    ]
    assert ready[0][1] is not None
    found = ready[0][1]().double().cpu()
    if not torch.equal(found, values[:most].double().cpu()):
        raise AssertionError(f"{peer.name} disagrees on the values of {decoder}'s trees")
    return [search for search, _ in ready], len(found)
