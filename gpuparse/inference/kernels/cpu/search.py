"""The best tree of one sentence by any first-order decoder, for other compiled code to call."""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import inlined
from gpuparse.inference.kernels.cpu.chu_liu_edmonds import (
    chu_liu_edmonds_scratch_sizes,
    chu_liu_edmonds_sentence,
)
from gpuparse.inference.kernels.cpu.eisner import eisner_scratch_size, eisner_sentence


class SearchScratch(NamedTuple):
    """Working memory of one decoder for sentences of up to n words; contents do not matter.

    `stack` is None but for Eisner, `ints` but for Chu-Liu/Edmonds: which of them is there tells
    `search` which decoder is meant, when it is compiled, so that the other one is left out.
    """

    floats: np.ndarray
    stack: np.ndarray | None
    ints: np.ndarray | None


def _eisner_scratch(n: int, dtype: np.dtype) -> SearchScratch:
    floats = np.empty(eisner_scratch_size(n, dtype.itemsize), dtype)
    return SearchScratch(floats, np.empty((2 * n + 4, 3), np.int64), None)


def _chu_liu_edmonds_scratch(n: int, dtype: np.dtype) -> SearchScratch:
    n_floats, n_ints = chu_liu_edmonds_scratch_sizes(n, dtype.itemsize)
    return SearchScratch(np.empty(n_floats, dtype), None, np.empty(n_ints, np.int32))


# Name of the decoder, as in decode.DECODERS -> its scratch.
SCRATCH: dict[str, Callable[[int, np.dtype], SearchScratch]] = {
    "eisner": _eisner_scratch,
    "chu_liu_edmonds": _chu_liu_edmonds_scratch,
}


def make_search_scratch(
    decoder: str, n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> SearchScratch:
    """Working memory of a decoder, for scores of this type and sentences of up to n words."""
    return SCRATCH[decoder](n, np.dtype(dtype))


# Inlined: one level less for numba to compile again for every caller.
@inlined
def search(
    scores: np.ndarray, n: int, single_root: bool, scratch: SearchScratch, heads: np.ndarray
) -> bool:
    """Fill heads[1:n+1] with the best tree; return whether there is one.

    Args: scores (>= n+1, >= n+1), n >= 1, in the type of the scratch, which decides the decoder.
    """
    return _search(scores, n, single_root, scratch.floats, scratch.stack, scratch.ints, heads)


def _search(
    scores: np.ndarray,
    n: int,
    single_root: bool,
    floats: np.ndarray,
    stack: np.ndarray | None,
    ints: np.ndarray | None,
    heads: np.ndarray,
) -> bool:
    raise TypeError("only compiled code can call this")


@overload(_search)
def _choose_search(scores, n, single_root, floats, stack, ints, heads):  # type: ignore[no-untyped-def]
    if isinstance(ints, types.NoneType):
        return lambda scores, n, single_root, floats, stack, ints, heads: eisner_sentence(
            scores, n, single_root, floats, stack, heads
        )
    return lambda scores, n, single_root, floats, stack, ints, heads: chu_liu_edmonds_sentence(
        scores, n, single_root, floats, ints, heads
    )
