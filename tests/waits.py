"""Operations that would wait for a GPU, found on tensors of any device."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

# Operations whose results have values, or sizes, that the host has to know.
WAITING = {
    f"aten::{name}"
    for name in ("_local_scalar_dense", "nonzero", "masked_select", "equal", "is_nonzero",
                 "bincount", "_unique2", "unique_consecutive", "repeat_interleave.Tensor")
}  # fmt: skip


class Waits(TorchDispatchMode):
    """Tells the names of such operations."""

    def __init__(self, tell: Callable[[str], None]) -> None:
        super().__init__()
        self._tell = tell

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        has_size = (kwargs or {}).get("output_size") is not None
        is_index = name.startswith(("aten::index.", "aten::index_put", "aten::_index_put"))
        if is_index and any(each is not None and each.dtype == torch.bool for each in args[1]):
            self._tell(f"{name} of a mask")
        elif name in WAITING and not has_size:
            self._tell(name)
        return func(*args, **kwargs or {})


@contextmanager
def listed_waits() -> Iterator[list[str]]:
    """The waits, in turn; copies to main memory among them."""
    found: list[str] = []

    def noted(name: str) -> Callable[..., Any]:
        read = getattr(torch.Tensor, name)

        def note(tensor: torch.Tensor) -> Any:
            found.append(name)
            return read(tensor)

        return note

    with pytest.MonkeyPatch.context() as patch, Waits(found.append):
        for name in ("tolist", "cpu"):
            patch.setattr(torch.Tensor, name, noted(name))
        yield found
