"""The best tree of one sentence by any first-order decoder, for other compiled code to call."""

from typing import NamedTuple

import numpy as np
from numba import njit

from gpuparse.inference.kernels.cpu.chu_liu_edmonds import (
    chu_liu_edmonds_scratch_sizes,
    chu_liu_edmonds_sentence,
)
from gpuparse.inference.kernels.cpu.eisner import eisner_scratch_size, eisner_sentence

EISNER, CHU_LIU_EDMONDS = 0, 1
NUMBERS = {"eisner": EISNER, "chu_liu_edmonds": CHU_LIU_EDMONDS}  # as in decode.DECODERS


class SearchScratch(NamedTuple):
    """Working memory of one decoder for sentences of up to n words; contents do not matter."""

    floats: np.ndarray
    stack: np.ndarray
    ints: np.ndarray


def make_search_scratch(
    decoder: int, n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> SearchScratch:
    """Working memory of a decoder, for scores of this type and sentences of up to n words."""
    itemsize = np.dtype(dtype).itemsize
    if decoder == EISNER:
        n_floats, n_spans, n_ints = eisner_scratch_size(n, itemsize), 2 * n + 4, 0
    else:
        n_floats, n_ints = chu_liu_edmonds_scratch_sizes(n, itemsize)
        n_spans = 0
    return SearchScratch(
        np.empty(n_floats, dtype), np.empty((n_spans, 3), np.int64), np.empty(n_ints, np.int32)
    )


# Inlined: one level less for numba to compile again for every caller.
@njit(cache=True, nogil=True, inline="always")
def search(
    decoder: int,
    scores: np.ndarray,
    n: int,
    single_root: bool,
    scratch: SearchScratch,
    heads: np.ndarray,
) -> bool:
    """Fill heads[1:n+1] with the best tree; return whether there is one.

    Args: decoder EISNER or CHU_LIU_EDMONDS; scores (>= n+1, >= n+1), n >= 1, in the type of the
    scratch, which was made for this decoder.
    """
    if decoder == EISNER:
        return eisner_sentence(scores, n, single_root, scratch.floats, scratch.stack, heads)
    return chu_liu_edmonds_sentence(scores, n, single_root, scratch.floats, scratch.ints, heads)
