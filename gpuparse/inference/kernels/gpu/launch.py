"""What Triton's kernels of tree search share: their launch, their scratch, the sum of a tree.

One program searches one sentence after another: programs are as many as the multiprocessors can
hold with their charts in the caches, and every program has scratch of its own. What its threads
write there and others of them read is separated by barriers.
"""

from contextlib import AbstractContextManager, nullcontext

import torch
import triton
import triton.language as tl

from gpuparse.errors import ScoreError

WARP = 32
MOST_PROGRAMS = 32  # that a multiprocessor holds
CACHE_BYTES = 2**18  # of a multiprocessor, level 1
MOST_BYTES = 2**31  # of all scratch that is read again and again
MOST_NODES = 2**13  # so that cells of a program's scratch are counted in 32 bits


def row_length(n_nodes: int) -> int:
    """Elements between two rows of a chart: whole cache lines."""
    return triton.cdiv(n_nodes, WARP) * WARP


def count_programs(n_batch: int, bytes_each: int, device: torch.device) -> int:
    """Programs of a launch.

    Args:
        bytes_each: of the scratch that a program reads again and again.
    """
    if device.type != "cuda":
        return min(n_batch, 2)
    each = min(MOST_PROGRAMS, max(2, CACHE_BYTES // bytes_each))
    programs = each * torch.cuda.get_device_properties(device).multi_processor_count
    return min(n_batch, programs, max(1, MOST_BYTES // bytes_each))


def on_device(device: torch.device) -> AbstractContextManager[object]:
    """Make a CUDA device the one on which Triton launches."""
    return torch.cuda.device(device) if device.type == "cuda" else nullcontext()


def as_laid_out(*tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """The tensors as kernels count their cells: row after row. Parts of larger ones are copied."""
    return tuple(tensor.contiguous() for tensor in tensors)


def require_size(n_nodes: int) -> None:
    """Raise ScoreError for more positions than the kernels can count."""
    if n_nodes > MOST_NODES:
        raise ScoreError(
            f"backend 'gpu' searches sentences of up to {MOST_NODES - 1} words, there is room for "
            f"{n_nodes - 1}; use 'torch'"
        )


@triton.jit
def fill_heads(heads: tl.tensor, n_nodes: tl.tensor, BLOCK: tl.constexpr) -> None:
    """heads[0:n_nodes] = -1, the mark for no head."""
    for start in range(0, n_nodes, BLOCK):
        m = start + tl.arange(0, BLOCK)
        tl.store(heads + m, -1, mask=m < n_nodes)


@triton.jit
def add_in_order(parts: tl.tensor, n: tl.tensor) -> tl.tensor:
    """parts[1] + parts[2] + ... + parts[n], added from the left: float sums depend on the order."""
    total = tl.zeros((), parts.dtype.element_ty)
    for m in tl.range(1, n + 1, loop_unroll_factor=4):
        total += tl.load(parts + m)
    return total
