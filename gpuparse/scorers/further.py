"""The scorers that may come after that of templates: their scores are added to those of parts."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuparse.scorers.vectors import blending, stored
from gpuparse.scorers.vectors.scorer import KIND, VectorScorer


class FurtherScorer(NamedTuple):
    """A kind of scorer, and the functions that need no scorer of it.

    names, read: of a model folder; see `gpuparse.scorers.vectors.stored`.
    difference, common, blended: see `gpuparse.scorers.vectors.blending`.
    after: the scorer of given numbers, after one of templates.
    """

    kind: str
    arrays: Callable[..., dict[str, Any]]
    facts: Callable[..., dict[str, Any]]
    names: Callable[..., tuple[set[str], set[str]]]
    read: Callable[..., VectorScorer | None]
    difference: Callable[..., str | None]
    common: Callable[..., Any]
    blended: Callable[..., Any]
    after: Callable[..., VectorScorer]


FURTHER_SCORERS = {
    KIND: FurtherScorer(
        KIND, stored.arrays, stored.facts, stored.names, stored.read, blending.difference,
        blending.common, blending.blended, VectorScorer.after,
    )
}  # fmt: skip
