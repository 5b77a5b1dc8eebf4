"""Times on a device: warm, synchronised, over inputs that its cache does not hold."""

import math
import statistics
import time
from collections.abc import Callable, Sequence

import torch

ROUNDS = 5
SECONDS = 0.1  # of a round
MOST_CALLS = 640  # in a round
CACHE = 50 * 2**20  # bytes, where the device does not say
MOST_SETS = 640  # so that small batches too are out of the cache when their turn comes


def synchronize(device: torch.device) -> None:
    """Wait until the device has done all that it was given."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)


def sets_of(bytes_of_one: int, device: torch.device) -> int:
    """The number of inputs of that size with which none is cached when its turn comes."""
    if device.type != "cuda":
        return 2
    cache = getattr(torch.cuda.get_device_properties(device), "L2_cache_size", CACHE) or CACHE
    free, _ = torch.cuda.mem_get_info(device)
    wanted = 1 + math.ceil(2 * cache / bytes_of_one)
    fitting = max(1, free // 8 // bytes_of_one)
    return max(1, min(wanted, fitting, MOST_SETS))


def seconds_of_a_call(
    calls: Sequence[Callable[[], object]], device: torch.device, *, seconds: float = SECONDS
) -> float:
    """Median over rounds of calls in turn, each round closed by a wait for the device.

    One call, the second, counts alone where it takes longer than a round.

    Args:
        calls: the same work on different inputs.
        device: where the work is done.
        seconds: a round takes about so long.
    Cost: `ROUNDS` rounds and two calls.
    """
    calls[0]()
    synchronize(device)
    begin = time.perf_counter()
    calls[1 % len(calls)]()
    synchronize(device)
    once = time.perf_counter() - begin
    if once > seconds:
        return once
    count = min(MOST_CALLS, max(1, round(seconds / max(once, 1e-7))))
    rounds = []
    for _ in range(ROUNDS):
        begin = time.perf_counter()
        for k in range(count):
            calls[k % len(calls)]()
        synchronize(device)
        rounds.append((time.perf_counter() - begin) / count)
    return statistics.median(rounds)


def device_seconds_of_a_call(
    calls: Sequence[Callable[[], object]], device: torch.device, *, about: float
) -> float | None:
    """Median time between two events around a call, None off CUDA.

    Args:
        about: seconds that a call takes, as `seconds_of_a_call` found.
    """
    if device.type != "cuda":
        return None
    pairs = []
    for k in range(min(MOST_CALLS, max(3, round(SECONDS / about)))):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        calls[k % len(calls)]()
        end.record()
        pairs.append((begin, end))
    synchronize(device)
    return statistics.median(begin.elapsed_time(end) for begin, end in pairs) / 1000
