"""The k best trees of one sentence by any decoder that has them, for compiled code to call."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numba import types
from numba.extending import overload

from gpuparse.inference.kernels.cpu.chu_liu_edmonds_kbest import (
    ChuLiuEdmondsKBestScratch,
    chu_liu_edmonds_kbest_sentence,
    make_chu_liu_edmonds_kbest_scratch,
)
from gpuparse.inference.kernels.cpu.eisner_kbest import (
    EisnerKBestScratch,
    eisner_kbest_sentence,
    make_eisner_kbest_scratch,
)
from gpuparse.inference.kernels.cpu.eisner_sibling_kbest import (
    EisnerSiblingKBestScratch,
    eisner_sibling_kbest_sentence,
    make_eisner_sibling_kbest_scratch,
)
from gpuparse.inference.kernels.cpu.siblings import Siblings


class KBestScratch(NamedTuple):
    """Working memory, and what is found; all but one of the decoders' own are None."""

    heads: np.ndarray  # (k, n + 1) int64: the trees found, the best first
    scores: np.ndarray  # (k,)
    eisner: EisnerKBestScratch | None
    eisner_sibling: EisnerSiblingKBestScratch | None
    chu_liu_edmonds: ChuLiuEdmondsKBestScratch | None


def _eisner(n: int, k: int) -> dict[str, Any]:
    return {"eisner": make_eisner_kbest_scratch(n, k)}


def _eisner_sibling(n: int, k: int) -> dict[str, Any]:
    return {"eisner_sibling": make_eisner_sibling_kbest_scratch(n, k)}


def _chu_liu_edmonds(n: int, k: int) -> dict[str, Any]:
    return {"chu_liu_edmonds": make_chu_liu_edmonds_kbest_scratch(n, k)}


# Name of the decoder, as in decode.DECODERS -> its scratch for sentences of n words and k trees.
K_BEST: dict[str, Callable[[int, int], dict[str, Any]]] = {
    "eisner": _eisner,
    "chu_liu_edmonds": _chu_liu_edmonds,
    "eisner_sibling": _eisner_sibling,
}


def make_k_best_scratch(decoder: str, n: int, k: int) -> KBestScratch:
    """Working memory of a decoder for float64 scores, sentences of up to n words, and k trees."""
    nothing = KBestScratch(np.empty((k, n + 1), np.int64), np.empty(k), None, None, None)
    return nothing._replace(**K_BEST[decoder](n, k))


def search_k_best(
    scores: np.ndarray, siblings: Siblings | None, n: int, single_root: bool, scratch: KBestScratch
) -> int:
    """Fill scratch.heads[:, 1:n+1] and scratch.scores with the best trees; returns how many."""
    raise TypeError("only compiled code can call this")


@overload(search_k_best)
def _choose_search(scores, siblings, n, single_root, scratch):  # type: ignore[no-untyped-def]
    def is_there(field):  # type: ignore[no-untyped-def]
        return not isinstance(scratch.types[scratch.fields.index(field)], types.NoneType)

    def by_eisner(scores, siblings, n, single_root, scratch):  # type: ignore[no-untyped-def]
        return eisner_kbest_sentence(
            scores, n, single_root, len(scratch.heads), scratch.eisner, scratch.heads,
            scratch.scores,
        )  # fmt: skip

    def by_eisner_sibling(scores, siblings, n, single_root, scratch):  # type: ignore[no-untyped-def]
        return eisner_sibling_kbest_sentence(
            scores, siblings, n, single_root, len(scratch.heads), scratch.eisner_sibling,
            scratch.heads, scratch.scores,
        )  # fmt: skip

    def by_chu_liu_edmonds(scores, siblings, n, single_root, scratch):  # type: ignore[no-untyped-def]
        return chu_liu_edmonds_kbest_sentence(
            scores, n, single_root, len(scratch.heads), scratch.chu_liu_edmonds, scratch.heads,
            scratch.scores,
        )  # fmt: skip

    if is_there("eisner_sibling"):
        return by_eisner_sibling
    return by_chu_liu_edmonds if is_there("chu_liu_edmonds") else by_eisner
