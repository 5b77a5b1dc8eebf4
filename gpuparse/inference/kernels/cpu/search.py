"""The best tree or graph of one sentence by any decoder, for other compiled code to call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.compiled import inlined
from gpuparse.inference.kernels.cpu.arc_gains import GainScratch, make_gain_scratch
from gpuparse.inference.kernels.cpu.chu_liu_edmonds import (
    chu_liu_edmonds_scratch_sizes,
    chu_liu_edmonds_sentence,
)
from gpuparse.inference.kernels.cpu.eisner import eisner_scratch_size, eisner_sentence
from gpuparse.inference.kernels.cpu.eisner_sibling import (
    SiblingScratch,
    eisner_sibling_sentence,
    make_sibling_scratch,
)
from gpuparse.inference.kernels.cpu.hill_climb import hill_climb_sentence
from gpuparse.inference.kernels.cpu.larger_parts import LargerParts
from gpuparse.inference.kernels.cpu.multi_parent import fill_primary_heads, multi_parent_sentence
from gpuparse.inference.kernels.cpu.search_larger import (
    LargerSearch,
    make_larger_search,
    search_larger,
)
from gpuparse.inference.kernels.cpu.siblings import Siblings


class SearchScratch(NamedTuple):
    """Working memory of one decoder for sentences of up to n words; contents do not matter.

    Which fields are None tells `search` which decoder is meant, when it is compiled, so that the
    others are left out.
    """

    floats: np.ndarray | None  # of the first order
    stack: np.ndarray | None  # of Eisner
    ints: np.ndarray | None  # of Chu-Liu/Edmonds
    chart: SiblingScratch | None  # of the second order
    gains: GainScratch | None  # of searches by single changes
    arcs: np.ndarray | None  # of graphs: bool (n + 1, n + 1), [h, m], filled by `search`


_NOTHING = SearchScratch(None, None, None, None, None, None)


def _eisner_scratch(n: int, dtype: Any) -> SearchScratch:
    floats = np.empty(eisner_scratch_size(n, np.dtype(dtype).itemsize), dtype)
    return _NOTHING._replace(floats=floats, stack=np.empty((2 * n + 4, 3), np.int64))


def _chu_liu_edmonds_scratch(n: int, dtype: Any) -> SearchScratch:
    n_floats, n_ints = chu_liu_edmonds_scratch_sizes(n, np.dtype(dtype).itemsize)
    return _NOTHING._replace(floats=np.empty(n_floats, dtype), ints=np.empty(n_ints, np.int32))


def _eisner_sibling_scratch(n: int, dtype: Any) -> SearchScratch:
    return _NOTHING._replace(chart=make_sibling_scratch(n, dtype))


def _hill_climb_scratch(n: int, dtype: Any) -> SearchScratch:
    return _eisner_sibling_scratch(n, dtype)._replace(gains=make_gain_scratch(n, dtype))


def _multi_parent_scratch(n: int, dtype: Any) -> SearchScratch:
    arcs = np.zeros((n + 1, n + 1), np.bool_)
    return _hill_climb_scratch(n, dtype)._replace(arcs=arcs)


def _larger(which: str) -> Callable[[int, Any], LargerSearch]:
    return lambda n, dtype: make_larger_search(which, n)


# Name of the decoder, as in decode.DECODERS -> its scratch.
SCRATCH: dict[str, Callable[[int, Any], SearchScratch | LargerSearch]] = {
    "eisner": _eisner_scratch,
    "chu_liu_edmonds": _chu_liu_edmonds_scratch,
    "eisner_sibling": _eisner_sibling_scratch,
    "hill_climb": _hill_climb_scratch,
    "multi_parent": _multi_parent_scratch,
    "eisner_grandchild": _larger("by_grandchildren"),
    "eisner_grand_sibling": _larger("by_grand_siblings"),
    "eisner_tri_sibling": _larger("by_tri_siblings"),
    "dual_decomposition": _larger("by_dual_decomposition"),
    # Integer programs are not for compiled code to call; where it has to search, it does so.
    "ilp": _larger("by_dual_decomposition"),
}


def make_search_scratch(
    decoder: str, n: int, dtype: type[np.float32] | type[np.float64] = np.float64
) -> Any:
    """Working memory of a decoder, for scores of this type and sentences of up to n words.

    Returns: SearchScratch, or LargerSearch beyond the second order.
    """
    return SCRATCH[decoder](n, dtype)


# Inlined: one level less for numba to compile again for every caller.
@inlined
def search(
    scores: np.ndarray,
    siblings: Siblings | LargerParts | None,
    n: int,
    single_root: bool,
    min_gain: float,
    scratch: SearchScratch | LargerSearch,
    heads: np.ndarray,
) -> bool:
    """Fill heads[1:n+1] with the tree that is found; return whether there is one.

    Args: scores (>= n+1, >= n+1), n >= 1, in the type of the scratch, which decides the decoder;
    siblings: None for decoders of the first order, LargerParts for those beyond the second;
    min_gain: of searches that make single changes, and of trees with crossing arcs, see
    `prefer_projective`.
    Where graphs are searched for, the graph is in scratch.arcs, and heads are its primary ones.
    """
    return _search(scores, siblings, n, single_root, min_gain, scratch, heads)


def _search(
    scores: np.ndarray,
    siblings: Siblings | LargerParts | None,
    n: int,
    single_root: bool,
    min_gain: float,
    scratch: SearchScratch | LargerSearch,
    heads: np.ndarray,
) -> bool:
    raise TypeError("only compiled code can call this")


@overload(_search)
def _choose_search(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
    if scratch.instance_class is LargerSearch:
        return lambda scores, siblings, n, single_root, min_gain, scratch, heads: search_larger(
            scores, siblings, n, single_root, min_gain, scratch, heads
        )

    def is_there(field):  # type: ignore[no-untyped-def]
        return not isinstance(scratch.types[scratch.fields.index(field)], types.NoneType)

    def by_eisner(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
        return eisner_sentence(scores, n, single_root, scratch.floats, scratch.stack, heads)

    def by_chu_liu_edmonds(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
        return chu_liu_edmonds_sentence(scores, n, single_root, scratch.floats, scratch.ints, heads)

    def by_eisner_sibling(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
        return eisner_sibling_sentence(scores, siblings, n, single_root, scratch.chart, heads)

    def by_hill_climb(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
        found = eisner_sibling_sentence(scores, siblings, n, single_root, scratch.chart, heads)
        if found:
            gains = scratch.gains
            hill_climb_sentence(scores, siblings, n, single_root, -1, min_gain, gains, heads)
        return found

    def by_multi_parent(scores, siblings, n, single_root, min_gain, scratch, heads):  # type: ignore[no-untyped-def]
        found = eisner_sibling_sentence(scores, siblings, n, single_root, scratch.chart, heads)
        if found:
            arcs = scratch.arcs
            multi_parent_sentence(
                scores, siblings, n, single_root, -1, min_gain, scratch.gains, heads, arcs
            )
            fill_primary_heads(n, arcs, heads)
        return found

    if is_there("arcs"):
        return by_multi_parent
    if is_there("gains"):
        return by_hill_climb
    if is_there("chart"):
        return by_eisner_sibling
    return by_chu_liu_edmonds if is_there("ints") else by_eisner
