"""How sure of a tree: what the compiled forms need, made ready for a batch."""

from typing import NamedTuple

import numpy as np

from gpuparse.data.batch import Batch
from gpuparse.errors import NoTreeError
from gpuparse.features.label_plan import LabelPlan
from gpuparse.features.plan import Plan
from gpuparse.inference.kernels.cpu.search_k_best import make_k_best_scratch
from gpuparse.scoring import cpu_confidence
from gpuparse.scoring.cpu import RowMap
from gpuparse.scoring.cpu_confidence import make_sum_scratch, trust_sentences
from gpuparse.scoring.cpu_joint import JointLabels
from gpuparse.scoring.cpu_labels import make_label_scratch
from gpuparse.scoring.cpu_parse import make_parse_scratch
from gpuparse.scoring.weights import Weights


class TreeScorer(NamedTuple):
    """What the trees of a sentence are scored and searched with."""

    plan: Plan
    weights: np.ndarray  # (R,)
    rows: RowMap
    joint: JointLabels | None  # of labels found with the trees
    decoder: str
    single_root: bool


class Chances(NamedTuple):
    """Probabilities by place, NaN where nothing is asked or known.

    heads: (K, T) of the arcs of K trees. labels: (K, T) of their labels, given the arcs.
    """

    heads: np.ndarray
    labels: np.ndarray


def no_chances(k: int, n_places: int) -> Chances:
    """Probabilities yet to be filled in."""
    return Chances(np.full((k, n_places), np.nan), np.full((k, n_places), np.nan))


def trust_trees(
    batch: Batch,
    scorer: TreeScorer,
    units: tuple[float, float],
    known: np.ndarray,
    heads: np.ndarray,
    labels: np.ndarray,
    chances: Chances,
    *,
    least_risk: bool = False,
) -> np.ndarray:
    """Fill in the probabilities of K trees of every sentence, of labels if found with the trees.

    Args:
        batch: B sentences.
        scorer: of a decoder in `cpu_confidence.SUMS`.
        units: nats a point of a tree's score, and of a label's.
        known: (T,) heads by place that all trees have, -1 for none; empty: nothing is known.
        heads, labels: (K, T) int64 by place, -1 where nothing is asked.
        chances: filled in for the batch's sentences.
        least_risk: whether heads[0], and labels[0] if found with the trees, are first to be filled
            with the trees of the most expected right heads.
    Returns:
        (B,) logarithms of the sums over all trees.
    Raises:
        NoTreeError: no tree has what is known of a sentence, named by its number in the batch.
    Cost: one scoring of all arcs and the sums over trees.
    """
    starts, lengths = batch.starts, batch.lengths
    longest, log_partitions = int(lengths.max()), np.zeros(len(lengths))
    scratch = make_parse_scratch(
        scorer.plan, scorer.rows, scorer.joint, scorer.decoder, longest, scorer.weights
    )
    require_all(
        trust_sentences(
            batch.values, starts, lengths, scorer.plan, scorer.weights, scorer.rows,
            scorer.joint, scorer.single_root, known, *units, least_risk, scratch,
            make_sum_scratch(scorer.decoder, longest), heads, labels, *chances, log_partitions,
        )
    )  # fmt: skip
    return log_partitions


def trust_labels(
    batch: Batch,
    heads: np.ndarray,
    plan: LabelPlan,
    weights: Weights,
    unit: float,
    labels: np.ndarray,
    chances: np.ndarray,
) -> None:
    """Fill in the probabilities of labels of finished trees, each given its arc.

    Args:
        heads: (T,) int64 whole trees by place. labels: (T,) int64, -1 where nothing is asked.
        unit: nats a point of the label scores.
        chances: (T,) float64, filled in.
    Cost: as `best_labels`.
    """
    n_lines, n_labels = weights.array.shape
    scratch = make_label_scratch(
        len(plan.direction), n_labels, int(batch.lengths.max()),
        np.dtype(np.int32 if weights.is_integer else np.float32),
    )  # fmt: skip
    cpu_confidence.trust_labels(
        batch.values, batch.starts, batch.lengths, heads, plan,
        weights.array.reshape(-1), n_lines, unit, scratch, labels, chances,
    )  # fmt: skip


def find_k_best(
    batch: Batch, scorer: TreeScorer, known: np.ndarray, heads: np.ndarray, labels: np.ndarray
) -> np.ndarray:
    """Fill in the K best trees of every sentence, and their labels if found with the trees.

    Args:
        scorer: of a decoder in `K_BEST`.
        known: as of `trust_trees`.
        heads, labels: (K, T) int64 by place, filled in where there are as many trees.
    Returns:
        (K, B) scores, descending; -inf where there are fewer trees.
    Raises:
        NoTreeError: as `trust_trees`.
    Cost: one scoring of all arcs and the search for k trees.
    """
    starts, lengths = batch.starts, batch.lengths
    longest, k = int(lengths.max()), len(heads)
    scores = np.full((k, len(lengths)), -np.inf)
    scratch = make_parse_scratch(
        scorer.plan, scorer.rows, scorer.joint, scorer.decoder, longest, scorer.weights
    )
    require_all(
        cpu_confidence.find_k_best(
            batch.values, starts, lengths, scorer.plan, scorer.weights, scorer.rows,
            scorer.joint, scorer.single_root, known, scratch,
            make_k_best_scratch(scorer.decoder, longest, k), heads, labels, scores,
        )
    )  # fmt: skip
    return scores


def require_all(failed: int) -> None:
    """Raise NoTreeError for the sentence that was found to have no tree, -1 for none."""
    if failed >= 0:
        raise NoTreeError(f"sentence {failed} of the batch has no tree")
