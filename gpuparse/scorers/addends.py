"""The scorers that are added to templates: a parser has that of templates first, then these."""

from collections.abc import Callable
from typing import Any, NamedTuple

from gpuparse.scorers.vectors import stored
from gpuparse.scorers.vectors.scorer import KIND, VectorScorer


class AddendKind(NamedTuple):
    """A kind of scorer that is added to templates: how it is written into a model folder and read.

    See `gpuparse.scorers.vectors.stored`.
    """

    arrays: Callable[..., dict[str, Any]]
    facts: Callable[..., dict[str, Any]]
    names: Callable[..., tuple[set[str], set[str]]]
    read: Callable[..., VectorScorer | None]


ADDENDS = {KIND: AddendKind(stored.arrays, stored.facts, stored.names, stored.read)}
