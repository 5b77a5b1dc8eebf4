"""Functions of batches as operations of torch, for code that is traced or transformed."""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from gpuparse.inference.engines import is_traced

Kernel = Callable[..., list[Tensor]]


def operation(shapes: Kernel) -> Callable[[Kernel], Kernel]:
    """Make a function one operation of torch.compile, torch.export and torch.func.

    Elsewhere the function is called as it is. An operation has no derivatives.

    Args: shapes: empty tensors like the results of the function, for the same arguments.
        The first dimension of all tensors, arguments and results, is the batch; vmap adds its own
        to that.
    """

    def made(kernel: Kernel) -> Kernel:
        operator = torch.library.custom_op(f"gpuparse::{kernel.__name__}", kernel, mutates_args=())
        operator.register_fake(shapes)
        operator.register_vmap(partial(_call_folded, operator))
        return lambda *arguments: (operator if is_traced() else kernel)(*arguments)

    return made


def _call_folded(operator: Kernel, info: Any, dims: Any, *arguments: Any) -> Any:
    """One call for all elements of the mapped dimension."""
    size = info.batch_size

    def folded(value: Any, dim: Any) -> Any:
        if isinstance(value, list):
            return [folded(*pair) for pair in zip(value, dim or [None] * len(value), strict=True)]
        if not isinstance(value, Tensor):
            return value
        value = value.expand(size, *value.shape) if dim is None else value.movedim(dim, 0)
        return value.flatten(0, 1)

    found = operator(*map(folded, arguments, dims))
    return [part.unflatten(0, (size, len(part) // size)) for part in found], [0] * len(found)
