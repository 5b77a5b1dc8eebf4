"""Units of probability: how much a point of score is worth, fitted to held-out trees."""

from collections.abc import Callable
from dataclasses import dataclass
from math import exp, log, sqrt

import numpy as np

from gpuparse.confidence import find_marginals
from gpuparse.data.batch import word_places
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import DataError
from gpuparse.evaluation.reliability import LEAST
from gpuparse.parser import Parser

WIDEST = log(100.0)  # how far from the unit before, up or down, another one is looked for
CLOSE = 0.02  # of the logarithm of a unit
_DEPREL = 7
_INVERSE_GOLDEN = (sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Fit:
    """Mean -ln of the probability of a gold head, and of a gold label given the gold head.

    Probabilities are taken to be no less than LEAST, as when calibration is measured: otherwise the
    few arcs that a model can hardly build, such as crossing ones, would decide how sure it is of
    all others.

    labels is None for a model without labels.
    """

    heads: float
    labels: float | None


def fit_units(
    model: Parser, treebank: Treebank, *, guides: np.ndarray | None = None, threads: int = 1
) -> tuple[Parser, Fit, Fit]:
    """The model with the units under which the gold heads and labels of a treebank are likeliest.

    That of the arcs makes the product of the probabilities of all gold arcs as large as can be,
    none of them being counted as less than LEAST;
    that of the labels does so for the gold labels given the gold arcs. No tree that is found
    changes.

    Args:
        treebank: gold trees that the model has not learned from. Words without a head are not
            counted, nor labels that the model does not know, nor, unless labels are found with the
            trees, those of sentences in which a head is missing.
        guides: (W,) as of `Model.parse`.
        threads: the units do not depend on them.
    Returns:
        The model, calibrated; how likely gold is without and with the new units.
    Raises:
        ConfigError: there are no sums over the decoder's trees. DataError: no word has a head.
    Cost: some twenty times that of all probabilities of the treebank.
    Source: temperature scaling (Guo, Pleiss, Sun & Weinberger 2017), section 4.2; differs: of
        scores of whole trees.
    """
    batch = model.encode(treebank, guides)
    if not (treebank.heads >= 0).any():
        raise DataError(f"{treebank.source}: no word has a head to fit probabilities to")
    places = word_places(batch)
    heads = np.full(batch.values.shape[1], -1, np.int64)
    labels = heads.copy()
    heads[places], labels[places] = treebank.heads, _label_numbers(model, treebank)

    def fit(arc_unit: float, label_unit: float, which: str = "both") -> Fit:
        found = find_marginals(
            model.with_scales(arc_unit, label_unit),
            batch,
            heads,
            labels,
            which=which,
            threads=threads,
        )
        return Fit(_mean_loss(found.heads) or 0.0, _mean_loss(found.labels))

    arc_unit, label_unit = model.arc_scale, model.label_scale
    before = fit(arc_unit, label_unit)
    arc_unit = _best_unit(arc_unit, lambda u: fit(u, label_unit, "heads").heads)
    if before.labels is not None:
        label_unit = _best_unit(label_unit, lambda u: fit(arc_unit, u, "labels").labels or 0.0)
    return model.with_scales(arc_unit, label_unit), before, fit(arc_unit, label_unit)


def _label_numbers(model: Parser, treebank: Treebank) -> np.ndarray:
    """(W,) the model's numbers of the words' relations, -1 for those it does not know."""
    ids, names = column_ids(treebank, _DEPREL)
    numbers = {name: number for number, name in enumerate(model.labels)}
    return np.array([numbers.get(name, -1) for name in names] or [-1], np.int64)[ids]


def _mean_loss(chances: np.ndarray) -> float | None:
    known = chances[~np.isnan(chances)]
    return float(-np.log(known.clip(min=LEAST)).mean()) if len(known) else None


def _best_unit(start: float, loss: Callable[[float], float]) -> float:
    """The unit of the least loss, by golden section over its logarithm."""
    low, high = log(start) - WIDEST, log(start) + WIDEST
    left, right = (high - _INVERSE_GOLDEN * (high - low), low + _INVERSE_GOLDEN * (high - low))
    of_left, of_right = loss(exp(left)), loss(exp(right))
    while high - low > CLOSE:
        if of_left <= of_right:
            high, right, of_right = right, left, of_left
            left = high - _INVERSE_GOLDEN * (high - low)
            of_left = loss(exp(left))
        else:
            low, left, of_left = left, right, of_right
            right = low + _INVERSE_GOLDEN * (high - low)
            of_right = loss(exp(right))
    return exp((low + high) / 2)
