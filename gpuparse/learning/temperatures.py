"""The temperatures of a model's probabilities, fitted to gold trees and tags that it has not seen.

A probability is exp(scale * score) over a sum; the scale, in nats a point of score, is one over the
temperature.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace
from math import exp, log, sqrt

import numpy as np

from gpuparse.data.batch import word_places
from gpuparse.data.columns import DEPREL
from gpuparse.data.treebank import Treebank
from gpuparse.data.vocabulary import column_ids
from gpuparse.errors import DataError
from gpuparse.limits import LEAST_PROBABILITY
from gpuparse.model.confidence import find_marginals
from gpuparse.model.parser import Parser
from gpuparse.scorers.scorer import FillsTags
from gpuparse.text.tagging.tagger import Tagger

WIDEST = log(100.0)  # how far the logarithm of a scale may move, up or down
CLOSE = 0.02  # precision of the logarithm of a scale
PIECES = 20  # parts of a treebank with equal numbers of consecutive sentences
_LEARNED, _HELD_OUT = (0, 3, 6), (9,)  # of each ten pieces
_INVERSE_GOLDEN = (sqrt(5.0) - 1.0) / 2.0


@dataclass(frozen=True)
class Fit:
    """Mean -ln of the probability of a gold head, and of a gold label given the gold head.

    A probability counts as at least LEAST_PROBABILITY, as in measures of reliability: otherwise the
    few arcs that a model can hardly find, such as crossing ones, would decide the scale.

    labels is None for a model without labels; tags, of a gold UPOS, for one that fills none.
    """

    heads: float
    labels: float | None
    tags: float | None = None


def fits_as_text(before: Fit, after: Fit) -> str:
    """The log loss of the gold heads, relations and tags, before and after."""
    text = f"log loss of heads {before.heads:.4f} -> {after.heads:.4f} nats per word"
    if before.labels is not None and after.labels is not None:
        text += f", of relations {before.labels:.4f} -> {after.labels:.4f}"
    if before.tags is not None and after.tags is not None:
        text += f", of UPOS {before.tags:.4f} -> {after.tags:.4f}"
    return text


def fit_temperatures(
    parser: Parser, treebank: Treebank, *, guides: np.ndarray | None = None, threads: int = 1
) -> tuple[Parser, Fit, Fit]:
    """The parser with the scales under which the gold heads, labels and tags are most probable.

    The scale of arcs maximises the product of the probabilities of all gold arcs, none of them
    counted as less than LEAST_PROBABILITY; the scale of labels that of the gold labels given the
    gold arcs; and the scale of tags that of the gold UPOS, if the parser fills UPOS. No tree or tag
    that is found changes.

    Args:
        treebank: gold trees that the model has not learned from. Words without a head are not
            counted, nor labels that the model does not know, nor, unless labels are found with the
            trees, those of sentences in which a head is missing.
        guides: (W,) as in `parse`.
        threads: the scales do not depend on them.
    Returns:
        The parser, calibrated; how probable gold is with the scales before and with the new ones.
    Raises: ConfigError: the decoder has no sums over its trees. DataError: no word has a head.
    Cost: some twenty times that of all probabilities of the treebank.
    Source: temperature scaling (Guo, Pleiss, Sun & Weinberger 2017), section 4.2; differs: of
        scores of whole trees.
    """
    batch = parser.encode(treebank, guides)
    if not (treebank.heads >= 0).any():
        raise DataError(f"{treebank.source}: no word has a head to fit probabilities to")
    tokens = word_places(batch)
    heads = np.full(batch.n_tokens, -1, np.int64)
    labels = heads.copy()
    heads[tokens], labels[tokens] = treebank.heads, label_numbers(parser, treebank)

    def fit(arc_scale: float, label_scale: float, which: str = "both") -> Fit:
        found = find_marginals(
            parser.with_scales(arc_scale, label_scale), batch, heads, labels, which=which,
            threads=threads,
        )  # fmt: skip
        return Fit(_mean_loss(found.heads) or 0.0, _mean_loss(found.labels))

    arc_scale, label_scale = parser.scales.arc, parser.scales.label
    before = fit(arc_scale, label_scale)
    arc_scale = _best_scale(arc_scale, lambda scale: fit(scale, label_scale, "heads").heads)
    if before.labels is not None:
        label_scale = _best_scale(
            label_scale, lambda scale: fit(arc_scale, scale, "labels").labels or 0.0
        )
    after = fit(arc_scale, label_scale)
    scaled, of_tags = _with_fitted_tags(parser.with_scales(arc_scale, label_scale), treebank)
    return scaled, replace(before, tags=of_tags[0]), replace(after, tags=of_tags[1])


def _with_fitted_tags(
    parser: Parser, treebank: Treebank
) -> tuple[Parser, tuple[float | None, float | None]]:
    """The parser with a fitted scale of tags, if it fills UPOS, and the loss before and after."""
    found: tuple[float | None, float | None] = None, None
    scorers = list(parser.scorers)
    for i, scorer in enumerate(scorers):
        if not isinstance(scorer, FillsTags) or (loss := scorer.tag_losses(treebank)) is None:
            continue
        scale = _best_scale(scorer.tag_scale, loss)
        found = loss(scorer.tag_scale), loss(scale)
        scorers[i] = scorer.with_tag_scale(scale)
    return replace(parser, scorers=tuple(scorers)), found


def fit_tag_temperature(
    tagger: Tagger, treebank: Treebank, *, threads: int = 1
) -> tuple[Tagger, float, float]:
    """The tagger with the scale under which the gold pairs of UPOS and XPOS are most probable.

    No tag that is found changes.

    Args: treebank: gold tags that the tagger has not learned from. Words without tags, or with a
        pair that it does not know, are not counted.
    Returns:
        The tagger, calibrated; the mean -ln of the probability of a gold pair with the scale
        before and with the new one, each probability counted as at least LEAST_PROBABILITY.
    Raises: DataError: no word has a known pair.
    Cost: some twenty times that of all probabilities of tags of the treebank.
    """
    loss = tagger.losses(treebank, threads=threads)
    if loss is None:
        raise DataError(f"{treebank.source}: no word has tags to fit probabilities to")
    scale = tagger.pairs.scale
    fitted = _best_scale(scale, loss)
    return tagger.with_scale(fitted), loss(scale), loss(fitted)


def calibration_parts(n_sentences: int) -> tuple[np.ndarray, np.ndarray] | None:
    """The sentences that a second parser learns from, and those that it is fitted to.

    Temperatures hardly depend on how many sentences a parser has learned from, so that 30 % of them
    suffice. Both parts are from the whole treebank, in pieces of consecutive sentences, for
    neighbours are often of the same text.

    Returns: (S,) bool each, without a sentence in common; None if there are too few sentences.
    """
    if n_sentences < PIECES:
        return None
    pieces = np.arange(n_sentences) * PIECES // n_sentences % 10
    return np.isin(pieces, _LEARNED), np.isin(pieces, _HELD_OUT)


def with_temperatures_of(parser: Parser, other: Parser, fitted: Parser) -> Parser:
    """The parser with the temperatures that another one of the same config was fitted with.

    Args: other: before it was fitted; fitted: afterwards.
    """
    scorers = list(parser.scorers)
    for i, each in enumerate(zip(parser.scorers, other.scorers, fitted.scorers, strict=True)):
        filling = [scorer for scorer in each if isinstance(scorer, FillsTags)]
        if filling:
            own, before, after = filling
            scorers[i] = own.with_tag_scale(own.tag_scale * after.tag_scale / before.tag_scale)
    return replace(parser, scorers=tuple(scorers)).with_scales(
        parser.scales.arc * fitted.scales.arc / other.scales.arc,
        parser.scales.label * fitted.scales.label / other.scales.label,
    )


def label_numbers(parser: Parser, treebank: Treebank) -> np.ndarray:
    """(W,) the model's numbers of the words' relations, -1 for those it does not know."""
    ids, names = column_ids(treebank, DEPREL)
    numbers = {name: number for number, name in enumerate(parser.labels)}
    return np.array([numbers.get(name, -1) for name in names] or [-1], np.int64)[ids]


def _mean_loss(probabilities: np.ndarray) -> float | None:
    known = probabilities[~np.isnan(probabilities)]
    return float(-np.log(known.clip(min=LEAST_PROBABILITY)).mean()) if len(known) else None


def _best_scale(start: float, loss: Callable[[float], float]) -> float:
    """The scale of the least loss, by golden section over its logarithm."""
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
