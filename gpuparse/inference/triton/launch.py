"""Common code of Triton's kernels of tree search: their launch, their scratch, the sum of a tree.

One program searches one sentence after another: programs are as many as the multiprocessors can
hold with their charts in the caches, and every program has scratch of its own. What its threads
write there and others of them read is separated by barriers.
"""

from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple

import torch
import triton
import triton.language as tl

from gpuparse.errors import ScoreError
from gpuparse.inference.engines import MOST_NODES
from gpuparse.inference.search import NO_HEAD

WARP = 32
MOST_LANES = 128  # of a program that fills charts
MOST_PROGRAMS = 32  # that a multiprocessor holds
CACHE_BYTES = 2**18  # of a multiprocessor, level 1
MOST_BYTES = 2**31  # of all scratch that is read again and again


def row_length(n_nodes: int) -> int:
    """Elements between two rows of a chart: whole cache lines."""
    return triton.cdiv(n_nodes, WARP) * WARP


def count_programs(n_batch: int, bytes_each: int, device: torch.device) -> int:
    """Programs of a launch.

    Args: bytes_each: of the scratch that a program reads again and again.
    """
    if device.type != "cuda":
        return min(n_batch, 2)
    each = min(MOST_PROGRAMS, max(2, CACHE_BYTES // bytes_each))
    programs = each * torch.cuda.get_device_properties(device).multi_processor_count
    return min(n_batch, programs, max(1, MOST_BYTES // bytes_each))


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA device the one on which Triton launches."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def require_countable(n_nodes: int) -> None:
    """Raise ScoreError for more positions than the kernels can count."""
    if n_nodes > MOST_NODES:
        raise ScoreError(
            f"engine 'triton' searches sentences of up to {MOST_NODES - 1} words, there is room for"
            f" {n_nodes - 1}; use 'torch'"
        )


def new_trees(arc_scores: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Heads (B, N) and scores float64 (B,) for a kernel to fill, or whole where there is no word.

    Raises: ScoreError: as `require_countable`.
    """
    n_batch, n_nodes = arc_scores.shape[:2]
    require_countable(n_nodes)
    heads = torch.full((n_batch, n_nodes), NO_HEAD, device=arc_scores.device)
    return heads, arc_scores.new_zeros(n_batch, dtype=torch.float64)


class ChartScratch(NamedTuple):
    """The memory in which programs fill charts, and their launch."""

    charts: torch.Tensor  # (programs, N x planes x STRIDE, and STRIDE for each part of a score)
    splits: torch.Tensor  # (programs, N x split planes x STRIDE) int16
    n_programs: int
    stride: int
    lanes: int


def chart_scratch(
    scores: torch.Tensor, planes: int, split_planes: int, parts: int, lanes: int | None
) -> ChartScratch:
    """Scratch for sentences under scores (B, N, N).

    Args:
        planes, split_planes: kinds of charts, and of splits and marks.
        parts: of the score of a tree, to each word.
        lanes: starts that a program looks at at once; None: as many as suit N.
    """
    n_batch, n_nodes = scores.shape[:2]
    stride = row_length(n_nodes)
    n_cells = n_nodes * planes * stride
    n_programs = count_programs(n_batch, n_cells * scores.itemsize, scores.device)
    of_splits = n_programs, n_nodes * split_planes * stride
    return ChartScratch(
        scores.new_empty((n_programs, n_cells + parts * stride)),
        torch.empty(of_splits, dtype=torch.int16, device=scores.device),
        n_programs,
        stride,
        lanes or min(MOST_LANES, triton.next_power_of_2(stride)),
    )


@triton.jit
def add_in_order(
    parts: tl.tensor, n: tl.tensor, PARTS: tl.constexpr = 1, STRIDE: tl.constexpr = 0
) -> tl.tensor:
    """The parts of words 1, 2, ..., n, added from the left in float64, from any type.

    parts: of word m, parts[m], parts[STRIDE + m], ...
    """
    total = tl.zeros((), tl.float64)
    for m in tl.range(1, n + 1, loop_unroll_factor=4):
        for p in tl.static_range(PARTS):
            total += tl.load(parts + p * STRIDE + m).to(tl.float64)
    return total
