"""Marginals of trees and labels, and the k best trees: the doors to native code, for a batch."""

from typing import NamedTuple

import numpy as np

from gpuparse import native
from gpuparse.data.batch import Batch
from gpuparse.features.plan import LabelPlan, Plan
from gpuparse.scoring.joint_labels import JointLabels
from gpuparse.scoring.native import make_scorer, make_search, require_all, sentences_of
from gpuparse.scoring.weights import RowMap, Weights


class TreeScorer(NamedTuple):
    """What the trees of a sentence are scored and searched with."""

    plan: Plan
    weights: np.ndarray  # (R,)
    rows: RowMap
    joint: JointLabels | None  # of labels found with the trees
    decoder: str
    single_root: bool


class Marginals(NamedTuple):
    """Probabilities by token, NaN where nothing is asked or known.

    heads: (K, T) of the arcs of K trees. labels: (K, T) of their labels, given the arcs.
    """

    heads: np.ndarray
    labels: np.ndarray


def empty_marginals(k: int, n_tokens: int) -> Marginals:
    """Probabilities to be filled in."""
    return Marginals(np.full((k, n_tokens), np.nan), np.full((k, n_tokens), np.nan))


def find_tree_marginals(
    batch: Batch,
    scorer: TreeScorer,
    scales: tuple[float, float],
    known: np.ndarray,
    heads: np.ndarray,
    labels: np.ndarray,
    marginals: Marginals,
    *,
    least_risk: bool = False,
) -> np.ndarray:
    """Fill in the probabilities of K trees of every sentence, of labels if found with the trees.

    Args:
        batch: B sentences.
        scorer: of a decoder that has marginals.
        scales: nats of one point of a tree's score, and of a label's.
        known: (T,) heads by token that all trees have, -1 for none; empty: nothing is known.
        heads, labels: (K, T) int64 by token, -1 where nothing is asked.
        marginals: filled in for the batch's sentences.
        least_risk: whether heads[0], and labels[0] if found with the trees, are first to be filled
            with the trees of the most expected right heads.
    Returns:
        (B,) logarithms of the sums over all trees.
    Raises:
        NoTreeError: no tree has what is known of a sentence, named by its number in the batch.
    Cost: one scoring of all arcs and the sums over trees.
    """
    log_partitions = np.zeros(len(batch))
    require_all(
        native.call(
            "find_marginals_batch", sentences_of(batch, known), _scorer(scorer), _search(scorer),
            *scales, least_risk, heads, labels, *marginals, log_partitions,
        )
    )  # fmt: skip
    return log_partitions


def find_label_marginals(
    batch: Batch,
    heads: np.ndarray,
    plan: LabelPlan,
    weights: Weights,
    scale: float,
    labels: np.ndarray,
    marginals: np.ndarray,
) -> None:
    """Fill in the probabilities of labels of finished trees, each given its arc.

    Args:
        heads: (T,) int64 whole trees by token. labels: (T,) int64, -1 where nothing is asked.
        scale: nats a point of the label scores.
        marginals: (T,) float64, filled in.
    Cost: as `best_labels`.
    """
    native.call(
        "find_label_marginals_batch", sentences_of(batch), plan, weights.array, scale, heads,
        labels, marginals,
    )  # fmt: skip


def find_k_best(
    batch: Batch, scorer: TreeScorer, known: np.ndarray, heads: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Fill in the K best trees of every sentence, and their labels if found with the trees.

    Args:
        scorer: of a decoder that has k best trees.
        known: as in `find_tree_marginals`.
        heads, labels: (K, T) int64 by token, filled in where there are as many trees.
    Returns:
        (K, B) scores, descending; -inf where there are fewer trees.
    Raises:
        NoTreeError: as `find_tree_marginals`.
    Cost: one scoring of all arcs and the search for k trees.
    """
    scores = np.full((len(heads), len(batch)), -np.inf)
    require_all(
        native.call(
            "find_k_best_batch", sentences_of(batch, known), _scorer(scorer), _search(scorer),
            heads, labels, scores,
        )
    )  # fmt: skip
    return scores


def _scorer(scorer: TreeScorer) -> native.Struct:
    return make_scorer(scorer.plan, scorer.weights, scorer.rows, scorer.joint)


def _search(scorer: TreeScorer) -> native.Struct:
    return make_search(scorer.decoder, single_root=scorer.single_root)
