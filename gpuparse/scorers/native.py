"""The doors to compiled scoring and parsing: token values to trees and labels, with numpy alone.

Structs here are those of native/api/scoring.h and native/api/parsing.h, by the same names.
"""

from typing import Any, NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.errors import NoTreeError
from gpuparse.features.plan import Plan
from gpuparse.inference.decoders import DECODERS
from gpuparse.inference.search import Search
from gpuparse.scorers.linear.weights import JointLabels, RowMap, Weights

_NONE = np.zeros(0, np.int64)


class Sentences(NamedTuple):
    """Sentences of a batch; known: (tokens,) int64 heads that trees shall have, -1 for none.

    vectors: numbers of word vectors that parsing keeps for labels, as native/api/scoring.h says.
    """

    values: np.ndarray
    starts: np.ndarray
    lengths: np.ndarray
    known: np.ndarray
    vectors: np.ndarray | None = None


class NativeScorer(NamedTuple):
    """The struct by which parts are scored, and the arrays that it points to.

    joint: of labels found with the trees. vectors: word vectors, which add to the scores of arcs
    and of joint labels.
    """

    plan: Plan
    weights: np.ndarray
    rows: RowMap
    joint: JointLabels | None
    vectors: native.Struct | None


class ArcCells(NamedTuple):
    """Arcs left by pruning: h -> m of the sentence at token t at firsts[t] + h * (n + 1) + m."""

    firsts: np.ndarray
    cells: np.ndarray


class GraphHeads(NamedTuple):
    """Heads of words in graphs: those of the word at token t are heads[starts[t] : starts[t + 1]].

    may_be_primary: (labels,) bool, the labels that arcs from primary heads may have.
    """

    starts: np.ndarray
    heads: np.ndarray
    may_be_primary: np.ndarray | None


def make_scorer(
    plan: Plan,
    weights: Weights,
    rows: RowMap,
    joint: JointLabels | None = None,
    vectors: native.Struct | None = None,
) -> native.Struct:
    """The struct by which parts of many batches are scored; values of weights (R, 1) may change."""
    scorer = NativeScorer(plan, weights.array.reshape(-1), rows, joint, vectors)
    return native.struct("Scorer", scorer)


def make_search(decoder: str, **options: Any) -> native.Struct:
    """A search by the name of its decoder; options: the other fields of `Search`."""
    return native.struct("Search", Search(DECODERS[decoder].number, **options))


def sentences_of(
    batch: Batch, known: np.ndarray = _NONE, vectors: np.ndarray | None = None
) -> native.Struct:
    """The sentences of a batch, as compiled functions take them."""
    given = Sentences(batch.values, batch.starts, batch.lengths, known, vectors)
    return native.struct("Sentences", given)


def require_all(failed: int) -> None:
    """Raise NoTreeError for the sentence that was found to have no tree, -1 for none."""
    if failed >= 0:
        raise NoTreeError(f"sentence {failed} of the batch has no tree")
