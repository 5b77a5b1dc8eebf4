"""The scorers that are added to templates: a parser has that of templates first, then these."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuparse.scorers.vectors import blending, stored
from gpuparse.scorers.vectors.scorer import KIND, VectorScorer


class AddendKind(NamedTuple):
    """What is done with a kind of scorer that is added to templates.

    arrays, facts, names, read: write it into a model folder, and read it; see
    `gpuparse.scorers.vectors.stored`. difference, common, blended: sum several of them; see
    `gpuparse.scorers.vectors.blending`. after: makes the scorer of some numbers and templates.
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


ADDENDS = {
    KIND: AddendKind(
        KIND, stored.arrays, stored.facts, stored.names, stored.read, blending.difference,
        blending.common, blending.blended, VectorScorer.after,
    )
}  # fmt: skip
